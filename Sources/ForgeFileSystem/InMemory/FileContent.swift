// Memory safety: Every part of a buffer is cut with a checked range before its bytes are copied. Debug builds copy
// whole ranges at once only through buffers, and this is where the crash explorer spends its time.

/// The content of a regular file: bytes, holes, and preallocated blocks.
///
/// A small file without holes is one array; a large or sparse one is split into chunks, so that a byte at the far end
/// of an empty file costs one chunk and copies of the tree share unchanged chunks.
package struct FileContent: Sendable {
    package static let blockSize: Int64 = 4096
    private static let headLimit: Int64 = 65_536

    /// The length of the file, holes included.
    package private(set) var size: Int64 = 0

    /// The number of blocks allocated on the device.
    private(set) var allocatedBlocks: Int64 = 0

    /// The bytes from 0 on while the file is not split into chunks; all their blocks are allocated.
    private var head: [UInt8] = []
    private var chunks: SparseChunks?
    private var reserved = BlockRanges()

    /// An empty file.
    package init() {}

    /// Copies bytes from `offset` on and returns their number, which is smaller than the buffer only at the end of the
    /// file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        guard offset < size else { return 0 }
        let count = Int(min(Int64(buffer.count), size - offset))
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        if let chunks {
            unsafe chunks.read(into: target, at: offset)
            return count
        }
        let available = min(head.count - Int(min(offset, Int64(head.count))), count)
        if available > 0 {
            unsafe head.withUnsafeBytes { bytes in
                let start = Int(offset)
                unsafe target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<start + available]))
            }
        }
        if available < count {
            unsafe UnsafeMutableRawBufferPointer(rebasing: target[available...]).initializeMemory(
                as: UInt8.self, repeating: 0)
        }
        return count
    }

    /// Appends up to `limit` bytes from `offset` on and returns their number, which is smaller than what the buffer holds
    /// only at the end of the file.
    package func read(into buffer: inout OutputRawSpan, upTo limit: Int = .max, at offset: Int64) -> Int {
        unsafe buffer.withUnsafeMutableBytes { memory, count in
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[count...].prefix(limit))
            let done = unsafe read(into: rest, at: offset)
            count += done
            return done
        }
    }

    /// The first offset from `offset` on in a written block; nil if there is none.
    func nextData(from offset: Int64) -> Int64? {
        guard offset < size else { return nil }
        if let chunks { return chunks.nextWritten(from: offset) }
        return offset < Self.blocks(Int64(head.count)) * Self.blockSize ? offset : nil
    }

    /// Copies bytes from `offset` on into zero-filled memory, skipping parts that were never written.
    func copyWritten(into zeros: UnsafeMutableRawBufferPointer, at offset: Int64) {
        guard offset < size else { return }
        if let chunks {
            unsafe chunks.copyWritten(into: zeros, at: offset)
        } else {
            _ = unsafe read(into: UnsafeMutableRawBufferPointer(rebasing: zeros.prefix(head.count)), at: offset)
        }
    }

    /// Stores bytes at `offset`, extending the file as needed; the caller has checked space and limits.
    package mutating func write(_ bytes: Span<UInt8>, at offset: Int64) {
        unsafe write(bytes.bytes, at: offset)
    }

    /// Stores bytes; see above.
    mutating func write(_ bytes: RawSpan, at offset: Int64) {
        unsafe bytes.withUnsafeBytes { unsafe write($0, at: offset) }
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        guard unsafe !bytes.isEmpty else { return }
        let end = offset + Int64(bytes.count)
        allocatedBlocks += unallocatedBlocks(in: offset..<end)
        size = max(size, end)
        if chunks == nil {
            if end <= Self.headLimit, offset / Self.blockSize <= Self.blocks(Int64(head.count)) {
                unsafe writeHead(bytes, at: Int(offset))
                return
            }
            cutIntoChunks()
        }
        unsafe chunks?.write(bytes, at: offset)
    }

    /// Truncates the file, or extends it by a hole.
    package mutating func setSize(_ newSize: Int64) {
        defer { size = newSize }
        guard newSize < size else { return }
        guard newSize > 0 else {
            self = FileContent()
            return
        }
        reserved.clip(to: Self.blocks(newSize))
        if chunks != nil {
            chunks?.cut(to: newSize)
        } else if newSize < Int64(head.count) {
            head.removeLast(head.count - Int(newSize))
        }
        allocatedBlocks = allocated(in: 0..<Self.blocks(newSize))
    }

    /// Reserves the blocks of a range and extends the file to its end.
    mutating func reserve(_ range: Range<Int64>) {
        allocatedBlocks += unallocatedBlocks(in: range)
        reserved.insert(Self.blockRange(range))
        size = max(size, range.upperBound)
    }

    /// The number of blocks that a write to this range would allocate.
    func unallocatedBlocks(in range: Range<Int64>) -> Int64 {
        let wanted = Self.blockRange(range)
        if chunks == nil, reserved.isEmpty {
            return max(0, wanted.upperBound - max(wanted.lowerBound, Self.blocks(Int64(head.count))))
        }
        return Int64(wanted.count) - allocated(in: wanted)
    }

    /// How many of `count` bytes at `offset` can be written if the device has `freeBlocks` left.
    func writableCount(_ count: Int, at offset: Int64, freeBlocks: Int64) -> Int {
        let end = offset + Int64(count)
        guard unallocatedBlocks(in: offset..<end) > freeBlocks else { return count }
        var left = freeBlocks
        var position = offset
        while position < end {
            let blockEnd = (position / Self.blockSize + 1) * Self.blockSize
            if unallocatedBlocks(in: position..<position + 1) > 0 {
                guard left > 0 else { break }
                left -= 1
            }
            position = min(blockEnd, end)
        }
        return Int(position - offset)
    }

    private mutating func writeHead(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        guard !head.isEmpty || offset > 0 else {
            head = unsafe [UInt8](bytes)
            return
        }
        if offset > head.count { head.append(contentsOf: repeatElement(0, count: offset - head.count)) }
        let overlap = min(bytes.count, head.count - offset)
        if overlap > 0 {
            unsafe head.withUnsafeMutableBytes { target in
                unsafe UnsafeMutableRawBufferPointer(rebasing: target[offset...])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<overlap]))
            }
        }
        if overlap < bytes.count {
            unsafe head.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[overlap...]))
        }
    }

    private mutating func cutIntoChunks() {
        var chunks = SparseChunks()
        unsafe head.withUnsafeBytes { unsafe chunks.write($0, at: 0) }
        head = []
        self.chunks = chunks
    }

    private func allocated(in blocks: Range<Int64>) -> Int64 {
        guard let chunks else {
            let written = 0..<Self.blocks(Int64(head.count))
            let inHead = written.clamped(to: blocks)
            return Int64(inHead.count) + reserved.overlap(with: blocks) - reserved.overlap(with: inHead)
        }
        return chunks.writtenBlocks(in: blocks, notIn: reserved) + reserved.overlap(with: blocks)
    }

    private static func blocks(_ size: Int64) -> Int64 {
        size / blockSize + (size % blockSize == 0 ? 0 : 1)
    }

    private static func blockRange(_ bytes: Range<Int64>) -> Range<Int64> {
        bytes.isEmpty ? 0..<0 : bytes.lowerBound / blockSize..<blocks(bytes.upperBound)
    }
}

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
            let destination = unsafe UnsafeMutableRawBufferPointer(rebasing: target[part])
            guard let chunk = chunks[number] else {
                unsafe destination.initializeMemory(as: UInt8.self, repeating: 0)
                return
            }
            unsafe chunk.bytes.withUnsafeBytes { bytes in
                unsafe destination.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<start + part.count]))
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
            unsafe chunk.bytes.withUnsafeBytes { bytes in
                let source = unsafe UnsafeRawBufferPointer(
                    rebasing: bytes[Int(part.lowerBound - start)...].prefix(part.count))
                let target = unsafe UnsafeMutableRawBufferPointer(rebasing: zeros[Int(part.lowerBound - offset)...])
                unsafe target.copyMemory(from: source)
            }
        }
    }

    mutating func write(_ source: UnsafeRawBufferPointer, at offset: Int64) {
        Self.forEachPart(of: source.count, at: offset) { number, start, part in
            unsafe chunks[number, default: Chunk()].bytes.withUnsafeMutableBytes { bytes in
                let destination = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start..<start + part.count])
                unsafe destination.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[part]))
            }
            let first = start / Int(FileContent.blockSize)
            let last = (start + part.count - 1) / Int(FileContent.blockSize)
            for block in first...last { chunks[number]?.written |= 1 << UInt8(block) }
        }
    }

    /// Discards everything from `size` on; the rest of the last block reads as zeros if the file grows again.
    mutating func cut(to size: Int64) {
        let (boundary, kept) = (size / Self.size, Int(size % Self.size))
        for number in Array(chunks.keys) where number > boundary || number == boundary && kept == 0 {
            chunks[number] = nil
        }
        guard chunks[boundary] != nil else { return }
        unsafe chunks[boundary]?.bytes.withUnsafeMutableBytes { bytes in
            _ = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[kept...]).initializeMemory(
                as: UInt8.self, repeating: 0)
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

/// Block numbers as disjoint and non-adjacent ranges, in no particular order.
struct BlockRanges: Sendable {
    private(set) var ranges: [Range<Int64>] = []

    var isEmpty: Bool { ranges.isEmpty }

    /// The number of members in `range`.
    func overlap(with range: Range<Int64>) -> Int64 {
        ranges.reduce(0) { sum, member in sum + Int64(member.clamped(to: range).count) }
    }

    func contains(_ block: Int64) -> Bool {
        ranges.contains { $0.contains(block) }
    }

    mutating func insert(_ range: Range<Int64>) {
        var merged = range
        var kept: [Range<Int64>] = []
        for member in ranges {
            if member.upperBound < merged.lowerBound || member.lowerBound > merged.upperBound {
                kept.append(member)
            } else {
                merged = min(member.lowerBound, merged.lowerBound)..<max(member.upperBound, merged.upperBound)
            }
        }
        ranges = kept + [merged]
    }

    /// Removes every block from `end` on.
    mutating func clip(to end: Int64) {
        ranges = ranges.compactMap { member in
            let clipped = member.clamped(to: member.lowerBound..<max(end, member.lowerBound))
            return clipped.isEmpty ? nil : clipped
        }
    }
}
