extension InMemoryFileSystem {
    /// A mapped part of a file.
    struct Mapping: Sendable {
        /// The index of the inode in the table of inodes.
        var inode: Int
        var process: Int
        /// The range in the file.
        var range: Range<Int64>
        var pages: Pages
        /// Whether it has stores that were not written back.
        var isModified = false
        /// Whether an access hit a page without a file behind it.
        var hasFaulted = false
    }

    /// The memory that the owner of a mapping sees: a copy of the file's content that is updated with every change.
    ///
    /// It is written only under the lock of the tree, and read without it by the owner, like the system's memory;
    /// callers must order such reads themselves.
    final class Pages: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer

        /// Below this size, filling memory with zeros is cheaper than mapping it.
        private static let mappedFromCount = 1 << 16

        /// Zero-filled; nil if there is no memory.
        init?(count: Int) {
            guard count >= Self.mappedFromCount else {
                memory = .allocate(byteCount: count, alignment: 16)
                _ = memory.initializeMemory(as: UInt8.self, repeating: 0)
                return
            }
            guard let base = sysMapAnonymous(count) else { return nil }
            memory = UnsafeMutableRawBufferPointer(start: base, count: count)
        }

        deinit {
            guard memory.count >= Self.mappedFromCount else { return memory.deallocate() }
            // This can fail only for a range that was never mapped.
            if let base = memory.baseAddress { _ = sysUnmap(base, memory.count) }
        }
    }
}

extension InMemoryFileSystem.Mapping {
    /// Copies bytes of the file into the memory, as far as they are mapped.
    func show(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        let shown = (offset..<offset + Int64(bytes.count)).clamped(to: range)
        guard !shown.isEmpty else { return }
        let source = UnsafeRawBufferPointer(rebasing: bytes[Int(shown.lowerBound - offset)...].prefix(shown.count))
        memory(of: shown).copyMemory(from: source)
    }

    /// Fills a range of the file with zeros.
    func showZeros(_ zeros: Range<Int64>) {
        let shown = zeros.clamped(to: range)
        guard !shown.isEmpty else { return }
        _ = memory(of: shown).initializeMemory(as: UInt8.self, repeating: 0)
    }

    private func memory(of part: Range<Int64>) -> UnsafeMutableRawBufferPointer {
        let start = Int(part.lowerBound - range.lowerBound)
        return UnsafeMutableRawBufferPointer(rebasing: pages.memory[start..<start + part.count])
    }
}
