import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage
import TestDepth
import Testing

/// A call of the generated programs; a failing one changes nothing and is skipped.
enum ModelStep: Sendable, CustomStringConvertible {
    case create(String)
    case writeBlock(String)
    case append(String)
    case overwrite(String)
    case cut(String)
    case extend(String)
    case rename(String, String)
    case link(String, String)
    case unlink(String)
    case makeDirectory(String)
    case removeDirectory(String)
    case sync(String)
    case failSync(String)
    case store(String)
    case writeBack(String)

    func perform(on fileSystem: InMemoryFileSystem) {
        do {
            switch self {
            case .create(let path): try fileSystem.put(path, [])
            case .writeBlock(let path): try fileSystem.patch(path, letters("b", 4096), at: 4096)
            case .append(let path): try fileSystem.patch(path, letters("a", 700))
            case .overwrite(let path): try fileSystem.patch(path, letters("w", 900), at: 100)
            case .cut(let path): try fileSystem.cut(path, to: 300)
            case .extend(let path): try fileSystem.cut(path, to: 6000)
            case .rename(let path, let other): try fileSystem.move(path, other)
            case .link(let path, let other): try fileSystem.link(POSIXPath(path), to: POSIXPath(other))
            case .unlink(let path): try fileSystem.remove(path)
            case .makeDirectory(let path): try fileSystem.makeDirectory(path)
            case .removeDirectory(let path): try fileSystem.removeDirectory(POSIXPath(path))
            case .sync(let path): try fileSystem.sync(path)
            case .failSync(let path): try fileSystem.failSync(path)
            case .store(let path):
                try fileSystem.mapping(path) { mapping in
                    guard mapping.count > 390 else { return }
                    letters("m", 90).withUnsafeBytes { mapping.store($0, at: 300) }
                }
            case .writeBack(let path): try fileSystem.mapping(path) { try $0.writeBack() }
            }
        } catch {
            // The step does not apply to the current state.
        }
    }

    var description: String {
        switch self {
        case .create(let path): "create \(path)"
        case .writeBlock(let path): "write block \(path)"
        case .append(let path): "append \(path)"
        case .overwrite(let path): "overwrite \(path)"
        case .cut(let path): "cut \(path)"
        case .extend(let path): "extend \(path)"
        case .rename(let path, let other): "rename \(path) \(other)"
        case .link(let path, let other): "link \(path) \(other)"
        case .unlink(let path): "unlink \(path)"
        case .makeDirectory(let path): "mkdir \(path)"
        case .removeDirectory(let path): "rmdir \(path)"
        case .sync(let path): "fsync \(path)"
        case .failSync(let path): "failing fsync \(path)"
        case .store(let path): "store \(path)"
        case .writeBack(let path): "msync \(path)"
        }
    }

    /// The vocabulary over two directories with three names each, with the synchronisations that may follow.
    static let all: [[ModelStep]] = {
        var found: [[ModelStep]] = []
        func add(_ step: ModelStep, _ paths: String...) {
            found.append([step])
            for path in paths {
                found.append([step, .sync(path)])
                let parent = path.hasPrefix("/A") ? "/A" : "/B"
                found.append([step, .sync(parent)])
            }
        }
        for path in ["/A/x", "/A/y", "/B/x"] {
            for step: ModelStep in [
                .create(path), .writeBlock(path), .append(path), .overwrite(path), .cut(path), .extend(path),
                .store(path),
            ] { add(step, path) }
            add(.unlink(path), path)
        }
        for (path, other) in [("/A/x", "/A/y"), ("/A/x", "/B/x"), ("/B/x", "/A/x"), ("/A/y", "/A/x")] {
            add(.rename(path, other), path, other)
            add(.link(path, other), other)
        }
        for path in ["/A/s", "/B/s"] {
            add(.makeDirectory(path), path)
            add(.removeDirectory(path), path)
        }
        add(.rename("/A/s", "/B/s"), "/A/s", "/B/s")
        found += [[.failSync("/A/x")], [.failSync("/A")], [.store("/A/x"), .writeBack("/A/x")]]
        found.append([.store("/A/x"), .writeBack("/A/x"), .sync("/A/x")])
        return found
    }()
}

@Suite("The crash model")
struct CrashModelTests {
    private func states(
        of steps: [ModelStep], _ profile: CrashProfile, after effects: Int? = nil
    ) async throws -> [UInt64: DiskImage] {
        let explorer = CrashExplorer(
            profile: profile, marking: String.self,
            prepare: { fileSystem in
                try fileSystem.makeDirectory("/A")
                try fileSystem.makeDirectory("/B")
                try fileSystem.put("/A/x", letters("x", 1500))
                try fileSystem.makeDirectory("/A/s")
            }, run: { fileSystem, _ in steps.forEach { $0.perform(on: fileSystem) } }, recover: { _, _ in })
        return try await explorer.statesByHash(after: effects)
    }

