import ForgeFileSystem
import ForgeKVStore

/// Where things stand in a log of format version 1, as the documentation gives them, and the checksums
/// that make forged bytes count.
enum LogBytes {
    static let headerSize = 64
    static let frameSize = 20

    /// The records of a log, as far as lengths lead from one to the next.
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

    /// Gives a log the checksum that makes its header right.
    static func signHeader(_ log: inout [UInt8]) {
        log.store(checksum([log[0..<60]]), at: 60)
    }

    /// Gives a record of a log, which need not begin where one did, the checksum that makes it right.
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
    /// The number at an offset, least significant byte first.
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, _: Number.Type) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    /// Puts a number at an offset, least significant byte first.
    mutating func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        withUnsafeMutableBytes { $0.storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number)) }
    }
}
