/// A key-value store that can list its keys, and read and store encoded values of any type.
///
/// For tools, wrapping stores, import and export.
public protocol KVRawStoring: KVStoring {
    /// The names of all keys, in no particular order.
    ///
    /// - Throws: ``KVStoreError``.
    func keys() throws -> [String]

    /// The encoded value of a name, of any type; nil if it is absent.
    ///
    /// `ForgeCoding` decodes the bytes.
    ///
    /// - Throws: ``KVStoreError``.
    func rawValue(named name: String) throws -> [UInt8]?

    /// Stores an encoded value, as returned by ``KVRawStoring/rawValue(named:)``.
    ///
    /// The bytes are not validated; invalid bytes fail when they are read.
    ///
    /// - Throws: ``KVStoreError``. The old value is kept unless the code is `.durabilityUnknown` or `.unknownOutcome`.
    func setRawValue(_ bytes: [UInt8], named name: String) throws

    /// Removes a name and its value, of any type; has no effect if it is absent.
    ///
    /// - Throws: ``KVStoreError``.
    func removeValue(named name: String) throws
}

extension KVRawStoring {
    /// The names of all keys with a prefix, compared byte by byte, in no particular order.
    public func keys(prefix: String) throws -> [String] {
        try keys().filter { $0.utf8.starts(with: prefix.utf8) }
    }
}
