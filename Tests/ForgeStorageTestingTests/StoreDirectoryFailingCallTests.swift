import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("A store's directory, with each call failing in turn")
struct StoreDirectoryFailingCallTests {
    /// A call of a store and its permitted results.
    struct Verb: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let new: [String: String]
        /// Whether a failure may come halfway: each file is then as it was, or gone.
        var isRemovedFileByFile = false
        let run: @Sendable (StoreDirectory) throws -> Void
    }

    private static let old = ["a": "old", "d/b": "old", "d/e/c": "old"]

    private static func key(_ string: String) throws -> RelativeKey { try RelativeKey(string) }

    private static func state(_ changes: [String: String?]) -> [String: String] {
        old.merging(changes.compactMapValues { $0 }) { $1 }.filter { changes[$0.key, default: ""] != nil }
    }

    static let verbs: [Verb] = [
        Verb(testDescription: "replace", new: state(["a": "new"])) { try $0.put("new", try key("a")) },
        Verb(testDescription: "replace deep down", new: state(["x/y/z": "new"])) {
            try $0.put("new", try key("x/y/z"))
        },
        Verb(testDescription: "create exclusively", new: state(["n": "new"])) {
            try $0.put("new", try key("n"), .exclusive)
        },
        Verb(testDescription: "unlink", new: state(["a": nil])) { try $0.unlink(try key("a")) },
        Verb(testDescription: "remove a tree", new: state(["d/b": nil, "d/e/c": nil]), isRemovedFileByFile: true) {
            try $0.removeTree(try key("d"))
        },
        Verb(testDescription: "make a directory", new: old) { try $0.makeDirectory(try key("m/n")) },
        Verb(testDescription: "read", new: old) { store in
            guard try store.read(try key("d/b")) == Array("old".utf8) else {
                throw ConformanceViolation("read wrongly")
            }
        },
        Verb(testDescription: "list", new: old) { store in
            guard try store.list(nil, isRecursive: true).count == 5 else {
                throw ConformanceViolation("listed wrongly")
            }
        },
        Verb(testDescription: "status", new: old) { store in
            guard try store.status(of: try key("d/b")).sizeInBytes == 3 else {
                throw ConformanceViolation("looked at wrongly")
            }
        },
    ]

    @Test("leaves the old state or the new, and nothing else", arguments: verbs)
    func verb(_ verb: Verb) throws {
        let start = FailingCall.testedStart(Self.verbs.firstIndex { $0.testDescription == verb.testDescription })
        let report = try forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, from: start, on: { InMemoryFileSystem() }
        ) {
            fileSystem in
            try StoreDirectory("/store", on: fileSystem)
        } prepare: { store in
            for (key, text) in Self.old { try store.put(text, try Self.key(key)) }
        } change: { store in
            try verb.run(store)
        } verify: { store, error in
            if let violation = error as? ConformanceViolation { throw violation }
            let contents = try store.contents()
            if verb.isRemovedFileByFile, error != nil {
                let kept = contents.filter { verb.new[$0.key] == nil }
                guard contents == verb.new.merging(kept, uniquingKeysWith: { $1 }),
                    kept.allSatisfy({ Self.old[$0.key] == $0.value })
                else { throw ConformanceViolation("removed wrongly: \(contents) are left") }
            } else {
                try expectOldOrNew(contents, old: Self.old, new: verb.new, after: error)
            }
            // The store must continue to work.
            try verb.run(store.isUnchanged(Self.old) ? store : store.refilled(Self.old))
        }
        #expect(report.runCount == report.testedRunCount(from: start))
    }

    @Test("the first opening of a store can be repeated")
    func opensFirst() throws {
        try forEachFailingCall(errnos: [.ioError, .permissionDenied], on: { InMemoryFileSystem() }) { fileSystem in
            _ = try StoreDirectory("/data/store", on: fileSystem)
        } verify: { fileSystem, _ in
            let store = try StoreDirectory("/data/store", on: fileSystem)
            try store.put("new", try RelativeKey("a"))
        }
    }

    @Test("removeAll removes everything or can be repeated")
    func removesAll() throws {
        try forEachFailingCall(
            errnos: FailingCall.testedErrnos, every: FailingCall.testedStep, on: { InMemoryFileSystem() }
        ) { fileSystem in
            try StoreDirectory("/store", on: fileSystem)
        } prepare: { store in
            for (key, text) in Self.old { try store.put(text, try Self.key(key)) }
        } change: { store in
            try store.removeAll()
        } verify: { store, error in
            for (key, text) in try store.contents() where Self.old[key] != text {
                throw ConformanceViolation("\(key) is torn")
            }
            guard try error != nil || store.contents().isEmpty else { throw ConformanceViolation("something is left") }
            try store.removeAll()
        }
    }

    @Test("leftovers of a crash are removed despite failures, or by the next writer")
    func sweeps() throws {
        try forEachFailingCall(errnos: FailingCall.testedErrnos, every: FailingCall.testedStep) {
            let fileSystem = InMemoryFileSystem()
            let store = try StoreDirectory("/store", on: fileSystem)
            try store.put("old", try Self.key("d/b"))
            let bytes = try fileSystem.readFile("/store/#journal-0")
            let id = String(decoding: bytes[12..<28], as: UTF8.self)
            try fileSystem.put("half", at: POSIXPath("/store/d/#tmp-\(id)-0"))
            try fileSystem.makeDirectories(POSIXPath("/store/d/#trash-\(id)-0/x"))
            return fileSystem
        } _: { fileSystem in
            _ = try StoreDirectory("/store", on: fileSystem)
        } verify: { fileSystem, _ in
            let store = try StoreDirectory("/store", on: fileSystem)
            guard try fileSystem.leftovers().isEmpty else { throw ConformanceViolation("not swept") }
            guard try store.read(try Self.key("d/b")) == Array("old".utf8) else {
                throw ConformanceViolation("swept too much")
            }
        }
    }
}

extension StoreDirectory {
    fileprivate func put(_ text: String, _ key: RelativeKey, _ mode: RenameMode = .replacing) throws {
        let bytes = Array(text.utf8)
        let outcome = bytes.withUnsafeBytes { buffer -> Result<Void, FileSystemError> in
            do throws(FileSystemError) {
                return .success(try replace(key, with: buffer.bytes, mode))
            } catch {
                return .failure(error)
            }
        }
        try outcome.get()
    }

    /// All files, by their keys.
    fileprivate func contents() throws -> [String: String] {
        var contents: [String: String] = [:]
        for entry in try list(nil, isRecursive: true) where entry.type == .regular {
            let key = try RelativeKey(String(entry.path))
            contents[key.string] = String(decoding: try read(key), as: UTF8.self)
        }
        return contents
    }

    fileprivate func isUnchanged(_ old: [String: String]) throws -> Bool { try contents() == old }

    fileprivate func refilled(_ old: [String: String]) throws -> StoreDirectory {
        try removeAll()
        for (key, text) in old { try put(text, try RelativeKey(key)) }
        return self
    }
}
