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
        let target = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        if let chunks {
            chunks.read(into: target, at: offset)
            return count
        }
        let available = max(0, min(head.count - Int(min(offset, Int64(head.count))), count))
        if available > 0 {
            head.withUnsafeBytes { bytes in
                let start = Int(offset)
                target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[start..<start + available]))
            }
        }
        if available < count {
            UnsafeMutableRawBufferPointer(rebasing: target[available...]).initializeMemory(as: UInt8.self, repeating: 0)
        }
        return count
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
            chunks.copyWritten(into: zeros, at: offset)
        } else {
            _ = read(into: UnsafeMutableRawBufferPointer(rebasing: zeros.prefix(head.count)), at: offset)
        }
    }

    /// Stores bytes at `offset`, extending the file as needed; the caller has checked space and limits.
    package mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        guard !bytes.isEmpty else { return }
        let end = offset + Int64(bytes.count)
        allocatedBlocks += unallocatedBlocks(in: offset..<end)
        size = max(size, end)
        if chunks == nil {
            if end <= Self.headLimit, offset / Self.blockSize <= Self.blocks(Int64(head.count)) {
                writeHead(bytes, at: Int(offset))
                return
            }
            cutIntoChunks()
        }
        chunks?.write(bytes, at: offset)
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
            head = [UInt8](bytes)
            return
        }
        if offset > head.count { head.append(contentsOf: repeatElement(0, count: offset - head.count)) }
        let overlap = min(bytes.count, head.count - offset)
        if overlap > 0 {
            head.withUnsafeMutableBytes { target in
                UnsafeMutableRawBufferPointer(rebasing: target[offset...])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<overlap]))
            }
        }
        if overlap < bytes.count {
            head.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[overlap...]))
        }
    }

    private mutating func cutIntoChunks() {
        var chunks = SparseChunks()
        head.withUnsafeBytes { chunks.write($0, at: 0) }
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
