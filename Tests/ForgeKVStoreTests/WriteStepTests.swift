import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("Every kind of change takes the same step", .serialized)
struct WriteStepTests {
    /// The codes of the records in a log without flush markers.
    private func codes(_ fixture: LogFixture) throws -> [UInt8] {
        let bytes = try fixture.bytes()
        var codes: [UInt8] = []
        var offset = LogHeader.size
        while offset + LogRecord.frameSize < bytes.count {
            let size = Int(bytes[offset]) + Int(bytes[offset + 1]) << 8
            codes.append(bytes[offset + LogRecord.frameSize])
            offset += LogRecord.frameSize + size
        }
        return codes
    }

    @Test("a batch of one change is recorded as that change, and is the same after reopening")
    func batchOfOne() throws {
        let fixture = LogFixture()
        do {
            let store = try fixture.open()
            try store.batch { try $0.set(KVKey<Int>("a"), value: 1) }
            try store.batch { $0.append(.set(name: "b", bytes: [0x11, 0x01, 0x02])) }
            try store.batch { $0.append(.remove(name: "b")) }
            try store.batch {
                try $0.set(KVKey<Int>("c"), value: 3)
                try $0.set(KVKey<Int>("d"), value: 4)
            }
            let (set, remove, batch) = (LogRecord.Code.set, LogRecord.Code.remove, LogRecord.Code.batch)
            #expect(try codes(fixture) == [set, set, remove, batch].map(\.rawValue))
            #expect(try store.entry(named: "a")?.revision == 1)
            #expect(try store.entry(named: "d")?.revision == 5)
        }
        #expect(try fixture.open().integers() == ["a": 1, "c": 3, "d": 4])
    }

    @Test("the removal of absent values writes no record, whichever call removes them")
    func absent() throws {
        let fixture = LogFixture()
        let store = try fixture.open()
        try store.set(KVKey<Int>("a"), value: 1)
        try store.remove(KVKey<Int>("x"))
        try store.removeValue(named: "x")
        try store.batch { $0.append(.remove(name: "x")) }
        try store.batch {
            $0.append(.remove(name: "x"))
            $0.append(.remove(name: "y"))
        }
        #expect(try codes(fixture) == [LogRecord.Code.set.rawValue])
    }

    /// A text that, when it is decoded to check whether it may be overwritten, calls a closure once.
    private struct Interfering: Codable, Sendable {
        static let onDecode = Mutex<(@Sendable () throws -> Void)?>(nil)

        init() {}

