import Synchronization
import SystemPackage

extension InMemoryFileSystem {
    public func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        let pages = try perform(.map) { (state) throws(Errno) in
            try state.map(descriptor, at: offset, count: count)
        }
        return FileMapping(Memory(pages, of: self), count: count)
    }

    /// The memory of a mapping. It retains the process, whose end would remove its mappings.
    private final class Memory: MappedMemory {
        private let pages: Pages
        private let fileSystem: InMemoryFileSystem

        init(_ pages: Pages, of fileSystem: InMemoryFileSystem) {
            self.pages = pages
            self.fileSystem = fileSystem
        }

        deinit {
            fileSystem.tree.state.withLock { $0.unmap(pages) }
        }

        func bytes(in range: Range<Int>) -> UnsafeRawBufferPointer {
            fileSystem.tree.state.withLock { $0.load(range, of: pages) }
            return UnsafeRawBufferPointer(rebasing: pages.memory[range])
        }

        func store(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
            fileSystem.tree.state.withLock { $0.store(bytes, at: offset, in: pages) }
        }

        var hasFaulted: Bool { fileSystem.tree.state.withLock { $0.hasFaulted(pages) } }

        func writeBack() throws(FileSystemError) {
            try fileSystem.perform(.writeBack) { (state) throws(Errno) in try state.writeBack(pages) }
        }
    }
}
