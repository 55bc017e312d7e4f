import Dispatch
import ForgeKVStore
import Foundation
import Synchronization

extension ConformanceChecks {
    /// Promises to the code of a value's type: which versions it decodes, and that it may read the store.
    static let keyValueCode: [ConformanceCheck<any KVStoring>] = keyValueVersions + keyValueCallsOfValues

    private static let keyValueVersions: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a value of an earlier version is migrated when it is read, and the stored one is kept") {
            store in
            let first = KVKey<String>("a")
            try store.set(first, value: "7")
            for _ in 1...2 {
                try expectEqual(store.get(thirdVersion("a")), 7, "get(a) of version 1 with a migration from it")
                try expectEqual(store.get(first), "7", "get(a) of version 1 after it was migrated")
            }
            try store.set(secondVersion("b"), value: 8)
            try expectEqual(store.get(thirdVersion("b")), 80, "get(b) of version 2 with a migration from it")
            try store.set(thirdVersion("a"), value: 9)
            try expectEqual(store.get(thirdVersion("a")), 9, "get(a) of version 3 after it was set")
        },
        ConformanceCheck("a value of a later version is of a newer schema and is kept", needs: [.typedReads]) { store in
            try store.set(thirdVersion("a"), value: 7)
            // The third key has the type of the value, but knows one version of it.
            for key in [secondVersion("a"), KVKey<Int>("a")] {
                try expectEqual(store.get(key), nil, "get(a) of version 3 by a key of version \(key.schemaVersion)")
                let call = "read(a) of version 3 by a key of version \(key.schemaVersion)"
                let error = try await expectError(KVStoreError.self, call) { try store.read(key) }
                try expectEqual(error.code, .newerSchema(version: 3), "the code of \(call)")
                try expectEqual(error.operation, .read, "the operation of \(call)")
                try expectEqual(error.key, "a", "the key of \(call)")
            }
            try expectEqual(store.get(thirdVersion("a")), 7, "get(a) of version 3 after earlier versions were refused")
            // A store may have kept the value that was read, which has the type of these keys.
            for key in [secondVersion("a"), KVKey<Int>("a")] {
                try expectEqual(
                    store.get(key), nil, "get(a) by a key of version \(key.schemaVersion) after that of version 3")
            }
        },
        ConformanceCheck("set replaces a value of a later version or without a migration") { store in
            let keys = [KVKey<Int>("a"), KVKey<Int>("a", migrations: [.from(3) { (old: Int) in old }])]
            for (key, old) in zip(keys, [thirdVersion("a"), secondVersion("a")]) {
                let versions = "over a value of version \(old.schemaVersion) by a key of version \(key.schemaVersion)"
                try store.set(old, value: 7)
                do {
                    try store.set(key, value: 8)
                } catch {
                    throw ConformanceViolation("set(a) \(versions): expected success, got \(error)")
                }
                try expectEqual(store.get(key), 8, "get(a) after set(a) \(versions)")
            }
        },
        ConformanceCheck("a value of a version without a migration is undecodable and is kept", needs: [.typedReads]) {
            store in
            try store.set(secondVersion("a"), value: 7)
            let key = KVKey<Int>("a", migrations: [.from(3) { (old: Int) in old }])
            let call = "read(a) of version 2 by a key of version 4 with a migration from version 3 alone"
            let error = try await expectError(KVStoreError.self, call) { try store.read(key) }
            try expectEqual(error.code, .undecodable, "the code of \(call)")
            try expectEqual(store.get(key), nil, "get(a) of version 2 by the same key")
            let failing = KVKey<Int>(
                "a", migrations: [.from(2) { (_: Int) throws -> Int in throw CheckMigrationFailure() }])
            let failure = try await expectError(KVStoreError.self, "read(a) by a key whose migration throws") {
                try store.read(failing)
            }
            try expectEqual(failure.code, .undecodable, "the code of read(a) by a key whose migration throws")
            try expectEqual(store.get(failing), nil, "get(a) by a key whose migration throws")
            try expectEqual(store.get(secondVersion("a")), 7, "get(a) of version 2")
        },
    ]

    private static func secondVersion(_ name: String) -> KVKey<Int> {
        KVKey(name, migrations: [.from(1) { (old: String) in Int(old) ?? -1 }])
    }

    static func thirdVersion(_ name: String) -> KVKey<Int> {
        KVKey(name, migrations: [.from(1) { (old: String) in Int(old) ?? -1 }, .from(2) { (old: Int) in 10 * old }])
    }

    private static let keyValueCallsOfValues: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a value may read the store while it is encoded") { store in
            let key = KVKey<CallingValue>("a")
            try CallsOfValues.check(store, "encode(to:)") { id in
                try store.set(key, value: CallingValue(id: id, calls: .encoding))
                try expectEqual(store.get(key)?.id, id, "get(a) of a value that has read the store")
            }
        },
        ConformanceCheck("a value may read the store while it is decoded") { store in
            let key = KVKey<CallingValue>("a")
            try CallsOfValues.check(store, "init(from:)") { id in
                try store.set(key, value: CallingValue(id: id, calls: .decoding))
                for _ in 1...2 { try expectEqual(store.get(key)?.id, id, "get(a) of a value that reads the store") }
                // A store may look at the value that it replaces.
                try store.set(key, value: CallingValue(id: id, calls: .decoding))
                try store.set(KVKey<Int>("a"), value: 1)
            }
        },
        ConformanceCheck("a migration of a key may read the store") { store in
            let old = KVKey<UInt64>("a")
            let key = KVKey<UInt64>(
                "a",
                migrations: [
                    .from(1) { (id: UInt64) in
                        CallsOfValues.with(id)?.make(); return id
                    }
                ])
            try CallsOfValues.check(store, "a migration") { id in
                try store.set(old, value: id)
                for _ in 1...2 {
                    try expectEqual(store.get(key), id, "get(a) by a key whose migration reads the store")
                }
                try expectEqual(try store.read(key), id, "read(a) by a key whose migration reads the store")
                // A store may look at the value that it replaces.
                try store.set(key, value: id)
            }
        },
        ConformanceCheck("a value may read the store while another thread waits to write") { store in
            let key = KVKey<CallingValue>("a")
            for code in [CallingValue.Code.decoding, .encoding] {
                let text = code == .decoding ? "init(from:)" : "encode(to:)"
                try CallsOfValues.check(store, text, besideWriter: true) { id in
                    try store.set(key, value: CallingValue(id: id, calls: code))
                    try expectEqual(store.get(key)?.id, id, "get(a) of a value that reads the store")
                }
            }
        },
    ]
}