        init(from decoder: any Decoder) throws {
            let closure = Self.onDecode.withLock { closure in
                defer { closure = nil }
                return closure
            }
            try closure?()
            throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: "unreadable"))
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode("new")
        }
    }

    @Test("a value that two writes set aside at once is set aside once", arguments: [true, false])
    func setAsideTwice(_ isInMemory: Bool) throws {
        let memory = InMemoryKVStore()
        let file = try LogFixture().open()
        let store: any KVTransactionalStoring = isInMemory ? memory : file
        try store.set(KVKey<String>("a"), value: "precious")
        let precious = try #require(try store.entry(named: "a"))
        Interfering.onDecode.withLock { $0 = { try store.set(KVKey<Int>("a"), value: 1) } }
        try store.set(KVKey<Interfering>("a"), value: Interfering())
        #expect(try store.read(KVKey<String>("a")) == "new")
        if isInMemory {
            // The number was replaced too, by a value of a type that it cannot be read as.
            #expect(memory.setAside.map(\.name) == ["a", "a"])
            #expect(memory.setAside.first?.entry == precious)
        } else {
            #expect(try file.damageReports().map(\.key) == ["a", "a"])
        }
    }

    /// A store without revisions.
    private struct Unversioned: KVStoring {
        let base: InMemoryKVStore

        func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }
        func set<T>(_ key: KVKey<T>, value: T) throws { try base.set(key, value: value) }
        func remove<T>(_ key: KVKey<T>) throws { try base.remove(key) }
        func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
        func removeAll() throws { try base.removeAll() }
    }

    @Test("a write fails if decoding the old value writes the key itself, and says why")
    func rewriting() throws {
        let store = InMemoryKVStore()
        let key = KVKey<RewritingValue>("a")
        func expectFailure(_ name: String, rewriting bytes: [[UInt8]], _ write: () throws -> Void) throws {
            try store.setRawValue(bytes[bytes.count - 1], named: "a")
            let error = try #require(throws: KVStoreError.self, "\(name)") {
                try RewritingValue.rewriting(
                    { try store.setRawValue(bytes[($0 - 1) % bytes.count], named: "a") }, during: write)
            }
            #expect(error.code == .conflict && error.key == "a", "\(name)")
            #expect("\(error)".contains("10000 runs of `init(from:)`, which must not write the key itself"), "\(name)")
        }
        try store.set(KVKey<Int>("a"), value: 1)
        let number = try #require(try store.rawValue(named: "a"))
        try expectFailure("set", rewriting: [number]) { try store.set(key, value: RewritingValue()) }
        try expectFailure("batch", rewriting: [number]) { try store.batch { try $0.set(key, value: RewritingValue()) } }

        let expiring = ExpiringKVStore(store)
        let expiringNumbers = try [1, 2].map { number -> [UInt8] in
            try store.removeAll()
            try expiring.set(KVKey<Int>("a"), value: number)
            return try #require(try store.rawValue(named: "a"))
        }
        try expectFailure("expiring", rewriting: expiringNumbers) {
            try expiring.batch { try $0.set(key, value: RewritingValue()) }
        }
        let layer = ExpiringKVStore(Unversioned(base: store))
        try expectFailure("without revisions", rewriting: expiringNumbers) {
            try layer.set(key, value: RewritingValue())
        }
    }

    @Test("every change of a store in memory has a revision of its own, and a batch of several takes as many")
    func revisionsInMemory() throws {
        let store = InMemoryKVStore()
        try store.set(KVKey<Int>("a"), value: 1)
        try store.batch {
            try $0.set(KVKey<Int>("b"), value: 2)
            try $0.set(KVKey<Int>("c"), value: 3)
        }
        try store.removeAll()
        try store.setRawValue([0x11, 0x01, 0x02], named: "d")
        #expect(try store.entry(named: "d")?.revision == 5)
    }
}

/// A number that, when it is decoded to check whether it may be overwritten, is written.
struct RewritingValue: Codable, Sendable {
    @TaskLocal private static var write: (@Sendable () throws -> Void)?

    /// Calls `write` with the number of the call in each decoding that `body` brings about, up to twice as often as a
    /// write repeats its check.
    static func rewriting(
        _ write: @escaping @Sendable (Int) throws -> Void, during body: () throws -> Void
    ) throws {
        let count = Atomic(0)
        let writeNext: @Sendable () throws -> Void = {
            let number = count.add(1, ordering: .relaxed).newValue
            if number <= 2 * UpdateAttempts.limit { try write(number) }
        }
        try $write.withValue(writeNext) { try body() }
    }

    init() {}

    init(from decoder: any Decoder) throws {
        _ = try decoder.singleValueContainer().decode(Int.self)
        try Self.write?()
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(-1)
    }
}

/// A value whose decoding is counted, and calls a closure once.
private struct Watched: Codable, Sendable {
    private static let count = Atomic(0)
    private static let onDecode = Mutex<(@Sendable () -> Void)?>(nil)

    /// Calls `onDecode` within the first decoding that `body` brings about; returns the number of decodings.
    static func decodings(_ onDecode: @escaping @Sendable () -> Void, in body: () throws -> Void) rethrows -> Int {
        let before = count.load(ordering: .relaxed)
        Self.onDecode.withLock { $0 = onDecode }
        defer { Self.onDecode.withLock { $0 = nil } }
        try body()
        return count.load(ordering: .relaxed) - before
    }

