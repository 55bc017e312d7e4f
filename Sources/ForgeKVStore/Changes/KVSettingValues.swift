import Synchronization

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
        KVStream(KVChanges(latestValues(of: key) { $0.get(key) }))
    }

    /// The values of a setting: the current one, then the latest one after each change; the default
    /// while nothing is stored. Otherwise like ``values(of:)-(KVKey<T>)``.
    public func values<T>(of setting: KVSetting<T>) -> KVSettingValues<T> {
        let values = KVStream(KVChanges(latestValues(of: setting.key) { $0.get(setting) }))
        return KVSettingValues(values, defaultValue: setting.defaultValue)
    }

    private func latestValues<T>(
        of key: KVKey<T>, _ read: @escaping @Sendable (Self) -> T?
    ) -> KVSubscription<T> {
        let source = LatestValueSource(key) { read(self) }
        source.observe { signal in
            observeChanges { names in
                if names?.contains(where: { KeyName($0) == key.identity }) ?? true { signal() }
            }
        }
        return source.subscription
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

/// Signals the changes of a key to the consumer of a stream, which then reads the current value.
final class LatestValueSource<Value: Codable & Sendable>: Sendable {
    let buffer = KVStreamBuffer<Value>(limit: 1)
    private let key: KVKey<Value>

    /// Released, with the store, when the stream has ended.
    private struct Source {
        var read: @Sendable () -> Value?
        var observation: KVObservation?
    }

    private let source: Mutex<Source?>

    /// The content of the last delivered value.
    private let delivered = Mutex<KVContent?>(nil)

    init(_ key: KVKey<Value>, _ read: @escaping @Sendable () -> Value?) {
        self.key = key
        source = Mutex(Source(read: read))
    }

    /// Signals now and on every call of the observation; without one, the first signal is the last.
    func observe(_ start: (_ signal: @escaping @Sendable () -> Void) -> KVObservation?) {
        let observation = start { [weak self] in self?.signal() }
        source.withLock { $0?.observation = observation }
        signal()
        if observation == nil { buffer.finishAfterLast() }
    }

    func signal() { buffer.push(KVStreamElement(content: .unknown)) }

    /// The current value; nil if it is the last delivered one. Called by the one consumer, without any lock held:
    /// reading may run code of the app.
    func current() -> KVChange<Value>? {
        guard let read = source.withLock({ $0?.read }) else { return nil }
        let value = read()
        let content = value == nil ? .absent : KVContent(of: value, key)
        let isNew = delivered.withLock { delivered in
            defer { delivered = content }
            return delivered != content
        }
        return isNew ? KVChange(value: value, revision: nil, write: 0) : nil
    }

    /// Ends the observation, and releases the store.
    func cancel() {
        // Returned, so that they are released outside the lock.
        _ = source.withLock { source in
            defer { source = nil }
            return source
        }
    }

    /// The subscription of the consumer.
    var subscription: KVSubscription<Value> {
        KVSubscription(buffer, change: { _ in self.current() }, cancel: { self.cancel() })
    }
}
