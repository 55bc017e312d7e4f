/// One record of a log: a frame of 20 bytes and a payload that says what was done.
enum LogRecord {
    /// What a record does to the store.
    enum Change: Sendable {
        case set(KeyName, [UInt8])
        case remove(KeyName)
        case removeAll

        /// Nothing: it stands behind a flush and says, by its frame, that all before it had reached the device.
        case flushed
    }

    /// What stands before the payload.
    struct Frame: Hashable, Sendable {
        var payloadSize: Int
        var sequence: UInt64
        var unflushedCount: UInt32
        var checksum: UInt32

        /// The last record that had reached the device when this one was written; 0 for none.
        var flushedSequence: UInt64 {
            let (flushed, overflow) = sequence.subtractingReportingOverflow(UInt64(unflushedCount) + 1)
            return overflow ? 0 : flushed
        }
    }

    /// The payload's length, the sequence number, how many records before it no flush had covered, the checksum.
    static let frameSize = 20

    /// The operation, a byte of flags and the length of the name.
    static let payloadPrefixSize = 4

    /// The highest sequence number that is believed: a log that counts one a nanosecond gets there in 146 years.
    static let maximumSequence: UInt64 = 1 << 62

    /// How long the record of a value is.
    static func size(name: KeyName, valueSize: Int) -> Int {
        frameSize + payloadPrefixSize + name.count + valueSize
    }

    /// Appends a record to `bytes`.
    static func append(
        _ change: Change, sequence: UInt64, unflushedCount: UInt32, checksum start: CRC32C, to bytes: inout [UInt8]
    ) {
        let origin = bytes.count
        var payloadSize = payloadPrefixSize
        switch change {
        case .set(let name, let value): payloadSize += name.count + value.count
        case .remove(let name): payloadSize += name.count
        case .removeAll, .flushed: break
        }
        bytes.append(integer: UInt32(payloadSize))
        bytes.append(integer: sequence)
        bytes.append(integer: unflushedCount)
        bytes.append(integer: UInt32(0))
        switch change {
        case .set(let name, let value):
            appendPrefix(.set, name, to: &bytes)
            bytes.append(contentsOf: value)
        case .remove(let name): appendPrefix(.remove, name, to: &bytes)
        case .removeAll: appendPrefix(.removeAll, nil, to: &bytes)
        case .flushed: appendPrefix(.flushed, nil, to: &bytes)
        }
        var checksum = start
        bytes.withUnsafeBytes { buffer in
            checksum.update(UnsafeRawBufferPointer(rebasing: buffer[origin..<(origin + 16)]))
            checksum.update(UnsafeRawBufferPointer(rebasing: buffer[(origin + frameSize)...]))
        }
        bytes.replace(at: origin + 16, integer: checksum.value)
    }

    private enum Code: UInt8 {
        case set = 1
        case remove = 2
        case removeAll = 3
        case flushed = 4
    }

    private static func appendPrefix(_ code: Code, _ name: KeyName?, to bytes: inout [UInt8]) {
        bytes.append(code.rawValue)
        bytes.append(0)
        // Names are at most 1,024 bytes long; every set and remove has checked.
        bytes.append(integer: UInt16(name?.count ?? 0))
        name?.withBytes { bytes.append(contentsOf: $0) }
    }

    /// Reads the frame in the first 20 bytes of `buffer`.
    static func frame(_ buffer: UnsafeRawBufferPointer) -> Frame {
        Frame(
            payloadSize: Int(buffer.integer(at: 0, as: UInt32.self)),
            sequence: buffer.integer(at: 4, as: UInt64.self),
            unflushedCount: buffer.integer(at: 12, as: UInt32.self),
            checksum: buffer.integer(at: 16, as: UInt32.self))
    }

    /// Whether the checksum of a record, frame and payload, is right.
    static func isIntact(_ record: UnsafeRawBufferPointer, checksum start: CRC32C) -> Bool {
        var checksum = start
        checksum.update(UnsafeRawBufferPointer(rebasing: record[..<16]))
        checksum.update(UnsafeRawBufferPointer(rebasing: record[frameSize...]))
        return checksum.value == frame(record).checksum
    }

    /// What a payload says; nil if it says nothing that this version understands.
    static func change(_ payload: UnsafeRawBufferPointer) -> Change? {
        guard payload.count >= payloadPrefixSize, let code = Code(rawValue: payload[0]), payload[1] == 0 else {
            return nil
        }
        let nameSize = Int(payload.integer(at: 2, as: UInt16.self))
        let rest = UnsafeRawBufferPointer(rebasing: payload[payloadPrefixSize...])
        guard nameSize <= rest.count, nameSize <= KeyName.maximumLength else { return nil }
        switch code {
        case .removeAll: return rest.isEmpty ? .removeAll : nil
        case .flushed: return rest.isEmpty ? .flushed : nil
        case .set, .remove:
            guard let name = String(validating: rest.prefix(nameSize), as: UTF8.self) else { return nil }
            if code == .set { return .set(KeyName(name), Array(rest.dropFirst(nameSize))) }
            return nameSize == rest.count ? .remove(KeyName(name)) : nil
        }
    }
}
