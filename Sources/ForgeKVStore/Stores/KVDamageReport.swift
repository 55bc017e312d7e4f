/// Bytes of a store that could not be read.
///
/// They are set aside in a file of their own beside the log, which holds them exactly as they were found; the owner may
/// inspect, keep or delete it. A store that is opened with ``FileKVStore/Access/readOnly`` leaves them in the log.
public struct KVDamageReport: Hashable, Sendable {
    /// What the bytes were.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Records in the middle of the log that were damaged after they had reached the device.
        case records

        /// The end of the log, of which nothing says that it had reached the device, with intact records in it that
        /// came after a bad one.
        case tail

        /// The header of the log; the records behind it were read all the same.
        case header

        /// A log of which nothing could be read.
        case log

        /// A value that could not be read as the type that was then set in its place. The file begins with a prefix of
        /// eight bytes and the name.
        case value
    }

    /// What the bytes were.
    public var kind: Kind

    /// The path of the file that holds them now: the log, unless ``isSetAside``.
    public var file: String

    /// Where in the log they were found.
    public var offset: Int64

    /// How many they are.
    public var sizeInBytes: Int64

    /// The name of the key, of a ``Kind/value``.
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
