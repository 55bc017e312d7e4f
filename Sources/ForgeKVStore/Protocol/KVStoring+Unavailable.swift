/// Calls of other stores, declared unavailable so that the compiler suggests the right ones.
extension KVStoring {
    @available(*, unavailable, message: "a key-value store takes the key first: set(key, value: value)")
    public func set<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }

    @available(*, unavailable, message: "a key-value store is written with set(key, value: value)")
    public func save<T>(_ value: T, for key: KVKey<T>) throws { fatalError("unavailable") }
}
