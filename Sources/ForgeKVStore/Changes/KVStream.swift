import ForgeFileSystem
import Synchronization

/// The values of a key: the current one, then one after every change.
///
/// An element is nil if the key is absent or its value is not of the key's type. A write that does not change the
/// encoded value produces no element. The stream ends when the consuming task is cancelled; releasing the stream ends
/// the subscription. It has a single consumer: each element is delivered once. Values are decoded by the consumer.
public struct KVStream<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value?
    public typealias Failure = Never

    private let source: KVStreamSource<Value>

    init(_ source: KVStreamSource<Value>) {
        self.source = source
    }

    public func makeAsyncIterator() -> Iterator { Iterator(source: source) }

    /// The iterator of a stream.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let source: KVStreamSource<Value>

        public mutating func next() async -> Value?? { await source.next() }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value?? { await source.next() }
    }
}

/// Reads the changes of one key for the consumer of a stream.
final class KVStreamSource<Value: Codable & Sendable>: Sendable {
    private struct Source {
        /// The changes; nil for a store that does not report any.
        var changes: KVChanges?

        /// Reads the value; a value that is not of the key's type is reported to the store's handler.
        var read: @Sendable () -> Value?
    }

    private let key: KVKey<Value>

    /// Nil after the end, so that the store is released.
    private let source: Mutex<Source?>

    /// The bytes of the last element, nil if the key was absent; nil before the first, or if they are unknown.
    private let lastBytes = Mutex<[UInt8]??>(nil)

    init(_ key: KVKey<Value>, _ changes: KVChanges?, read: @escaping @Sendable () -> Value?) {
        self.key = key
        source = Mutex(Source(changes: changes, read: read))
    }

    func next() async -> Value?? {
        while let source = source.withLock({ $0 }) {
            guard let changes = source.changes else {
                end()
                return .some(source.read())
            }
            var iterator = changes.makeAsyncIterator()
            let change: KVChange
            do throws(KVStoreError) {
                guard let next = try await iterator.next() else { break }
                change = next
            } catch {
                change = .resync
            }
            switch change {
            case .changed(_, let entry, _):
                guard isNew(.some(entry?.bytes)) else { continue }
                return .some(entry.flatMap { decode($0, source, changes) })
            case .resync:
                let value = source.read()
                guard isNew(Self.bytes(of: value, key)) else { continue }
                return .some(value)
            }
        }
        end()
        return nil
    }

    private func end() {
        // Returned, so that they are released outside the lock.
        _ = source.withLock { source in
            defer { source = nil }
            return source
        }
    }

    private func isNew(_ bytes: [UInt8]??) -> Bool {
        lastBytes.withLock { last in
            defer { last = bytes }
            return bytes == nil || last != bytes
        }
    }

    private func decode(_ entry: KVEntry, _ source: Source, _ changes: KVChanges) -> Value? {
        do {
            return try ValueTable.decode(entry.bytes, as: key)
        } catch {
            // Reports the value to the store's handler. The store may convert it, as user defaults do.
            let value = source.read()
            let isPresent = changes.handles.allSatisfy { $0.hasDelivered($0.appendedCount, isProcessed: false) }
            return isPresent ? value : nil
        }
    }

    /// The bytes of a value that is read by its type; nil if they are unknown, because an undecodable value reads as
    /// absent.
    private static func bytes(of value: Value?, _ key: KVKey<Value>) -> [UInt8]?? {
        guard let value else { return nil }
        do { return .some(try ValueTable.encode(value, for: key)) } catch { return nil }
    }
}

// MARK: Streams of any store

extension KVStoring {
    /// The values of a key: the current one, then the latest one after each change that the store reports; nil while
    /// the key is absent.
    ///
    /// A slow consumer sees the latest value, not each of several changes; the final value is always delivered. A
    /// change that does not change the encoded value produces no element. The sequence has one consumer. Unlike a
    /// stream of a ``ReactiveKVStore``, which reports every change, it keeps the store alive, until its task is
    /// cancelled or the sequence and its iterators are released. If the store does not report changes, the current value
    /// is the only element.
    public func values<T>(of key: KVKey<T>) -> KVStream<T> {
        KVStream(KVStreamSource(key, subscribe(to: .key(key.name, limit: 1))) { get(key) })
    }

    /// The values of a setting: the current one, then the latest one after each change; the default
    /// while nothing is stored. Otherwise like ``values(of:)-(KVKey<T>)``.
    public func values<T>(of setting: KVSetting<T>) -> KVSettingValues<T> {
        KVSettingValues(values(of: setting.key), defaultValue: setting.defaultValue)
    }
}

/// The values of a setting; see ``KVStoring/values(of:)-(KVSetting<T>)``.
public struct KVSettingValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
    public typealias Element = Value
    public typealias Failure = Never

    private let values: KVStream<Value>
    private let defaultValue: Value

    init(_ values: KVStream<Value>, defaultValue: Value) {
        self.values = values
        self.defaultValue = defaultValue
    }

    public func makeAsyncIterator() -> Iterator {
        Iterator(values: values.makeAsyncIterator(), defaultValue: defaultValue)
    }

    /// The iterator of a setting's values.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var values: KVStream<Value>.Iterator
        fileprivate let defaultValue: Value

        public mutating func next() async -> Value? {
            await values.next().map { $0 ?? defaultValue }
        }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> Value? {
            await values.next(isolation: actor).map { $0 ?? defaultValue }
        }
    }
}
