import ForgeFileSystem
import ForgeKVStore

/// Offsets and checksums of log format version 1, as documented, written independently of the store.
enum LogBytes {
    static let headerSize = 64
    static let frameSize = 20

    /// The ranges of a log's records, as far as their lengths are consistent.
    static func records(_ log: [UInt8]) -> [Range<Int>] {
        var records: [Range<Int>] = []
        var offset = headerSize
        while offset + frameSize + 4 <= log.count {
            let size = frameSize + Int(log.integer(at: offset, UInt32.self))
            guard size >= frameSize + 4, offset + size <= log.count else { break }
            records.append(offset..<offset + size)
            offset += size
        }
        return records
    }

    /// Recomputes the checksum of the header.
    static func signHeader(_ log: inout [UInt8]) {
        log.store(checksum([log[0..<60]]), at: 60)
    }

    /// Recomputes the checksum of a record, which need not begin at a record boundary.
    static func sign(_ record: Range<Int>, of log: inout [UInt8]) {
        let start = record.lowerBound
        log.store(
            checksum([log[16..<32], log[start..<start + 16], log[start + frameSize..<record.upperBound]]),
            at: start + 16)
    }

    private static func checksum(_ pieces: [ArraySlice<UInt8>]) -> UInt32 {
        var checksum = CRC32C()
        for piece in pieces { piece.withUnsafeBytes { checksum.update($0) } }
        return checksum.value
    }
}

extension [UInt8] {
    /// The little-endian integer at an offset.
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, _: Number.Type) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    /// Stores a little-endian integer at an offset.
    mutating func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        withUnsafeMutableBytes { $0.storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number)) }
    }
}
