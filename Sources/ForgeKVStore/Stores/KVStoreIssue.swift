/// Something about a store that its owner should hear of although no call failed because of it.
public indirect enum KVStoreIssue: Sendable {
    /// Bytes could not be read, when the store was opened or when a value was set in their place; they were set aside, and
    /// everything else is served.
    case damage(KVDamageReport)

    /// Records are missing at this byte of the log, though no byte there is damaged.
    case missingRecords(offset: Int64)

    /// The log ended in a record that was never finished, and was cut back to the last one that was.
    case tornTail(sizeInBytes: Int64)

    /// The log could not be repaired; it can be read, but every write throws this error.
    case readOnly(KVStoreError)

    /// A value is there but is not what the key says; `get` gave nil. Told once for each value.
    case undecodable(KVStoreError)

    /// A value could not be read from the device; `get` gave nil, or `contains` false, and nothing is known of it.
    case unavailable(KVStoreError)

    /// The log could not be rewritten without what is out of date. Nothing is lost; it is tried again later.
    case compactionFailed(KVStoreError)

    /// Of a shared store: records of other processes could not be read, so `get` and `contains` returned what was read before;
    /// or a write of this process could not be published. The next call tries again; reported once until it succeeds.
    case sharing(KVStoreError)
}

extension KVStoreIssue: CustomStringConvertible {
    public var description: String {
        switch self {
        case .damage(let report): "damage: \(report)"
        case .missingRecords(let offset): "records are missing at byte \(offset) of the log"
        case .tornTail(let size): "the log ended in \(size) bytes of an unfinished record, now removed"
        case .readOnly(let error): "read-only: \(error)"
        case .undecodable(let error): "undecodable: \(error)"
        case .unavailable(let error): "unavailable: \(error)"
        case .compactionFailed(let error): "compaction failed: \(error)"
        case .sharing(let error): "sharing with other processes: \(error)"
        }
    }
}
