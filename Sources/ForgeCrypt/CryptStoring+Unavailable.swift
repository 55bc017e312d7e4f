/// A call of key-value stores, declared unavailable so that the compiler suggests the right one.
extension CryptStoring {
    @available(*, unavailable, message: "a secret store takes the value first: set(value, for: key)")
    public func set<T: Codable & Sendable>(_ key: CryptKey<T>, value: T) throws { fatalError("unavailable") }
}
