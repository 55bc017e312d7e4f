extension InMemoryFileSystem {
    /// An open file description, which duplicated descriptors share.
    struct OpenFile: Sendable {
        /// The index of the inode in the table of inodes.
        var inode: Int
        var offset: Int64 = 0
        var isReadable: Bool
        var isWritable: Bool
        var appends: Bool
        var lock = LockMode.unlocked
        /// The number of descriptors that refer to it; 0 for a free slot in the table.
        var descriptorCount = 1
    }

    /// The open files of all processes; slots of closed ones are reused.
    struct OpenFileTable: Sendable {
        private var files: [OpenFile] = []
        private var free: [Int32] = []

        subscript(_ index: Int) -> OpenFile {
            get { files[index] }
            _modify { yield &files[index] }
        }

        mutating func insert(_ file: OpenFile) -> Int {
            guard let index = free.popLast() else {
                files.append(file)
                return files.count - 1
            }
            files[Int(index)] = file
            return Int(index)
        }

        /// Whether any open file matches.
        func contains(where matches: (OpenFile) -> Bool) -> Bool {
            files.contains { $0.descriptorCount > 0 && matches($0) }
        }

        mutating func remove(_ index: Int) {
            free.append(Int32(index))
        }
    }
}
