import ForgeFileSystem

/// A block of an index: up to 255 entries, each the hash of a name and where a record that is about it stands.
enum LogIndexBlock {
    /// Where a record stands, for a name of this hash.
    struct Entry: Hashable, Sendable {
        var hash: UInt64
        var offset: Int64
    }

    static let size = 4096
    static let headerSize = 16
    static let entrySize = 16
    static let capacity = (size - headerSize) / entrySize

    /// In how many entries of each block names are put on average: few enough that hardly any overflows.
    static let load = 190

    /// The block that the entries of a hash begin in; where it is full they go on in the next.
    static func number(of hash: UInt64, in blockCount: UInt64) -> UInt64 {
        hash.multipliedFullWidth(by: blockCount).high
    }

    /// The checksum of a block, with the index that it is of and its place there.
    private static func checksum(
        of block: UnsafeRawBufferPointer, number: UInt64, _ header: LogIndexHeader
    ) -> UInt32 {
        var checksum = header.fileID.checksum
        for word in [header.seed.first, header.seed.second, UInt64(bitPattern: header.end), number] {
            withUnsafeBytes(of: word.littleEndian) { checksum.update($0) }
        }
        checksum.update(UnsafeRawBufferPointer(rebasing: block[4...]))
        return checksum.value
    }

    /// Writes a block into memory of its ``size``, which is all zeros.
    static func write(
        _ entries: some Collection<Entry>, number: UInt64, _ header: LogIndexHeader,
        to block: UnsafeMutableRawBufferPointer
    ) {
        block.store(UInt32(entries.count), at: 4)
        for (index, entry) in entries.enumerated() {
            block.store(entry.hash, at: headerSize + index * entrySize)
            block.store(entry.offset, at: headerSize + index * entrySize + 8)
        }
        block.store(checksum(of: UnsafeRawBufferPointer(block), number: number, header), at: 0)
    }

    /// How many entries a block holds; nil if it is not what was written.
    static func count(_ block: UnsafeRawBufferPointer, number: UInt64, _ header: LogIndexHeader) -> Int? {
        guard block.count == size,
            block.integer(at: 0, as: UInt32.self) == checksum(of: block, number: number, header)
        else { return nil }
        let count = Int(block.integer(at: 4, as: UInt32.self))
        return count <= capacity ? count : nil
    }

    static func entry(_ index: Int, of block: UnsafeRawBufferPointer) -> Entry {
        Entry(
            hash: block.integer(at: headerSize + index * entrySize, as: UInt64.self),
            offset: block.integer(at: headerSize + index * entrySize + 8, as: Int64.self))
    }
}