private struct CheckMigrationFailure: Error {}

/// A value whose encoding or decoding reads a store.
private struct CallingValue: Codable, Sendable {
    enum Code: String, Codable {
        case encoding, decoding
    }

    let id: UInt64
    let calls: Code

    private enum CodingKeys: CodingKey {
        case id, calls
    }

    init(id: UInt64, calls: Code) {
        self.id = id
        self.calls = calls
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        id = try container.decode(UInt64.self, forKey: .id)
        calls = try container.decode(Code.self, forKey: .calls)
        if calls == .decoding { CallsOfValues.with(id)?.make() }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encode(calls, forKey: .calls)
        if calls == .encoding { CallsOfValues.with(id)?.make() }
    }
}

/// The reads of a store that a value makes, each on another thread: a lock that the store holds blocks that thread,
/// whereas it might end the process on the thread that holds it.
private final class CallsOfValues: Sendable {
    private struct State {
        var endedCount = 0
        var problem: String?
        var hasWriter = false
    }

    private let store: any KVStoring
    /// Whether another thread writes meanwhile. It may wait for the end of the call that runs the code.
    private let isBesideWriter: Bool
    private let writer = DispatchGroup()
    private let state = Mutex(State())

    /// The checks that run, by the number in their values: a value is decoded on whatever thread a store chooses.
    private static let all = Mutex<(last: UInt64, running: [UInt64: CallsOfValues])>((0, [:]))

    /// Far longer than a call takes, also on a busy machine.
    private static let limit = DispatchTimeInterval.seconds(10)

    private init(_ store: any KVStoring, isBesideWriter: Bool) {
        self.store = store
        self.isBesideWriter = isBesideWriter
    }

    static func with(_ id: UInt64) -> CallsOfValues? { all.withLock { $0.running[id] } }

    /// Calls `body` with the number of values that read the store, and checks that they did, and that all reads ended.
    static func check(
        _ store: any KVStoring, _ code: String, besideWriter isBesideWriter: Bool = false,
        file: StaticString = #fileID, line: UInt = #line, _ body: (_ id: UInt64) throws -> Void
    ) throws {
        let calls = CallsOfValues(store, isBesideWriter: isBesideWriter)
        let id = all.withLock { all in
            all.last += 1
            all.running[all.last] = calls
            return all.last
        }
        defer { all.withLock { _ = $0.running.removeValue(forKey: id) } }
        let outcome = Result { try body(id) }
        let state = calls.state.withLock { $0 }
        calls.writer.wait()
        if let problem = state.problem {
            let circumstance = isBesideWriter ? " while another thread waits to write" : ""
            throw ConformanceViolation(
                "\(code) of a value reads the store\(circumstance): \(problem)", file: file, line: line)
        }
        try outcome.get()
        try expect(state.endedCount > 0, "expected a call of \(code) of the value, got none", file: file, line: line)
    }

    /// Begins a write on another thread, once, which ends or waits when this returns.
    private func beginWriting() {
        let isFirst = state.withLock { state in
            defer { state.hasWriter = true }
            return !state.hasWriter
        }
        guard isFirst else { return }
        let hasBegun = DispatchSemaphore(value: 0)
        DispatchQueue(label: "ConformanceCheck").async(group: writer) { [store] in
            hasBegun.signal()
            // Whether it succeeds is the subject of other checks.
            do { try store.set(KVKey<Int>("of the writer"), value: 1) } catch {}
        }
        hasBegun.wait()
        usleep(2_000)
    }

    /// Makes the calls, until one does not end.
    func make() {
        let key = KVKey<Int>("another key")
        let calls: [(name: String, body: @Sendable (any KVStoring) throws -> Void)] = [
            ("get", { _ = $0.get(key) }), ("contains", { _ = $0.contains(key) }), ("read", { _ = try $0.read(key) }),
        ]
        if isBesideWriter { beginWriting() }
        for (name, body) in calls where state.withLock({ $0.problem == nil }) {
            let hasEnded = DispatchSemaphore(value: 0)
            DispatchQueue(label: "ConformanceCheck").async { [self] in
                do {
                    try body(store)
                    state.withLock { $0.endedCount += 1 }
                } catch {
                    state.withLock { $0.problem = "\(name)(\(key)) has failed: \(error)" }
                }
                hasEnded.signal()
            }
            guard hasEnded.wait(timeout: .now() + Self.limit) == .timedOut else { continue }
            state.withLock { $0.problem = "\(name)(\(key)) has not ended within \(Self.limit): a lock is held" }
        }
    }
}
