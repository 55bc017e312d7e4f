/// Calls of other stores, so that the compiler names the right one. No call compiles, so no body runs.
extension KVStoring {
    @available(*, unavailable, message: "a key-value store takes the key first: set(key, value: value)")
    public func set<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }

    @available(*, unavailable, message: "a key-value store is written with set(key, value: value)")
    public func save<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }
}
