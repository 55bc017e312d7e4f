import ForgeFileSystem

/// The first 64 bytes of a log.
struct LogHeader: Hashable, Sendable {
    /// The random identifier of this log; every record's checksum covers it, so records of another log are invalid
    /// here.
    var fileID: LogFileID

    /// The number of times that the log was replaced.
    var generation: UInt64

    static let size = 64
    static let magic: [UInt8] = Array("FORGEKV\n".utf8)
    static let currentVersion: UInt32 = 1

    /// The header as stored in the file.
    func encoded() -> [UInt8] {
        var bytes = Self.magic
        bytes.append(integer: Self.currentVersion)
        bytes.append(integer: UInt32(Self.size))
        bytes.append(contentsOf: fileID.bytes)
        bytes.append(integer: generation)
        // Stored twice, so that damage to one copy does not lose the records.
        bytes.append(contentsOf: fileID.bytes)
        bytes.append(integer: UInt32(0))
        bytes.append(integer: Self.checksum(of: bytes))
        return bytes
    }

    private static func checksum(of bytes: some Sequence<UInt8>) -> UInt32 {
        var checksum = CRC32C()
        let bytes = Array(bytes)
        checksum.update(bytes.span, 0..<bytes.count)
        return checksum.value
    }

    /// The result of reading a header.
    enum Reading: Hashable, Sendable {
        case valid(LogHeader)

        /// A header of another version, itself undamaged.
        case unknownVersion(UInt32)

        /// No valid header. The log's identifier may be one of these.
        case damaged(candidates: [LogFileID])
    }

    /// Parses a header; `bytes` may be shorter than a header.
    static func read(_ bytes: [UInt8]) -> Reading {
        guard bytes.count >= size else { return .damaged(candidates: []) }
        let (first, second) = (LogFileID(bytes[16..<32]), LogFileID(bytes[40..<56]))
        let span = bytes.span
        guard bytes.starts(with: magic), checksum(of: bytes[..<60]) == span.integer(at: 60, as: UInt32.self) else {
            return .damaged(candidates: first == second ? [first] : [first, second])
        }
        let version = span.integer(at: 8, as: UInt32.self)
        guard version == currentVersion, first == second else { return .unknownVersion(version) }
        return .valid(LogHeader(fileID: first, generation: span.integer(at: 32, as: UInt64.self)))
    }

    /// Whether a file without a valid header is a log whose creation was interrupted: it is at most as long as a
    /// header, and begins like one or contains only zeros.
    static func isInterruptedCreation(_ bytes: [UInt8], fileSize: Int64) -> Bool {
        fileSize <= Int64(size) && (bytes.starts(with: magic.prefix(bytes.count)) || bytes.allSatisfy { $0 == 0 })
    }
}

/// The identifier of a log: 128 random bits.
struct LogFileID: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes.prefix(16))
    }

    init(random: () -> UInt64) {
        var bytes: [UInt8] = []
        bytes.append(integer: random())
        bytes.append(integer: random())
        self.bytes = bytes
    }

    /// The state of a checksum over the identifier, with which the checksum of every record starts.
    var checksum: CRC32C {
        var checksum = CRC32C()
        checksum.update(bytes.span, 0..<bytes.count)
        return checksum
    }

    /// The first four bytes as eight hexadecimal digits, for file names.
    var shortName: String {
        bytes.prefix(4).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension POSIXPath {
    /// The name of the log in the directory of a store.
    static let logName: POSIXPath = "log"
}

/// The open file of a log, closed with its last reference.
final class LogFile: Sendable {
    let fileSystem: any POSIXFileSystem
    let descriptor: Descriptor
    let header: LogHeader

    init(_ descriptor: Descriptor, header: LogHeader, on fileSystem: any POSIXFileSystem) {
        self.fileSystem = fileSystem
        self.descriptor = descriptor
        self.header = header
    }

    deinit {
        // Everything that had to be durable was flushed before.
        do { try fileSystem.close(descriptor) } catch _ {}
    }
}