    var number = 0

    init() {}

    init(from decoder: any Decoder) throws {
        Self.count.add(1, ordering: .relaxed)
        let closure = Self.onDecode.withLock { closure in
            defer { closure = nil }
            return closure
        }
        closure?()
        number = try decoder.singleValueContainer().decode(Int.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }
}

@Suite("A typed batch over values that are not known as its types", .serialized)
struct UnverifiedBatchTests {
    private let names = (0..<200).map { "\($0)" }

    /// The names and a guard, with values of no known type, in each kind of store.
    private func store(_ kind: Int) throws -> any KVTransactionalStoring {
        let store: any KVTransactionalStoring
        switch kind {
        case 0: store = InMemoryKVStore()
        case 1: store = try LogFixture().open()
        default:
            let fixture = SharedFixture()
            store = try fixture.open(fixture.process(1))
        }
        let seven = try ValueTable.encode(7, for: KVKey<Int>("x"))
        for name in names + ["guard"] { try store.setRawValue(seven, named: name) }
        return store
    }

    private func batch(_ store: any KVTransactionalStoring) throws -> KVBatch {
        var batch = KVBatch()
        for name in names { try batch.set(KVKey<Watched>(name), value: Watched()) }
        batch.require("guard", revision: try store.entry(named: "guard")?.revision)
        return batch
    }

    @Test("looks at each of them once, all in one pass outside the locks", arguments: 0..<3)
    func onePass(_ kind: Int) throws {
        let store = try store(kind)
        let batch = try batch(store)
        // An attempt after the first look would meet the conflict.
        let looks = Watched.decodings {
            #expect(throws: Never.self) { try store.set(KVKey<Int>("guard"), value: 8) }
        } in: {
            #expect(code { try store.commit(batch) } == .conflict)
        }
        #expect(looks == names.count)
        #expect(try store.read(KVKey<Int>("0")) == 7)
    }

    @Test("makes all changes, also beside a write that replaces some of them meanwhile", arguments: 0..<3)
    func replacedMeanwhile(_ kind: Int) throws {
        let store = try store(kind)
        let batch = try batch(store)
        let bytes = try #require(try store.rawValue(named: "0"))
        let looks = try Watched.decodings {
            #expect(throws: Never.self) { try store.setRawValue(bytes, named: "3") }
        } in: {
            try store.commit(batch)
        }
        #expect(looks == names.count + 1)
        for name in names { #expect(try store.read(KVKey<Watched>(name))?.number == 0) }
    }

    @Test("takes the lock of a shared store twice, however many values there are")
    func locks() throws {
        let fixture = SharedFixture()
        let calls = Mutex(0)
        let counting = InterceptedFileSystem(fixture.process(1).fileSystem) { call throws(FileSystemError) in
            if call.operation == .lock { calls.withLock { $0 += 1 } }
        }
        let store = try FileKVStore(at: fixture.path, fileSystem: counting, options: fixture.options(1))
        let seven = try ValueTable.encode(7, for: KVKey<Int>("x"))
        for name in names { try store.setRawValue(seven, named: name) }
        let before = calls.withLock { $0 }
        try store.batch { batch in
            for name in names { try batch.set(KVKey<Watched>(name), value: Watched()) }
        }
        // The lock file and the directory are each locked and unlocked.
        #expect(calls.withLock { $0 } - before == 2 * 4)
    }

    @Test("reports every value that it sets aside")
    func reports() throws {
        let fixture = LogFixture()
        let recorder = IssueRecorder()
        let store = try fixture.open(recorder)
        for name in names.prefix(3) { try store.set(KVKey<String>(name), value: "text") }
        try store.batch { batch in
            for name in names.prefix(3) { try batch.set(KVKey<Watched>(name), value: Watched()) }
        }
        #expect(recorder.damage.compactMap(\.key).sorted() == ["0", "1", "2"])
        #expect(try store.damageReports().count == 3)
    }
}
