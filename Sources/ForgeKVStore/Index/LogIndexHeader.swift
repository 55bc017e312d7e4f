import ForgeFileSystem

/// The first block of an index: which log it is of, and what was known of that log where the index ends.
struct LogIndexHeader: Hashable, Sendable {
    /// The number of the log.
    var fileID: LogFileID

    /// What names are hashed with.
    var seed: KeyHash.Seed

    /// The index knows every record of the log before this byte, and all of them had reached the device.
    var end: Int64

    /// The number of the last of them.
    var sequence: UInt64

    /// How long a log of the values alone would be, at most.
    var liveBytes: Int64

    /// How many blocks names are spread over.
    var blockCount: UInt64

    static let size = 4096
    static let magic: [UInt8] = Array("FORGEKX\n".utf8)
    static let version: UInt32 = 1

    /// The header as it stands in the file.
    func encoded() -> [UInt8] {
        var bytes = Self.magic
        bytes.append(integer: Self.version)
        bytes.append(integer: UInt32(Self.size))
        bytes.append(contentsOf: fileID.bytes)
        bytes.append(integer: seed.first)
        bytes.append(integer: seed.second)
        bytes.append(integer: end)
        bytes.append(integer: sequence)
        bytes.append(integer: liveBytes)
        bytes.append(integer: blockCount)
        bytes.append(contentsOf: repeatElement(0, count: Self.size - 4 - bytes.count))
        bytes.append(integer: Self.checksum(of: bytes[...]))
        return bytes
    }

    /// Reads a header; nil if the bytes are none, or none of this version.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count >= Self.size, bytes.starts(with: Self.magic) else { return nil }
        let checksum = Self.checksum(of: bytes[..<(Self.size - 4)])
        let header = bytes.withUnsafeBytes { buffer -> LogIndexHeader? in
            guard buffer.integer(at: Self.size - 4, as: UInt32.self) == checksum,
                buffer.integer(at: 8, as: UInt32.self) == Self.version
            else { return nil }
            return LogIndexHeader(
                fileID: LogFileID(UnsafeRawBufferPointer(rebasing: buffer[16..<32])),
                seed: KeyHash.Seed(
                    first: buffer.integer(at: 32, as: UInt64.self), second: buffer.integer(at: 40, as: UInt64.self)),
                end: buffer.integer(at: 48, as: Int64.self), sequence: buffer.integer(at: 56, as: UInt64.self),
                liveBytes: buffer.integer(at: 64, as: Int64.self),
                blockCount: buffer.integer(at: 72, as: UInt64.self))
        }
        guard let header, header.isPlausible else { return nil }
        self = header
    }

    init(
        fileID: LogFileID, seed: KeyHash.Seed, end: Int64, sequence: UInt64, liveBytes: Int64, blockCount: UInt64
    ) {
        self.fileID = fileID
        self.seed = seed
        self.end = end
        self.sequence = sequence
        self.liveBytes = liveBytes
        self.blockCount = blockCount
    }

    private var isPlausible: Bool {
        end >= Int64(LogHeader.size) && liveBytes >= 0 && liveBytes <= end && blockCount > 0 && blockCount < 1 << 40
            && sequence <= LogRecord.maximumSequence
    }

    private static func checksum(of bytes: ArraySlice<UInt8>) -> UInt32 {
        var checksum = CRC32C()
        bytes.withUnsafeBytes { checksum.update($0) }
        return checksum.value
    }
}
