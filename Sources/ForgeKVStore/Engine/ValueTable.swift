import ForgeCoding
import Synchronization

/// What a store holds, by name: the encoded value and, once somebody has read it, the decoded one.
///
/// The twin in memory is this table alone; the store on disk is this table and a log. Encoding and decoding run
/// outside the lock, because they run the code of the value's type.
final class ValueTable: Sendable {
    private let state = Mutex(State())

    /// How values are encoded, in every store.
    static let coder = ValueCoder(format: .binary)

    init() {}

    private struct State {
        var entries: [KeyName: Entry] = [:]
        var liveBytes: Int64 = 0
        var revision: UInt64 = 0
    }

    private struct Entry {
        var bytes: [UInt8]
        var box: ValueBox?
        var revision: UInt64
        var isReported = false
    }

    private enum Found<Value: Sendable>: Sendable {
        case absent
        case value(Value)
        case bytes([UInt8], revision: UInt64)
    }

    /// A value that could not be decoded, and whether that is told for the first time.
    struct Undecodable: Error {
        var cause: any Error
        var isNews: Bool
    }

    /// The value of a key, decoded at most once for each type that reads it in turn.
    func value<Value>(of key: KVKey<Value>) throws(Undecodable) -> Value? {
        let found = state.withLock { state -> Found<Value> in
            guard let entry = state.entries[key.identity] else { return .absent }
            if let value = TypedBox<Value>.value(in: entry.box) { return .value(value) }
            return .bytes(entry.bytes, revision: entry.revision)
        }
        switch found {
        case .absent: return nil
        case .value(let value): return value
        case .bytes(let bytes, let revision): return try decode(bytes, of: key, revision)
        }
    }

    private func decode<Value>(
        _ bytes: [UInt8], of key: KVKey<Value>, _ revision: UInt64
    ) throws(Undecodable) -> Value {
        let value: Value
        do {
            value = try Self.coder.decode(Value.self, from: bytes)
        } catch {
            let isNews = change(key.identity, revision) { entry in
                defer { entry.isReported = true }
                return !entry.isReported
            }
            throw Undecodable(cause: error, isNews: isNews ?? false)
        }
        if let box = ValueBox.ofDecoded(value) {
            _ = change(key.identity, revision) { entry in entry.box = box }
        }
        return value
    }

    /// Changes an entry unless a write has come in between.
    private func change<Result: Sendable>(
        _ name: KeyName, _ revision: UInt64, _ body: (inout Entry) -> Result
    ) -> Result? {
        state.withLock { state in
            guard let index = state.entries.index(forKey: name),
                state.entries.values[index].revision == revision
            else { return nil }
            return body(&state.entries.values[index])
        }
    }

    /// Encodes a value as every store keeps it.
    static func encode<Value: Codable & Sendable>(
        _ value: Value, _ key: KVKey<Value>, maximumSize: Int, store: String?
    ) throws(KVStoreError) -> [UInt8] {
        try key.identity.check(.set, in: store)
        let bytes: [UInt8]
        do {
            bytes = try coder.encode(value)
        } catch {
            throw KVStoreError(.unencodable, .set, key: key.name, store: store, underlying: error)
        }
        guard bytes.count <= maximumSize else {
            throw KVStoreError(.valueTooLarge, .set, key: key.name, store: store)
        }
        return bytes
    }
}

// MARK: Whatever the type

extension ValueTable {
    func contains(_ name: KeyName) -> Bool {
        state.withLock { $0.entries[name] != nil }
    }

    func bytes(of name: KeyName) -> [UInt8]? {
        state.withLock { $0.entries[name]?.bytes }
    }

    var names: [String] {
        state.withLock { $0.entries.keys.map(\.string) }
    }

    /// All names and encoded values, in the order in which they were stored, so that a log that is written anew is the
    /// same in every process.
    ///
    /// - Complexity: O(*n* log *n*)
    var contents: [(KeyName, [UInt8])] {
        let entries = state.withLock { $0.entries }
        return entries.sorted { $0.value.revision < $1.value.revision }.map { ($0.key, $0.value.bytes) }
    }

    /// How long a log of nothing but the present values would be, its header left out.
    var liveBytes: Int64 {
        state.withLock { $0.liveBytes }
    }

    func store(_ bytes: [UInt8], _ name: KeyName, box: ValueBox?) {
        state.withLock { state in
            state.revision += 1
            let entry = Entry(bytes: bytes, box: box, revision: state.revision)
            state.liveBytes += Int64(LogRecord.size(name: name, valueSize: bytes.count))
            if let old = state.entries.updateValue(entry, forKey: name) {
                state.liveBytes -= Int64(LogRecord.size(name: name, valueSize: old.bytes.count))
            }
        }
    }

    func remove(_ name: KeyName) {
        state.withLock { state in
            guard let old = state.entries.removeValue(forKey: name) else { return }
            state.liveBytes -= Int64(LogRecord.size(name: name, valueSize: old.bytes.count))
        }
    }

    func removeAll() {
        state.withLock { state in
            state.entries = [:]
            state.liveBytes = 0
        }
    }

    /// Does what a record says.
    func apply(_ change: LogRecord.Change) {
        switch change {
        case .set(let name, let bytes): store(bytes, name, box: nil)
        case .remove(let name): remove(name)
        case .removeAll: removeAll()
        case .flushed: break
        }
    }
}
