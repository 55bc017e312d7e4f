package import SystemPackage

/// The tree of a file system as a value: what a device holds while nothing is open.
///
/// It is cheap to copy and to change: contents and directories that stay the same are shared by all copies.
package struct DiskImage: Sendable {
    /// What `stat(2)` tells of a file beyond its size.
    package struct Attributes: Hashable, Sendable {
        package var permissions: FilePermissions
        package var owner: UserID
        package var group: GroupID
        package var accessed: FileTime
        package var modified: FileTime
        package var changed: FileTime
    }

    /// One name in a directory and the number of the inode that it leads to.
    package struct Entry: Hashable, Sendable {
        package var name: POSIXPath
        package var inode: UInt64

        package init(name: POSIXPath, inode: UInt64) {
            self.name = name
            self.inode = inode
        }
    }

    /// A file, directory, symbolic link or special file.
    package struct Node: Sendable {
        package var number: UInt64
        package var type: FileType
        package var attributes: Attributes
        package var content = FileContent()
        /// Of a directory.
        package var entries: [Entry] = []
        /// Of a symbolic link.
        package var target: POSIXPath?
        /// Of a device node.
        package var deviceNumber: UInt64 = 0

        package var isDirectory: Bool { type == .directory }
    }

    /// What kind of file system it is the tree of.
    package let options: InMemoryFileSystem.Options
    let folding: NameFolding
    private(set) var inodes: [InMemoryFileSystem.Inode]
    var lastNumber: UInt64
    var tick: Int64
    /// Where the random bits go on that name temporary files.
    package var randomState: UInt64

    init(
        _ nodes: [Node], options: InMemoryFileSystem.Options, lastNumber: UInt64, tick: Int64, randomState: UInt64
    ) {
        self.options = options
        folding = NameFolding(
            ignoresCase: options.isCaseInsensitive, ignoresNormalisation: options.isNormalisationInsensitive)
        self.lastNumber = max(lastNumber, nodes.reduce(0) { max($0, $1.number) })
        self.tick = tick
        self.randomState = randomState
        inodes = Self.inodes(nodes, folding)
    }

    /// The tree of these nodes on a file system like that of `other`.
    ///
    /// The first node is the root. A name that leads to no node is left out; no directory may have two names.
    package init(_ nodes: [Node], like other: DiskImage) {
        self.init(
            nodes, options: other.options, lastNumber: other.lastNumber, tick: other.tick,
            randomState: other.randomState)
    }

    /// The nodes, the root first.
    package var nodes: [Node] {
        inodes.map { inode in
            var node = Node(of: inode)
            node.content = inode.content
            node.entries = inode.names.entries.indices.compactMap { position in
                let entry = inode.names.entries[position]
                guard !entry.isRemoved else { return nil }
                return Entry(
                    name: POSIXPath(inode.names.name(at: position)), inode: inodes[Int(entry.inode)].number)
            }
            return node
        }
    }

    /// Gives one of the nodes, named by its place among them, another content.
    package mutating func setContent(_ content: FileContent, at index: Int) {
        inodes[index].content = content
    }

    /// Gives one of the nodes, named by its place among them, other attributes.
    package mutating func setAttributes(_ attributes: Attributes, at index: Int) {
        inodes[index].permissions = attributes.permissions
        inodes[index].owner = attributes.owner
        inodes[index].group = attributes.group
        inodes[index].accessed = attributes.accessed
        inodes[index].modified = attributes.modified
        inodes[index].changed = attributes.changed
    }

    /// Makes random bits and times of a file system made from this image differ from those of other images.
    package mutating func advance(by steps: Int) {
        tick += Int64(steps)
        randomState = (randomState ^ UInt64(truncatingIfNeeded: steps)) &* 0x9E37_79B9_7F4A_7C15
    }

    /// The table of inodes; the first node is the root.
    private static func inodes(_ nodes: [Node], _ folding: NameFolding) -> [InMemoryFileSystem.Inode] {
        var places: [UInt64: Int] = [:]
        for (place, node) in nodes.enumerated() { places[node.number] = place }
        var inodes = nodes.map { node in
            let attributes = node.attributes
            var inode = InMemoryFileSystem.Inode(
                number: node.number, type: node.type, permissions: attributes.permissions, owner: attributes.owner,
                group: attributes.group, device: 0, accessed: attributes.accessed, modified: attributes.modified,
                changed: attributes.changed)
            inode.content = node.content
            inode.target = node.target
            inode.deviceNumber = node.deviceNumber
            return inode
        }
        guard !inodes.isEmpty else { return [] }
        inodes[0].nameCount = 1
        for (parent, node) in nodes.enumerated() {
            for entry in node.entries {
                guard let child = places[entry.inode] else { continue }
                entry.name.withUnsafeBytes { bytes in
                    let key = folding.isIdentity ? nil : folding.key(bytes)
                    let hash = key?.withUnsafeBytes { NameTable.hash($0) } ?? NameTable.hash(bytes)
                    inodes[parent].names.insert(bytes, key: key, hash: hash, inode: child)
                }
                inodes[child].nameCount += 1
                guard inodes[child].isDirectory else { continue }
                inodes[child].parent = parent
                inodes[parent].subdirectoryCount += 1
            }
        }
        return inodes
    }
}

extension DiskImage.Attributes {
    init(of inode: InMemoryFileSystem.Inode) {
        self.init(
            permissions: inode.permissions, owner: inode.owner, group: inode.group, accessed: inode.accessed,
            modified: inode.modified, changed: inode.changed)
    }
}

extension DiskImage.Node {
    /// An inode without its content and its names.
    init(of inode: InMemoryFileSystem.Inode) {
        self.init(
            number: inode.number, type: inode.type, attributes: DiskImage.Attributes(of: inode),
            target: inode.target, deviceNumber: inode.deviceNumber)
    }
}

extension InMemoryFileSystem.State {
    /// All that names lead to, the root first.
    var nodes: [DiskImage.Node] {
        var nodes: [DiskImage.Node] = []
        var pending = [Self.root]
        var seen: Set<Int> = [Self.root]
        while let index = pending.popLast() {
            let inode = inodes[index]
            var node = DiskImage.Node(of: inode)
            node.content = inode.content
            for position in inode.names.entries.indices where !inode.names.entries[position].isRemoved {
                let child = Int(inode.names.entries[position].inode)
                node.entries.append(
                    DiskImage.Entry(name: POSIXPath(inode.names.name(at: position)), inode: inodes[child].number))
                if seen.insert(child).inserted { pending.append(child) }
            }
            nodes.append(node)
        }
        return nodes
    }
}
