import ForgeFileSystem
import Synchronization
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
