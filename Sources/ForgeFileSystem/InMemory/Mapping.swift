extension InMemoryFileSystem {
    /// A part of a file that a process has mapped.
    struct Mapping: Sendable {
        /// The index of the inode in the table of inodes.
        var inode: Int
        var process: Int
        /// Which bytes of the file.
        var range: Range<Int64>
        var pages: Pages
        /// Whether something was stored that was not written back since.
        var isModified = false
        /// Whether an access found no file behind a page.
        var hasFaulted = false
    }

    /// The memory that the owner of a mapping sees: a copy of the file's content that follows every change of it.
    ///
    /// It is only written to under the lock of the tree, and read without it by the owner of the mapping, as the
    /// memory of the system is; ordering such reads is the caller's task.
    final class Pages: @unchecked Sendable {
        let memory: UnsafeMutableRawBufferPointer

        /// Of fewer bytes asking the system for memory costs more than filling it with zeros.
        private static let mappedFromCount = 1 << 16

        /// Zeros; nil if there is no memory.
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
            // The only failure is that of a range that was never mapped.
            if let base = memory.baseAddress { _ = sysUnmap(base, memory.count) }
        }
    }
}

extension InMemoryFileSystem.Mapping {
    /// Lets bytes of the file be seen in the memory, as far as they are mapped.
    func show(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        let shown = (offset..<offset + Int64(bytes.count)).clamped(to: range)
        guard !shown.isEmpty else { return }
        let source = UnsafeRawBufferPointer(rebasing: bytes[Int(shown.lowerBound - offset)...].prefix(shown.count))
        memory(of: shown).copyMemory(from: source)
    }

    /// Lets bytes of the file be seen as zeros.
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
