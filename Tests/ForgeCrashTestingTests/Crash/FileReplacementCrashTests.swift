import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import TestDepth
import Testing

@Suite("Replacing files and making directories under crashes")
struct FileReplacementCrashTests {
    private static let old = letters("o", 1300)
    private static let new = letters("n", 5000)

    private func replace(
        _ mode: RenameMode, _ durability: Durability, hasOld: Bool
    ) async throws -> CrashReport {
        try await forEachCrash { fileSystem in
            try fileSystem.makeDirectory("/d")
            if hasOld { try fileSystem.put("/d/f", Self.old) }
        } run: { fileSystem, run in
            try fileSystem.withDirectory("/d") { (directory) throws(FileSystemError) in
                try Self.new.withUnsafeBytes { bytes -> Result<Void, FileSystemError> in
                    Result { () throws(FileSystemError) in
                        try fileSystem.replaceFile("f", at: directory, with: bytes.bytes, mode, durability: durability)
                    }
                }.get()
            }
            run.acknowledge("new")
        } recover: { fileSystem, crash in
            let content = try fileSystem.content("/d/f")
            if let content { try demand(content == Self.new || content == Self.old, "a part of a file") }
            try demand(content != nil || !hasOld, "the file is gone")
            if let content, content == Self.new {
                try demand(try fileSystem.status("/d/f").permissions == .ownerReadWrite, "another mode")
            }
            guard crash.acknowledged.contains("new"), durability == .full else { return }
            try demand(content == Self.new, "the new content is lost")
        }
    }

    @Test("a replaced file is old or new, and new after acknowledgement", arguments: [Durability.full, .barrier])
    func replacing(_ durability: Durability) async throws {
        let report = try await replace(.replacing, durability, hasOld: true)
        #expect(report.isExhaustive && report.stateCount > 5)
    }

    @Test("an exclusively created file is complete or absent, and present after acknowledgement")
    func exclusive() async throws {
        let report = try await replace(.exclusive, .full, hasOld: false)
        #expect(report.isExhaustive && report.stateCount > 5)
    }

    @Test("a replacement without durability survives only a kill of the process")
    func withoutDurability() async throws {
        await #expect(throws: CrashFailure.self) { try await replace(.replacing, .none, hasOld: true) }
        let error = await #expect(throws: CrashFailure.self) { try await replace(.replacing, .none, hasOld: true) }
        #expect(error?.report.weakestSufficientProfile?.name == "processKill")
    }

    @Test("created directories exist, however many were missing")
    func directories() async throws {
        let report = try await forEachCrash { fileSystem, run in
            try fileSystem.makeDirectories("/a/b/c/d")
            run.acknowledge("/a/b/c/d")
            try fileSystem.makeDirectories("/a/b/e")
            run.acknowledge("/a/b/e")
        } recover: { fileSystem, crash in
            for path in crash.acknowledged { try demand(fileSystem.has(path), "\(path) is lost") }
        }
        #expect(report.isExhaustive)
    }

    /// One call on a store of keys.
    enum Call: Sendable, Equatable {
        case save(String, Character)
        case create(String, Character)
        case remove(String)
        case removeTree(String)
        case removeAll

        func perform(on store: StoreDirectory) throws {
            switch self {
            case .save(let key, let letter):
                try letters(letter, 1300).withUnsafeBytes { try store.replace(RelativeKey(key), with: $0.bytes) }
            case .create(let key, let letter):
                try letters(letter, 1300).withUnsafeBytes {
                    try store.replace(RelativeKey(key), with: $0.bytes, .exclusive)
                }
            case .remove(let key): try store.unlink(RelativeKey(key))
            case .removeTree(let key): try store.removeTree(RelativeKey(key))
            case .removeAll: try store.removeAll()
            }
        }

        /// The content of the store after this call.
        func apply(to contents: inout [String: Character]) {
            switch self {
            case .save(let key, let letter), .create(let key, let letter): contents[key] = letter
            case .remove(let key): contents[key] = nil
            case .removeTree(let key): contents = contents.filter { !$0.key.hasPrefix(key + "/") }
            case .removeAll: contents = [:]
            }
        }
    }

    private static func contents(of store: StoreDirectory) throws -> [String: Character] {
        var found: [String: Character] = [:]
        for entry in try store.list(nil, isRecursive: true) where entry.type == .regular {
            let key = String(decoding: entry.path.bytes, as: UTF8.self)
            let content = try store.read(RelativeKey(key))
            guard let letter = content.first, content == letters(Character(Unicode.Scalar(letter)), 1300) else {
                throw Broken("\(key) holds \(content.count) bytes that were never saved")
            }
            found[key] = Character(Unicode.Scalar(letter))
        }
        return found
    }

    /// Applies each call or not, but calls that are not atomic may be partial.
    private static func check(_ store: StoreDirectory, _ crash: Crash<Call>) throws {
        let found = try contents(of: store)
        var before: [String: Character] = [:]
        for call in crash.acknowledged { call.apply(to: &before) }
        guard crash.begun.count > crash.acknowledged.count, let pending = crash.begun.last else {
            return try demand(found == before, "holds \(found) instead of \(before)")
        }
        var after = before
        pending.apply(to: &after)
        if pending == .removeAll {
            try demand(found.allSatisfy { before[$0.key] == $0.value }, "holds \(found), which \(before) does not")
        } else {
            try demand(found == before || found == after, "holds \(found), neither \(before) nor \(after)")
        }
    }

    @Test(
        "a store of keys contains exactly the acknowledged values after every crash",
        arguments: TestDepth.sample(
            [
                [Call.save("a", "1"), .save("x/y", "2"), .removeAll, .save("a", "3")],
                [.save("x/y", "1"), .save("x/z", "2"), .save("x/y", "3")], [.save("a", "1"), .save("a", "2")],
                [.save("x/y", "1"), .save("x/z", "2"), .removeTree("x"), .save("x/y", "3")],
                [.create("a", "1"), .remove("a"), .create("a", "2")], [.save("x/y/z", "1"), .remove("x/y/z")],
            ], every: 2))
    func storeDirectory(_ calls: [Call]) async throws {
        let report = try await forEachCrash(of: calls, limit: 20_000) { fileSystem in
            try StoreDirectory("/store", on: fileSystem)
        } perform: { call, store in
            try call.perform(on: store)
        } recover: { fileSystem, crash in
            try Self.check(try StoreDirectory("/store", on: fileSystem), crash)
        }
        #expect(report.isExhaustive, "\(report)")
        #expect(report.nestedStateCount > 0)
    }
}
