/// A problem that a store reports although the call that detected it did not fail.
public indirect enum KVStoreIssue: Sendable {
    /// Damaged bytes were found in the log when it was opened, or an undecodable value was overwritten. The bytes were
    /// copied to a file of their own, unless the store was opened read-only; everything else remains readable.
    case damage(KVDamageReport)

    /// Records are missing at this byte of the log, though no byte there is damaged.
    case missingRecords(offset: Int64)

    /// The log ended in an incomplete record (a torn write) and was truncated to the last complete record.
    case tornTail(sizeInBytes: Int64)

    /// The log could not be repaired. Reads work; every write throws `.unavailable`, with this error underlying.
    case readOnly(KVStoreError)

    /// A value exists but cannot be decoded as the key's type, so `get` returned nil. Reported once per stored value.
    case undecodable(KVStoreError)

    /// Compaction of the log failed. No data is lost; the store tries again later.
    case compactionFailed(KVStoreError)

    /// A shared store could not read records of other processes, so `get` and `contains` returned older values; or it
    /// could not publish a write of this process. The next call tries again. A failed read is not reported again until
    /// a read has succeeded.
    case sharing(KVStoreError)

    /// An assignment to a ``Setting`` failed, so the old value is kept.
    case assignment(key: String, any Error)
}

extension KVStoreIssue: CustomStringConvertible {
    public var description: String {
        switch self {
        case .damage(let report): "damage: \(report)"
        case .missingRecords(let offset): "records are missing at byte \(offset) of the log"
        case .tornTail(let size): "the log ended in \(size) bytes of an unfinished record, now removed"
        case .readOnly(let error): "read-only: \(error)"
        case .undecodable(let error): "undecodable: \(error)"
        case .compactionFailed(let error): "compaction failed: \(error)"
        case .sharing(let error): "sharing with other processes: \(error)"
        case .assignment(let key, let error): "assignment to \(KeyName(key)): \(error)"
        }
    }
}

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