    private func check(_ steps: [ModelStep]) async throws {
        var hashes: [String: Set<UInt64>] = [:]
        for profile in [
            CrashProfile.posixStrict, .freshInode, .orderedNames, .dropAllUnsynced, .keepAll, .processKill,
        ] {
            hashes[profile.name] = try await Set(states(of: steps, profile).keys)
        }
        func expectSubset(_ weak: String, _ strict: String) {
            #expect(hashes[weak]?.isSubset(of: hashes[strict] ?? []) == true, "\(weak) in \(strict): \(steps)")
        }
        expectSubset("freshInode", "posixStrict")
        expectSubset("orderedNames", "freshInode")
        expectSubset("keepAll", "orderedNames")
        expectSubset("dropAllUnsynced", "posixStrict")
        #expect(hashes["keepAll"] == hashes["processKill"])
    }

    @Test("weaker profiles allow no more than stricter ones, after every program of one step", arguments: ModelStep.all)
    func subsetsOfOne(_ steps: [ModelStep]) async throws {
        try await check(steps)
    }

    @Test(
        "weaker profiles allow no more than stricter ones, after programs of two and three steps",
        arguments: 0..<TestDepth.limit(50, deep: 150))
    func subsetsOfMore(_ seed: Int) async throws {
        var generator = SplitMix64(seed: UInt64(seed))
        let count = 2 + seed % 2
        let steps = (0..<count).flatMap { _ in ModelStep.all.randomElement(using: &generator) ?? [] }
        try await check(steps)
    }

    @Test("a program that synchronises everything has a single state", arguments: 0..<60)
    func synchronisedAtTheEnd(_ seed: Int) async throws {
        var generator = SplitMix64(seed: UInt64(seed) &+ 1000)
        let steps = (0..<3).flatMap { _ in ModelStep.all.randomElement(using: &generator) ?? [] }
            .filter { if case .failSync = $0 { false } else { true } }
        let writtenBack = ["/A/x", "/A/y", "/B/x"].map { ModelStep.writeBack($0) }
        let everything: [ModelStep] =
            writtenBack + ["/A/x", "/A/y", "/B/x", "/A/s", "/B/s", "/A", "/B", "/"].map { .sync($0) }
        let states = try await states(of: steps + everything, .posixStrict, after: .max)
        #expect(states.count == 1, "\(steps)")
    }

    @Test("a later fsync does not compensate for a failed one")
    func failedSynchronisation() async throws {
        let steps: [ModelStep] = [.overwrite("/A/x"), .failSync("/A/x"), .sync("/A/x"), .sync("/A/x")]
        let states = try await states(of: steps, .posixStrict, after: .max)
        #expect(states.count > 1)
        let names: [ModelStep] = [.unlink("/A/x"), .failSync("/A"), .sync("/A")]
        #expect(try await self.states(of: names, .posixStrict, after: .max).count == 2)
    }

    @Test("a barrier makes permissions durable, but no times; an fsync both")
    func barrier() async throws {
        for (level, timeCount) in [(SyncLevel.barrier, 2), (.full, 1)] {
            let explorer = CrashExplorer(
                marking: String.self, prepare: { try $0.put("/f", []) },
                run: { fileSystem, _ in
                    let file = FileReference.path("/f")
                    try fileSystem.setPermissions(FilePermissions(rawValue: 0o640), of: file)
                    try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 5), of: file)
                    try fileSystem.sync("/f", level)
                }, recover: { _, _ in })
            let statuses = try await explorer.states(after: .max).map { try InMemoryFileSystem($0).status("/f") }
            #expect(statuses.allSatisfy { $0.permissions.rawValue == 0o640 })
            let times = Set(statuses.map(\.modified))
            #expect(times.count == timeCount && times.contains(FileTime(seconds: 5)), "\(level)")
        }
    }

    @Test("a node that replaces one of another type is that one or the new one after a crash")
    func nodeTypes() async throws {
        for (old, new) in [(FileType.fifo, FileType.socket), (.characterSpecial, .blockSpecial)] {
            let explorer = CrashExplorer(
                marking: String.self,
                prepare: { fileSystem in
                    try fileSystem.createNode(
                        "/f", at: .workingDirectory, type: old, permissions: .ownerReadWrite, deviceNumber: 1)
                },
                run: { fileSystem, _ in
                    try fileSystem.createNode(
                        "/new", at: .workingDirectory, type: new, permissions: .ownerReadWrite, deviceNumber: 1)
                    try fileSystem.rename("/new", to: "/f")
                }, recover: { _, _ in })
            let types = try await explorer.states(after: .max).map { try InMemoryFileSystem($0).status("/f").type }
            #expect(Set(types) == [old, new])
        }
    }

    @Test("a directory never has two names after a crash")
    func movedDirectory() async throws {
        let states = try await states(of: [.rename("/A/s", "/B/s"), .sync("/B")], .posixStrict, after: .max)
        for image in states.values {
            let fileSystem = InMemoryFileSystem(image)
            #expect(fileSystem.has("/A/s") != fileSystem.has("/B/s"))
        }
    }

    @Test("the same program has the same states in the same order")
    func determinism() async throws {
        let steps: [ModelStep] = [.append("/A/x"), .rename("/A/x", "/B/x"), .create("/A/y")]
        let one = try await states(of: steps, .posixStrict)
        let other = try await states(of: steps, .posixStrict)
        #expect(Set(one.keys) == Set(other.keys))
    }
}

