extension KeyName {
    /// Whether the name is valid for a stored value.
    @inline(__always)
    var isValid: Bool { count <= Self.maximumLength }

    /// Throws unless the name is valid for a stored value.
    func check(_ operation: KVStoreError.Operation, in store: String?) throws(KVStoreError) {
        guard isValid else {
            throw KVStoreError(.invalidKey, operation, key: string, store: store)
        }
    }
}
