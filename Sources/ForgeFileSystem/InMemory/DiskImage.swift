package import SystemPackage

/// The tree of a file system as a value: the content of a device while nothing is open.
///
/// It is cheap to copy and to change: copies share unchanged contents and directories.
package struct DiskImage: Sendable {
    /// The attributes of a file in `stat(2)`, except its size, and its extended attributes.
    package struct Attributes: Hashable, Sendable {
        package var permissions: FilePermissions
        package var owner: UserID
        package var group: GroupID
        package var accessed: FileTime
        package var modified: FileTime
        package var changed: FileTime
        package var extended = ExtendedAttributes()
    }

    /// One name in a directory and its inode number.
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
        /// For a directory.
        package var entries: [Entry] = []
        /// For a symbolic link.
        package var target: POSIXPath?
        /// For a device node.
        package var deviceNumber: UInt64 = 0

        package var isDirectory: Bool { type == .directory }
    }

    /// The options of the file system.
    package let options: InMemoryFileSystem.Options
    let folding: NameFolding
    private(set) var inodes: [InMemoryFileSystem.Inode]
    private(set) var contents: [FileContent]
    private(set) var names: [NameTable]
    private(set) var targets: [Int: POSIXPath] = [:]
    private(set) var extendedAttributes: [Int: ExtendedAttributes] = [:]
    var lastNumber: UInt64
    var tick: Int64
    /// The state of the generator for names of temporary files.
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
        inodes = nodes.map(InMemoryFileSystem.Inode.init)
        contents = nodes.map(\.content)
        names = nodes.map { _ in NameTable() }
        for (place, node) in nodes.enumerated() {
            if let target = node.target { targets[place] = target }
            setExtendedAttributes(node.attributes.extended, at: place)
        }
        linkNames(nodes)
    }

    /// The tree of these nodes on a file system like that of `other`.
    ///
    /// The first node is the root. A name without a node is omitted; no directory may have two names. New inodes are
    /// numbered above `number`.
    package init(_ nodes: [Node], like other: DiskImage, numberedAbove number: UInt64 = 0) {
        self.init(
            nodes, options: other.options, lastNumber: max(other.lastNumber, number), tick: other.tick,
            randomState: other.randomState)
    }

    /// The nodes, the root first.
    package var nodes: [Node] {
        inodes.indices.map { place in
            var node = Node(of: inodes[place], extendedAttributes[place], target: targets[place])
            node.content = contents[place]
            node.entries = names[place].entries.indices.compactMap { position in
                let entry = names[place].entries[position]
                guard !entry.isRemoved else { return nil }
                return Entry(name: names[place].path(at: position), inode: inodes[Int(entry.inode)].number)
            }
            return node
        }
    }

    /// Replaces the content of the node at an index of ``nodes``.
    package mutating func setContent(_ content: FileContent, at index: Int) {
        contents[index] = content
    }

    /// Replaces the attributes of the node at an index of ``nodes``.
    package mutating func setAttributes(_ attributes: Attributes, at index: Int) {
        inodes[index].permissions = attributes.permissions
        inodes[index].owner = attributes.owner
        inodes[index].group = attributes.group
        inodes[index].accessed = attributes.accessed
        inodes[index].modified = attributes.modified
        inodes[index].changed = attributes.changed
        setExtendedAttributes(attributes.extended, at: index)
    }

    private mutating func setExtendedAttributes(_ attributes: ExtendedAttributes, at index: Int) {
        extendedAttributes[index] = attributes.isEmpty ? nil : attributes
    }

    /// Makes random bits and times of a file system made from this image differ from those of other images.
    package mutating func advance(by steps: Int) {
        tick += Int64(steps)
        randomState = (randomState ^ UInt64(truncatingIfNeeded: steps)) &* 0x9E37_79B9_7F4A_7C15
    }

    private mutating func linkNames(_ nodes: [Node]) {
        guard !nodes.isEmpty else { return }
        var places: [UInt64: Int] = [:]
        for (place, node) in nodes.enumerated() { places[node.number] = place }
        inodes[0].nameCount = 1
        for (parent, node) in nodes.enumerated() {
            for entry in node.entries {
                guard let child = places[entry.inode] else { continue }
                let bytes = entry.name.bytes
                let key = folding.isIdentity ? nil : folding.key(bytes)
                names[parent].insert(bytes, key: key, hash: NameTable.hash(key.map { $0[...] } ?? bytes), inode: child)
                inodes[child].nameCount += 1
                guard inodes[child].kind == .directory else { continue }
                inodes[child].parent = parent
                inodes[parent].subdirectoryCount += 1
            }
        }
    }
}

extension InMemoryFileSystem.Inode {
    /// An inode without names.
    fileprivate init(_ node: DiskImage.Node) {
        self.init()
        kind = Kind(node.type) ?? .regular
        number = node.number
        permissions = node.attributes.permissions
        owner = node.attributes.owner
        group = node.attributes.group
        accessed = node.attributes.accessed
        modified = node.attributes.modified
        changed = node.attributes.changed
        deviceNumber = node.deviceNumber
    }
}

extension DiskImage.Attributes {
    init(of inode: InMemoryFileSystem.Inode, _ extended: ExtendedAttributes?) {
        self.init(
            permissions: inode.permissions, owner: inode.owner, group: inode.group, accessed: inode.accessed,
            modified: inode.modified, changed: inode.changed, extended: extended ?? ExtendedAttributes())
    }
}

extension DiskImage.Node {
    /// An inode without its content and its names.
    init(of inode: InMemoryFileSystem.Inode, _ extended: ExtendedAttributes? = nil, target: POSIXPath?) {
        self.init(
            number: inode.number, type: inode.kind.fileType, attributes: DiskImage.Attributes(of: inode, extended),
            target: target, deviceNumber: inode.deviceNumber)
    }
}

extension InMemoryFileSystem.State {
    /// All named nodes, the root first.
    var nodes: [DiskImage.Node] {
        var nodes: [DiskImage.Node] = []
        var pending = [Self.root]
        var seen: Set<Int> = [Self.root]
        while let index = pending.popLast() {
            var node = DiskImage.Node(of: inodes[index], extendedAttributes[index], target: targets[index])
            node.content = contents[index]
            let table = node.isDirectory ? names[index] : NameTable()
            for position in table.entries.indices where !table.entries[position].isRemoved {
                let child = Int(table.entries[position].inode)
                node.entries.append(DiskImage.Entry(name: table.path(at: position), inode: inodes[child].number))
                if seen.insert(child).inserted { pending.append(child) }
            }
            nodes.append(node)
        }
        return nodes
    }
}
