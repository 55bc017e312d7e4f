import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import TestDepth
import Testing

@Suite("The crash explorer")
struct CrashExplorerTests {
    /// A program whose recovery loses data if it is itself interrupted.
    private func fragileRecovery(depth: Int) -> CrashExplorer<String> {
        CrashExplorer(
            depth: depth, marking: String.self,
            prepare: { try $0.put("/journal", letters("v", 10)) },
            run: { fileSystem, _ in
                try fileSystem.put("/unrelated", [])
                try fileSystem.sync("/")
            },
            recover: { fileSystem, _ in
                if let value = try fileSystem.content("/journal") {
                    try fileSystem.remove("/journal")
                    try fileSystem.sync("/")
                    try fileSystem.put("/value", value)
                    try fileSystem.sync("/value")
                    try fileSystem.sync("/")
                }
                try demand(try fileSystem.content("/value") == letters("v", 10), "the value is lost")
            })
    }

    @Test("a recovery that is not crash-safe is detected with a depth of two")
    func nestedCrash() async throws {
        #expect(try await fragileRecovery(depth: 1).explore().holds)
        let report = try await fragileRecovery(depth: 2).explore()
        #expect(!report.holds)
        #expect(report.nestedStateCount > 0)
        let violation = try #require(report.violations.first)
        #expect(
            violation.crashes.count == 2 && violation.crashes.allSatisfy { $0.hasPrefix("power cut after change ") })
    }

    @Test("a printed identifier reconstructs its state")
    func replay() async throws {
        let explorer = fragileRecovery(depth: 2)
        let report = try await explorer.explore()
        #expect(!report.violations.isEmpty)
        for violation in report.violations {
            let id = try #require(CrashStateID(violation.id.description))
            #expect(id == violation.id)
            let thrown = await #expect(throws: Broken.self) { try await explorer.replay(id) }
            #expect(thrown?.description == violation.reason)
        }
    }

    @Test("an identifier is short, whatever the seed")
    func shortIdentifier() async throws {
        var explorer = fragileRecovery(depth: 2)
        explorer.seed = .max
        let report = try await explorer.explore()
        for violation in report.violations { #expect(violation.id.description.utf8.count <= 40, "\(violation.id)") }
        #expect(report.violations.first?.id.description.hasPrefix("posixStrict/3w5e11264sgsf#") ?? false)
    }

    @Test(
        "an invalid identifier is refused",
        arguments: [
            "", "posixStrict", "posixStrict/0", "posixStrict/0#", "posixStrict/0#0", "posixStrict/0#-1",
            "posixStrict#1",
            "posixStrict/!#1", "posixStrict/0#1#2", "posixStrict/00#1", "posixStrict/0#x", "posixStrict/0#01",
            "posixStrict/A#1",
        ])
    func badIdentifier(_ text: String) {
        #expect(CrashStateID(text) == nil)
    }

    @Test(
        "an identifier of another program or profile is refused", arguments: ["freshInode/0#1", "posixStrict/0#9999"])
    func foreignIdentifier(_ text: String) async throws {
        let id = try #require(CrashStateID(text))
        #expect(id.description == text)
        let error = await #expect(throws: UnknownCrashState.self) { try await fragileRecovery(depth: 2).replay(id) }
        #expect(error?.description.contains(text) == true)
    }

    @Test("a state from which the program recovers replays without an error")
    func replayOfGoodState() async throws {
        let id = try #require(CrashStateID("posixStrict/0#1"))
        try await fragileRecovery(depth: 1).replay(id)
    }

    @Test("a program that changes nothing, or another file system, is refused, whatever it acknowledges")
    func nothingChanged() async throws {
        let elsewhere = InMemoryFileSystem()
        let programs: [CrashExplorer<String>.Body] = [
            { _, _ in }, { _, run in run.acknowledge("a") },
            { fileSystem, run in
                _ = fileSystem.has("/f")
                run.acknowledge("a")
            },
            { _, run in
                try elsewhere.put("/f", letters("f", 10))
                run.acknowledge("a")
            },
        ]
        for program in programs {
            await #expect(throws: NothingChanged.self) { try await forEachCrash(run: program) { _, _ in } }
        }
    }

    @Test("losses name the line of the log, the call with its path, and what is missing")
    func losses() async throws {
        let explorer = CrashExplorer(
            depth: 1, marking: String.self,
            prepare: { fileSystem in
                try fileSystem.makeDirectory("/d")
                try fileSystem.put("/d/f", letters("o", 5000))
            },
            run: { fileSystem, _ in
                try fileSystem.patch("/d/f", letters("n", 5000), at: 0)
                try fileSystem.put("/d/g", letters("g", 10))
                try fileSystem.move("/d/g", "/d/h")
            },
            recover: { fileSystem, crash in
                guard crash.kind == .powerCut, crash.effectCount > 3 else { return }
                try demand(try fileSystem.content("/d/f") == letters("n", 5000), "f is old")
                try demand(fileSystem.has("/d/h"), "h is missing")
            })
        var more = explorer
        more.maximumViolationCount = 1000
        let report = try await more.explore()
        let losses = report.violations.flatMap(\.losses)
        #expect(
            losses.contains("line 1, write 5000 bytes at 0 to /d/f: block 0 of /d/f has an older version"), "\(report)")
        #expect(losses.contains { $0.hasPrefix("line 1, write 5000 bytes at 0 to /d/f: block 1 of /d/f is torn") })
        #expect(losses.contains { $0.hasSuffix(", rename /d/g to /d/h: not done") }, "\(losses)")
        #expect(losses.contains { $0.hasSuffix(", create /d/g: not done") })
        #expect(losses.allSatisfy { !$0.contains("inode") && $0.contains("/d/") })
        let violation = try #require(report.violations.first)
        #expect(violation.log.first == "1. write 5000 bytes at 0 to /d/f")
        #expect(violation.description.contains("the log of changes:\n    1. write 5000 bytes"))
        #expect(violation.description.contains(", after power cut after change "))
    }

    @Test("recovery sees the operations begun and acknowledged before the crash, and no later ones")
    func marks() async throws {
        let report = try await forEachCrash(marking: Int.self) { fileSystem, run in
            for number in 0..<4 {
                run.begin(number)
                try fileSystem.put("/\(number)", [])
                try fileSystem.sync("/")
                run.acknowledge(number)
            }
        } recover: { fileSystem, crash in
            try demand(crash.begun.starts(with: crash.acknowledged), "acknowledged before it was begun")
            try demand(crash.begun.count - crash.acknowledged.count <= 1, "too many begun")
            for number in crash.acknowledged { try demand(fileSystem.has("/\(number)"), "\(number) is lost") }
            for number in 0..<4 where !crash.begun.contains(number) {
                try demand(!fileSystem.has("/\(number)"), "\(number) was not begun")
            }
        }
        #expect(report.isExhaustive)
        #expect(report.stateCount >= 8)
    }

    @Test("an asynchronous program and recovery are explored alike")
    func asynchronous() async throws {
        let report = try await forEachCrash { fileSystem, run in
            await Task.yield()
            try fileSystem.put("/f", letters("f", 10))
            run.acknowledge("f")
        } recover: { _, _ in
            await Task.yield()
        }
        #expect(report.holds)
    }

    @MainActor @Test("a program isolated to an actor is explored on it")
    func onActor() async throws {
        var count = 0
        try await forEachCrash { fileSystem, _ in
            try fileSystem.put("/f", [])
        } recover: { _, _ in
            MainActor.assertIsolated()
            count += 1
        }
        #expect(count > 0)
    }

    @Test("a violation is thrown with the report")
    func failure() async throws {
        let error = await #expect(throws: CrashFailure.self) {
            try await forEachCrash { fileSystem, run in
                try fileSystem.put("/f", letters("f", 10))
                run.acknowledge("f")
            } recover: { fileSystem, crash in
                if crash.acknowledged.contains("f") { try demand(fileSystem.has("/f"), "f is lost") }
            }
        }
        let report = try #require(error?.report)
        #expect(report.weakestSufficientProfile?.name == "processKill")
        #expect(report.responsibleRules == [.losesNames])
        let text = try #require(error?.description)
        for part in ["f is lost", "holds under processKill", ", create /f: not done", "posixStrict/0#"] {
            #expect(text.contains(part), "\(text)")
        }
    }

    @Test("an error of the program is not a violation")
    func errorOfProgram() async {
        await #expect(throws: Broken.self) {
            try await forEachCrash { _, _ in
                throw Broken("no program")
            } recover: { _, _ in
            }
        }
    }

    @Test("a list of operations is shrunk to the fewest that fail")
    func shrinking() async throws {
        let operations = ["a", "b", "unsafe c", "d", "e", "f"]
        let error = await #expect(throws: CrashFailure.self) {
            try await forEachCrash(of: operations) { fileSystem in
                fileSystem
            } perform: { operation, fileSystem in
                try fileSystem.put("/\(operation)", letters("x", 10))
                if !operation.hasPrefix("unsafe") { try fileSystem.sync("/\(operation)") }
                try fileSystem.sync("/")
            } recover: { fileSystem, crash in
                for operation in crash.acknowledged {
                    try demand(try fileSystem.content("/\(operation)") == letters("x", 10), "\(operation) is lost")
                }
            }
        }
        #expect(error?.report.shrunkOperations == ["unsafe c"])
        #expect(error?.description.contains("needs only: unsafe c") == true)
    }

    @Test("a list of operations that holds is not shrunk")
    func nothingToShrink() async throws {
        let report = try await forEachCrash(of: [1, 2]) {
            $0
        } perform: { number, fileSystem in
            try fileSystem.makeDirectory("/\(number)")
            try fileSystem.sync("/")
        } recover: { fileSystem, crash in
            for number in crash.acknowledged { try demand(fileSystem.has("/\(number)"), "\(number) is lost") }
        }
        #expect(report.shrunkOperations == nil)
    }

    // MARK: Sampling

    /// Overwrites many blocks, and fails if exactly two of them are old.
    private func manyBlocks(limit: Int, seed: UInt64, bad: Set<Int>) -> CrashExplorer<String> {
        var explorer = CrashExplorer(
            limit: limit, seed: seed, depth: 1, marking: String.self,
            prepare: { try $0.put("/f", letters("o", 24 * 4096)) },
            run: { fileSystem, _ in try fileSystem.patch("/f", letters("n", 24 * 4096), at: 0) },
            recover: { fileSystem, _ in
                guard let content = try fileSystem.content("/f") else { return }
                let old = (0..<24).filter { content[$0 * 4096] == 111 }
                try demand(Set(old) != bad, "exactly the wrong blocks are old")
            })
        explorer.diagnoses = false
        return explorer
    }

    @Test(
        "with too many states, all those with one or two differences are explored, and the report states it",
        .enabled(if: TestDepth.isDeep, "18,000 states: only in deep runs"))
    func sampled() async throws {
        // Two versions and seven tears of 24 blocks: 192 single deviations and some 18,000 pairs from each end.
        let report = try await manyBlocks(limit: 60_000, seed: 1, bad: [3, 17]).explore()
        #expect(!report.isExhaustive)
        #expect(report.sampledCrashPointCount == 1)
        #expect(report.hasAllSingleDeviations && report.hasAllPairDeviations)
        #expect(report.possibleStateCount > 1e20)
        #expect(report.visitedStateCount <= 60_001)
        #expect(!report.holds)
        #expect(report.description.contains("with all single deviations and pairs"))
    }

    @Test("a sample respects its limit, reports its omissions, and is determined by the seed")
    func smallSample() async throws {
        let report = try await manyBlocks(limit: 100, seed: 1, bad: []).explore()
        #expect(report.visitedStateCount <= 101)
        #expect(!report.hasAllSingleDeviations && !report.hasAllPairDeviations)
        #expect(report.description.contains("with some single deviations and some pairs"))
        let again = try await manyBlocks(limit: 1000, seed: 7, bad: [3]).explore()
        let third = try await manyBlocks(limit: 1000, seed: 7, bad: [3]).explore()
        #expect(again.hasAllSingleDeviations && !again.hasAllPairDeviations)
        #expect(again.violations.map(\.id) == third.violations.map(\.id))
        #expect(again.stateCount == third.stateCount && !again.holds)
    }

    @Test("changes of names are sampled too, under every order", arguments: [CrashProfile.posixStrict, .orderedNames])
    func sampledNames(_ profile: CrashProfile) async throws {
        let report = try await forEachCrash(profile: profile, limit: 300, depth: 1) { fileSystem, _ in
            for number in 0..<50 { try fileSystem.put("/\(number)", letters("x", 20)) }
        } recover: { fileSystem, _ in
            for number in 0..<50 { _ = try fileSystem.content("/\(number)") }
        }
        #expect(!report.isExhaustive)
        #expect(report.stateCount > 100)
    }

    // MARK: Rules

    private func contents(
        _ profile: CrashProfile, old: [UInt8], _ change: @escaping @Sendable (InMemoryFileSystem) throws -> Void
    ) async throws -> Set<[UInt8]> {
        let explorer = CrashExplorer(
            profile: profile, marking: String.self, prepare: { try $0.put("/f", old) },
            run: { fileSystem, _ in try change(fileSystem) }, recover: { _, _ in })
        return try await Set(explorer.states().map { try InMemoryFileSystem($0).content("/f") ?? [] })
    }

    @Test("a block is torn only at sector boundaries")
    func sectors() async throws {
        let contents = try await contents(.posixStrict, old: letters("o", 2048)) {
            try $0.patch("/f", letters("n", 2048), at: 0)
        }
        #expect(contents == Set((0...4).map { letters("n", 512 * $0) + letters("o", 2048 - 512 * $0) }))
    }

    @Test("without tearing a block is old or new")
    func withoutTearing() async throws {
        let contents = try await contents(.posixStrict.without(.tearsBlocks), old: letters("o", 2048)) {
            try $0.patch("/f", letters("n", 2048), at: 0)
        }
        #expect(contents == [letters("n", 2048), letters("o", 2048)])
    }

    @Test("appended data may be torn after any byte, if requested")
    func anyByte() async throws {
        var profile = CrashProfile(name: "any byte")
        profile.tearing = .anyByteOfAppends
        let contents = try await contents(profile, old: letters("o", 5)) { try $0.patch("/f", letters("n", 4)) }
        let torn = Set((0...4).map { letters("o", 5) + letters("n", $0) + letters("\0", 4 - $0) })
        #expect(contents == torn.union([letters("o", 5)]))
    }

    @Test("a size may be kept without its bytes, and bytes without the size")
    func sizes() async throws {
        let contents = try await contents(.posixStrict, old: letters("o", 100)) {
            try $0.cut("/f", to: 0)
            try $0.patch("/f", letters("n", 50))
        }
        // The size goes from 100 to 0 to 50, the block from old to nothing to new.
        #expect(contents.contains([]))
        #expect(contents.contains(letters("\0", 100)))
        #expect(contents.contains(letters("o", 50)))
        #expect(contents.contains(letters("n", 50) + letters("\0", 50)))
        #expect(contents.count == 7)
    }

    @Test("a block that was never durable contains zeros, or arbitrary bytes if requested")
    func garbage() async throws {
        var profile = CrashProfile.posixStrict
        profile.leavesGarbage = true
        let change: @Sendable (InMemoryFileSystem) throws -> Void = { try $0.patch("/f", letters("n", 100)) }
        let plain = try await contents(.posixStrict, old: [], change)
        #expect(plain == [[], letters("n", 100), letters("\0", 100)])
        #expect(try await contents(profile, old: [], change).count == 4)
    }

    @Test("bytes around a write are unchanged unless that guarantee is disabled")
    func powersafe() async throws {
        var profile = CrashProfile.posixStrict
        profile.isOverwritePowersafe = false
        let contents = try await contents(profile, old: letters("o", 1024)) {
            try $0.patch("/f", letters("n", 10), at: 600)
        }
        let odd = contents.subtracting([letters("o", 1024), letters("o", 600) + letters("n", 10) + letters("o", 414)])
        let other = try #require(odd.first)
        #expect(odd.count == 1)
        #expect(other[..<512].allSatisfy { $0 == 111 } && Array(other[600..<610]) == letters("n", 10))
    }

    @Test("a sparse and a preallocated file keep their sizes independently of their bytes")
    func preallocated() async throws {
        let contents = try await contents(.posixStrict, old: []) { fileSystem in
            let descriptor = try fileSystem.open("/f", .readWrite)
            try fileSystem.allocate(descriptor, at: 0, length: 3000)
            try fileSystem.close(descriptor)
            try fileSystem.patch("/f", letters("n", 10), at: 5)
        }
        #expect(contents.contains(letters("\0", 3000)))
        #expect(contents.contains(letters("\0", 5) + letters("n", 10) + letters("\0", 2985)))
        #expect(contents.count == 3)
    }

    @Test("a symbolic link, a hard link and their targets survive in an image")
    func image() throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.makeDirectory("/d")
        try fileSystem.put("/d/f", letters("f", 70_000))
        try fileSystem.createSymbolicLink("/d/link", to: "f")
        try fileSystem.link("/d/f", to: "/d/hard")
        try fileSystem.setPermissions(.ownerRead, of: .path("/d/f"))
        try fileSystem.put("/d/open", [1])
        let descriptor = try fileSystem.open("/d/open")
        try fileSystem.remove("/d/open")
        let file = try fileSystem.open("/d/f")
        try fileSystem.setExtendedAttribute("a", to: [1, 2], of: file)
        try fileSystem.close(file)
        let copy = InMemoryFileSystem(fileSystem.image)
        let copiedFile = try copy.open("/d/hard")
        #expect(try copy.extendedAttribute("a", of: copiedFile) == [1, 2])
        try copy.close(copiedFile)
        var copied = try copy.status("/d/hard")
        let original = try fileSystem.status("/d/hard")
        copied.inode = original.inode  // An image renumbers its files.
        #expect(copied == original)
        #expect(try copy.content("/d/link") == letters("f", 70_000))
        #expect(try copy.usage().inodeCount == 4)
        #expect(try copy.usage().sizeInBytes == 18 * 4096)
        try copy.remove("/d/hard")
        #expect(try fileSystem.status("/d/f").linkCount == 2)
        #expect(try copy.status("/d/f").linkCount == 1)
        try fileSystem.close(descriptor)
    }

    @Test("recording starts on request and ends with a reset")
    func recording() throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.put("/f", [1])
        #expect(fileSystem.takeEffects().isEmpty)
        fileSystem.startRecordingEffects()
        try fileSystem.put("/g", [1])
        #expect(fileSystem.takeEffects().count == 3)
        #expect(fileSystem.takeEffects().isEmpty)
        fileSystem.reset()
        try fileSystem.put("/h", [1])
        #expect(fileSystem.takeEffects().isEmpty)
    }
}
