/// A call of key-value stores, so that the compiler names the right one. No call compiles, so the body never runs.
extension CryptStoring {
    @available(*, unavailable, message: "a secret store takes the value first: set(value, for: key)")
    public func set<T: Codable & Sendable>(_ key: CryptKey<T>, value: T) throws { fatalError("unavailable") }
}
