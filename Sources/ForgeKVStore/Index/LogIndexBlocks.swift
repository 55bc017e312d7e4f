/// The blocks that hold entries which are in the order of their hashes.
///
/// Each block has the entries that begin in it, as far as there is room behind those that found none in the block before.
struct LogIndexBlocks: Sequence, IteratorProtocol {
    private let entries: [LogIndexBlock.Entry]
    private let header: LogIndexHeader
    private var position = 0
    private var number: UInt64 = 0

    /// Whether the last block is full, which says that there is another.
    private var isFull = false

    init(_ entries: [LogIndexBlock.Entry], _ header: LogIndexHeader) {
        self.entries = entries
        self.header = header
    }

    mutating func next() -> [UInt8]? {
        guard position < entries.count || number < header.blockCount || isFull else { return nil }
        let first = position
        while position < entries.count, position - first < LogIndexBlock.capacity,
            LogIndexBlock.number(of: entries[position].hash, in: header.blockCount) <= number
        {
            position += 1
        }
        isFull = position - first == LogIndexBlock.capacity
        var block = [UInt8](repeating: 0, count: LogIndexBlock.size)
        block.withUnsafeMutableBytes { LogIndexBlock.write(entries[first..<position], number: number, header, to: $0) }
        number += 1
        return block
    }
}
