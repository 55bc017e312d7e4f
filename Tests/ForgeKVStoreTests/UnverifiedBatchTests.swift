import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

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
