/// The written parts of a large or sparse file, in chunks of a few blocks; parts without a chunk read as zeros.
struct SparseChunks: Sendable {
    private static let size: Int64 = 16_384
    private static let blocksPerChunk = size / FileContent.blockSize

    private struct Chunk: Sendable {
        var bytes = [UInt8](repeating: 0, count: Int(SparseChunks.size))
        /// One bit per written block.
        var written: UInt8 = 0
    }

    private var chunks: [Int64: Chunk] = [:]

    func read(into target: UnsafeMutableRawBufferPointer, at offset: Int64) {
        Self.forEachPart(of: target.count, at: offset) { number, start, part in
            let destination = UnsafeMutableRawBufferPointer(rebasing: target[part])
            guard let chunk = chunks[number] else {
                destination.initializeMemory(as: UInt8.self, repeating: 0)
                return
            }
            chunk.bytes.withUnsafeBytes { bytes in
                destination.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<start + part.count]))
            }
        }
    }

    /// Copies written parts into zero-filled memory.
    func copyWritten(into zeros: UnsafeMutableRawBufferPointer, at offset: Int64) {
        let wanted = offset..<offset + Int64(zeros.count)
        for (number, chunk) in chunks {
            let start = number * Self.size
            let part = (start..<start + Self.size).clamped(to: wanted)
            guard !part.isEmpty else { continue }
            chunk.bytes.withUnsafeBytes { bytes in
                let source = UnsafeRawBufferPointer(rebasing: bytes[Int(part.lowerBound - start)...].prefix(part.count))
                let target = UnsafeMutableRawBufferPointer(rebasing: zeros[Int(part.lowerBound - offset)...])
                target.copyMemory(from: source)
            }
        }
    }

    mutating func write(_ source: UnsafeRawBufferPointer, at offset: Int64) {
        Self.forEachPart(of: source.count, at: offset) { number, start, part in
            chunks[number, default: Chunk()].bytes.withUnsafeMutableBytes { bytes in
                let destination = UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + part.count])
                destination.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[part]))
            }
            let first = start / Int(FileContent.blockSize)
            let last = (start + part.count - 1) / Int(FileContent.blockSize)
            for block in first...last { chunks[number]?.written |= 1 << UInt8(block) }
        }
    }

    /// Discards everything from `size` on; the rest of the last block reads as zeros if the file grows again.
    mutating func cut(to size: Int64) {
        let boundary = size / Self.size
        for number in Array(chunks.keys) where number > boundary { chunks[number] = nil }
        guard chunks[boundary] != nil else { return }
        let kept = Int(size % Self.size)
        guard kept > 0 else {
            chunks[boundary] = nil
            return
        }
        chunks[boundary]?.bytes.withUnsafeMutableBytes { bytes in
            _ = UnsafeMutableRawBufferPointer(rebasing: bytes[kept...]).initializeMemory(as: UInt8.self, repeating: 0)
        }
        let blocks = (kept - 1) / Int(FileContent.blockSize) + 1
        chunks[boundary]?.written &= UInt8((1 << blocks) - 1)
    }

    /// The number of written blocks in `blocks` that are not members of `excluded`.
    func writtenBlocks(in blocks: Range<Int64>, notIn excluded: BlockRanges) -> Int64 {
        guard !blocks.isEmpty else { return 0 }
        let numbers = blocks.lowerBound / Self.blocksPerChunk...(blocks.upperBound - 1) / Self.blocksPerChunk
        var count: Int64 = 0
        func add(_ number: Int64, _ chunk: Chunk) {
            for bit in 0..<Self.blocksPerChunk where chunk.written & (1 << UInt8(bit)) != 0 {
                let block = number * Self.blocksPerChunk + bit
                if blocks.contains(block), excluded.isEmpty || !excluded.contains(block) { count += 1 }
            }
        }
        if numbers.count > chunks.count {
            for (number, chunk) in chunks where numbers.contains(number) { add(number, chunk) }
        } else {
            for number in numbers { if let chunk = chunks[number] { add(number, chunk) } }
        }
        return count
    }

    /// The first offset from `offset` on in a written block; nil if there is none.
    func nextWritten(from offset: Int64) -> Int64? {
        var first: Int64?
        for (number, chunk) in chunks where number >= offset / Self.size {
            for bit in 0..<Self.blocksPerChunk where chunk.written & (1 << UInt8(bit)) != 0 {
                let block = number * Self.blocksPerChunk + bit
                guard block >= offset / FileContent.blockSize else { continue }
                first = min(first ?? block, block)
            }
        }
        return first.map { max(offset, $0 * FileContent.blockSize) }
    }

    /// Calls `body` for each chunk that a range touches with its number, the start in the chunk, and the part of the
    /// range.
    private static func forEachPart(of count: Int, at offset: Int64, _ body: (Int64, Int, Range<Int>) -> Void) {
        var done = 0
        while done < count {
            let position = offset + Int64(done)
            let start = Int(position % size)
            let length = min(Int(size) - start, count - done)
            body(position / size, start, done..<done + length)
            done += length
        }
    }
}