@Suite("Samples and reports of the crash explorer")
struct CrashSampleTests {
    @Test("a sample with room for them has every state with one or two differences, from either end")
    func pairs() async throws {
        let found = Mutex<Set<Set<Int>>>([])
        let report = try await forEachCrash(
            profile: .posixStrict.without(.tearsBlocks), limit: 300, depth: 1,
            prepare: { try $0.put("/f", letters("o", 12 * 4096)) }
        ) { fileSystem, _ in
            try fileSystem.patch("/f", letters("n", 12 * 4096), at: 0)
        } recover: { fileSystem, _ in
            let content = try fileSystem.readFile("/f")
            let old = Set((0..<12).filter { content[$0 * 4096] == UInt8(ascii: "o") })
            found.withLock { _ = $0.insert(old) }
        }
        let states = found.withLock { $0 }
        for first in 0..<12 {
            for second in first..<12 {
                let pair: Set = [first, second]
                #expect(states.contains(pair) && states.contains(Set(0..<12).subtracting(pair)), "\(pair)")
            }
        }
        #expect(report.sampledCrashPointCount == 1 && report.visitedStateCount >= 300, "\(report)")
        #expect(report.description.contains(" crash points sampled with all single deviations and pairs"))
    }

    @Test("the report counts the states that the profile allows")
    func counts() async throws {
        let report = try await forEachCrash(depth: 1) { fileSystem, _ in
            for name in ["/a", "/b"] { try fileSystem.put(name, letters("x", 10)) }
        } recover: { _, _ in
        }
        // Each file is absent, empty, filled with zeros or whole.
        #expect(report.possibleStateCount == 16 && report.visitedStateCount == 16 && report.isExhaustive)
        #expect(report.effectCount == 6 && report.crashPointCount == 7)
    }

    @Test("a random state of files that were moved has each file under its old name or its new one")
    func moves() async throws {
        let report = try await forEachCrash(
            limit: 300, depth: 1,
            prepare: { fileSystem in
                for directory in ["/A", "/B"] { try fileSystem.makeDirectory(directory) }
                for number in 0..<30 { try fileSystem.put("/A/\(number)", []) }
            }
        ) { fileSystem, _ in
            for number in 0..<30 { try fileSystem.move("/A/\(number)", "/B/\(number)") }
        } recover: { fileSystem, _ in
            for number in 0..<30 {
                try demand(fileSystem.has("/A/\(number)") || fileSystem.has("/B/\(number)"), "\(number) is lost")
            }
        }
        // Both ends, 60 states that differ in one name, and the random half of the rest.
        #expect(report.sampledCrashPointCount == 1 && report.visitedStateCount > 140, "\(report)")
    }

    @Test("an operation that another one needs is not left out of the fewest that fail")
    func shrinking() async throws {
        let error = await #expect(throws: CrashFailure.self) {
            try await forEachCrash(of: ["directory", "other", "file"]) {
                $0
            } perform: { operation, fileSystem in
                switch operation {
                case "directory":
                    try fileSystem.makeDirectory("/d")
                    try fileSystem.sync("/")
                case "file": try fileSystem.put("/d/f", letters("f", 10))
                default:
                    try fileSystem.put("/other", [])
                    try fileSystem.sync("/")
                }
            } recover: { fileSystem, crash in
                guard crash.acknowledged.contains("file") else { return }
                try demand(try fileSystem.content("/d/f") == letters("f", 10), "the file is lost")
            }
        }
        #expect(error?.report.shrunkOperations == ["directory", "file"])
    }

    @Test("the report has the speed, and each violation the last forty changes before it")
    func longLog() async throws {
        var explorer = CrashExplorer(
            depth: 1, marking: String.self,
            run: { fileSystem, _ in
                for number in 0..<50 {
                    try fileSystem.makeDirectory("/\(number)")
                    try fileSystem.sync("/")
                }
            },
            recover: { _, crash in try demand(crash.effectCount < 100, "too late") })
        explorer.diagnoses = false
        let report = try await explorer.explore()
        #expect(report.statesPerSecond == Double(report.stateCount) / (report.duration / .seconds(1)))
        let violation = try #require(report.violations.first)
        #expect(violation.log.count == 41 && violation.log.first == "…")
        let number = try #require(violation.crashes.first?.split(separator: " ").last)
        #expect(violation.log.last?.hasPrefix("\(number). ") == true, "\(violation)")
    }
}
