import SystemPackage

extension InMemoryFileSystem {
    /// One process of the file system: its identity and open descriptors.
    struct Process: Sendable {
        var user: UserID
        var group: GroupID
        var groups: [GroupID]
        var umask: FilePermissions
        /// The index of its working directory in the table of inodes.
        var workingDirectory = 0
        var descriptors = DescriptorTable()
        /// Whether the slot in the table of processes is used.
        var isAlive = true

        var isSuperuser: Bool { user.rawValue == 0 }

        func isMember(of other: GroupID) -> Bool { other == group || groups.contains(other) }
    }

    /// The open file of each descriptor of a process.
    struct DescriptorTable: Sendable {
        /// Lower numbers belong to the standard streams, which every process has and the file system never assigns.
        static let firstNumber = 3

        private var openFiles: [Int32] = []
        private var lowestFree = 0
        private(set) var count = 0

        /// The index of the open file in the table of open files.
        subscript(_ descriptor: Descriptor) -> Int? {
            let index = Int(descriptor.rawValue) - Self.firstNumber
            guard openFiles.indices.contains(index), openFiles[index] >= 0 else { return nil }
            return Int(openFiles[index])
        }

        /// All descriptors, in ascending order.
        var all: [Descriptor] {
            openFiles.indices.filter { openFiles[$0] >= 0 }
                .map { Descriptor(rawValue: Int32($0 + Self.firstNumber)) }
        }

        /// Assigns the lowest free number.
        mutating func insert(_ openFile: Int) -> Descriptor {
            let index = lowestFree
            if index == openFiles.count {
                openFiles.append(Int32(openFile))
            } else {
                openFiles[index] = Int32(openFile)
            }
            count += 1
            repeat { lowestFree += 1 } while lowestFree < openFiles.count && openFiles[lowestFree] >= 0
            return Descriptor(rawValue: Int32(index + Self.firstNumber))
        }

        /// Frees a number and returns its open file.
        mutating func remove(_ descriptor: Descriptor) -> Int? {
            guard let openFile = self[descriptor] else { return nil }
            let index = Int(descriptor.rawValue) - Self.firstNumber
            openFiles[index] = -1
            lowestFree = min(lowestFree, index)
            count -= 1
            return openFile
        }
    }
}
