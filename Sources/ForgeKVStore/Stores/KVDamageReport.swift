/// Unreadable bytes of a store.
///
/// They are set aside unchanged in a separate file beside the log; the owner may inspect, keep or delete it. A store
/// that is opened with ``FileKVStore/Access/readOnly`` leaves them in the log.
public struct KVDamageReport: Hashable, Sendable {
    /// The kind of the bytes.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Records in the middle of the log that were damaged after they had reached the device.
        case records

        /// The end of the log, not known to have reached the device, with intact records after a bad one.
        case tail

        /// The header of the log; the records after it were read nevertheless.
        case header

        /// A whole log that could not be read.
        case log

        /// A value that could not be decoded as the type that replaced it. The file begins with a prefix of eight bytes
        /// and the name.
        case value
    }

    /// The kind of the bytes.
    public var kind: Kind

    /// The path of the file that contains them: the log, unless ``isSetAside``.
    public var file: String

    /// Their offset in the log.
    public var offset: Int64

    /// Their number.
    public var sizeInBytes: Int64

    /// The name of the key, for a ``Kind/value``.
    public var key: String?

    /// Whether they were copied or moved out of the log; false if the store was opened read-only.
    public var isSetAside = true
}

extension KVDamageReport: CustomStringConvertible {
    public var description: String {
        let place = key.map { "of \(KeyName($0))" } ?? "at byte \(offset)"
        return "\(kind.rawValue) \(place), \(sizeInBytes) bytes, \(isSetAside ? "set aside" : "left") in \(file)"
    }
}
