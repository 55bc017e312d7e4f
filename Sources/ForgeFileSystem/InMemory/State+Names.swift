import SystemPackage

extension InMemoryFileSystem.State {
    mutating func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, _ permissions: FilePermissions
    ) throws(Errno) {
        let walk = try walkToNewName(path, at: directory, isDirectory: true)
        let kept = permissions.intersection(FilePermissions(rawValue: 0o1777))
        let index = try createInode(.directory, kept, in: walk.directory)
        addName(walk, to: index)
    }

    mutating func createNode(
        _ path: POSIXPath, at directory: Descriptor, _ type: FileType, _ permissions: FilePermissions,
        _ deviceNumber: UInt64
    ) throws(Errno) {
        guard let kind = Inode.Kind(type), kind != .symbolicLink else { throw .invalidArgument }
        guard kind != .directory else { throw .notPermitted }
        let walk = try walkToNewName(path, at: directory, isDirectory: false)
        let isDevice = kind == .characterSpecial || kind == .blockSpecial
        // A whiteout, which hides a name in an overlay, is not a device and needs no privilege.
        let isWhiteout = kind == .characterSpecial && deviceNumber == 0 && options.profile == .linux
        guard !isDevice || isWhiteout || isSuperuser else { throw .notPermitted }
        let index = try createInode(
            kind, permissions, in: walk.directory, deviceNumber: isDevice ? deviceNumber : 0)
        addName(walk, to: index)
    }

    mutating func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(Errno) {
        try check(target)
        let walk = try walkToNewName(path, at: directory, isDirectory: false)
        let permissions = FilePermissions(rawValue: options.profile == .darwin ? 0o755 : 0o777)
        let index = try createInode(.symbolicLink, permissions, in: walk.directory, target: target)
        addName(walk, to: index)
    }

    mutating func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(Errno) -> POSIXPath {
        if path.isEmpty, directory != .workingDirectory, options.profile == .linux { _ = try openFile(directory) }
        return try readSymbolicLink(resolve(path, at: directory, followsLinks: false))
    }

    mutating func readSymbolicLink(_ index: Int) throws(Errno) -> POSIXPath {
        guard let target = targets[index] else { throw .invalidArgument }
        noteAccess(index)
        return target
    }

    mutating func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(Errno) {
        try link(resolve(path, at: directory, followsLinks: false), to: newPath, at: newDirectory)
    }

    mutating func link(_ index: Int, to newPath: POSIXPath, at newDirectory: Descriptor) throws(Errno) {
        let walk = try walkToNewName(newPath, at: newDirectory, isDirectory: false) { (state, walk) throws(Errno) in
            guard state.inodes[walk.directory].device == state.inodes[index].device else { throw .improperLink }
            try state.mayLink(index)
        }
        guard !isDirectory(index) else { throw .notPermitted }
        guard inodes[index].nameCount > 0 else { throw .noSuchFileOrDirectory }
        guard inodes[index].nameCount < options.maximumLinkCount else { throw .tooManyLinks }
        addName(walk, to: index)
    }

    /// Resolves a path whose last name must not exist, in a directory where it may be created (`filename_create` of
    /// Linux); `checkMore` runs before the permission check.
    private mutating func walkToNewName(
        _ path: POSIXPath, at directory: Descriptor, isDirectory: Bool,
        _ checkMore: (borrowing Self, Walk) throws(Errno) -> Void = { (_, _) throws(Errno) in }
    ) throws(Errno) -> Walk {
        try check(path)
        var walk = try start(path, at: directory)
        try walkToLast(&walk)
        guard walk.last == .name else {
            throw walk.last == .root && options.profile == .darwin ? .isDirectory : .fileExists
        }
        guard try find(walk) == nil else { throw .fileExists }
        guard isDirectory || !walk.hasTrailingSlash else { throw .noSuchFileOrDirectory }
        try requireWritableDevice(walk.directory)
        try checkMore(self, walk)
        try requirePermissionToCreate(in: walk.directory)
        return walk
    }

    mutating func unlink(_ path: POSIXPath, at directory: Descriptor) throws(Errno) {
        try check(path)
        var walk = try start(path, at: directory)
        try walkToLast(&walk)
        guard walk.last == .name else { throw options.profile == .darwin ? .notPermitted : .isDirectory }
        try requireWritableDevice(walk.directory)
        guard let position = try findPosition(walk) else { throw .noSuchFileOrDirectory }
        let index = Int(names[walk.directory].entries[position].inode)
        if walk.hasTrailingSlash, !isDirectory(index) { throw .notDirectory }
        if walk.hasTrailingSlash { throw options.profile == .darwin ? .notPermitted : .isDirectory }
        try mayRemove(index, from: walk.directory, asDirectory: false)
        removeName(at: position, from: walk.directory)
    }

    mutating func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(Errno) {
        try check(path)
        var walk = try start(path, at: directory)
        try walkToLast(&walk)
        switch walk.last {
        case .root: throw options.profile == .darwin ? .isDirectory : .resourceBusy
        case .dot: throw .invalidArgument
        case .dotDot: throw .directoryNotEmpty
        case .name: break
        }
        try requireWritableDevice(walk.directory)
        guard let position = try findPosition(walk) else { throw .noSuchFileOrDirectory }
        let index = Int(names[walk.directory].entries[position].inode)
        try mayRemove(index, from: walk.directory, asDirectory: true)
        guard !inodes[index].isMountPoint else { throw .resourceBusy }
        guard names[index].count == 0 else { throw .directoryNotEmpty }
        removeName(at: position, from: walk.directory)
    }

    mutating func entries(of descriptor: Descriptor) throws(Errno) -> [DirectoryEntry] {
        let index = openFiles[try openFile(descriptor)].inode
        guard isDirectory(index) else { throw .notDirectory }
        guard !isRemovedDirectory(index) else { throw .noSuchFileOrDirectory }
        noteAccess(index)
        let names = names[index]
        guard case .shuffled(let seed) = options.listingOrder else {
            return entries(of: names, names.entries.indices)
        }
        return entries(of: names, shuffled(names, seed))
    }

    private func entries(of names: NameTable, _ order: some Sequence<Int>) -> [DirectoryEntry] {
        var entries: [DirectoryEntry] = []
        entries.reserveCapacity(names.count)
        for position in order {
            let child = Int(names.entries[position].inode)
            guard child >= 0 else { continue }
            entries.append(
                DirectoryEntry(
                    name: names.path(at: position), type: inodes[child].kind.fileType, inode: inodeNumber(child)))
        }
        return entries
    }

    /// All indices of a table of names, including those of removed names, in a pseudo-random order.
    private func shuffled(_ names: NameTable, _ seed: UInt64) -> [Int] {
        let keys = names.entries.map { entry in
            var bits = seed ^ UInt64(entry.hash) &* 0x9E37_79B9_7F4A_7C15
            bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
            return bits ^ bits >> 27
        }
        return names.entries.indices.sorted { (keys[$0], $0) < (keys[$1], $1) }
    }
}

extension InMemoryFileSystem.State {
    /// The checks in the order of Linux (`do_renameat2`, `vfs_rename`).
    mutating func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(Errno) {
        try check(path)
        var old = try start(path, at: directory)
        try walkToLast(&old)
        try check(newPath)
        var new = try start(newPath, at: newDirectory)
        try walkToLast(&new)
        guard inodes[old.directory].device == inodes[new.directory].device else { throw .improperLink }
        let dotErrno: Errno = options.profile == .darwin ? .invalidArgument : .resourceBusy
        guard old.last == .name else { throw dotErrno }
        guard new.last == .name else { throw mode == .exclusive ? .fileExists : dotErrno }
        try requireWritableDevice(old.directory)
        guard let oldPosition = try findPosition(old) else { throw .noSuchFileOrDirectory }
        let newPosition = try findPosition(new)
        let source = Int(names[old.directory].entries[oldPosition].inode)
        let target = newPosition.map { Int(names[new.directory].entries[$0].inode) }
        let isRespelling =
            old.directory == new.directory && oldPosition == newPosition && !isShown(new, at: oldPosition)
        if mode == .exclusive, target != nil, !isRespelling { throw .fileExists }
        if mode == .exchanging {
            guard let target else { throw .noSuchFileOrDirectory }
            if !isDirectory(target), new.hasTrailingSlash { throw .notDirectory }
        }
        if !isDirectory(source), old.hasTrailingSlash || mode != .exchanging && new.hasTrailingSlash {
            throw .notDirectory
        }
        if isAncestor(source, of: new.directory) { throw .invalidArgument }
        if let target, isAncestor(target, of: old.directory) {
            throw mode == .exchanging ? .invalidArgument : .directoryNotEmpty
        }
        if source == target {
            guard isRespelling else { return }
            try respell(at: oldPosition, new)
            return
        }
        try mayRename(source, from: old.directory, over: target, in: new.directory, mode)
        if mode == .exchanging, let newPosition {
            exchangeNames(at: oldPosition, in: old.directory, at: newPosition, in: new.directory)
        } else {
            moveName(at: oldPosition, from: old.directory, to: new, over: newPosition)
        }
    }

    private func mayRename(
        _ source: Int, from directory: Int, over target: Int?, in newDirectory: Int, _ mode: RenameMode
    ) throws(Errno) {
        let movesDirectory = isDirectory(source)
        try mayRemove(source, from: directory, asDirectory: movesDirectory)
        if let target {
            let targetIsDirectory = isDirectory(target)
            if mode != .exchanging, !movesDirectory, targetIsDirectory {
                try mayRemove(target, from: newDirectory, asDirectory: true)
                throw .isDirectory
            }
            try mayRemove(
                target, from: newDirectory, asDirectory: mode == .exchanging ? targetIsDirectory : movesDirectory)
        } else {
            try requirePermissionToCreate(in: newDirectory)
        }
        if directory != newDirectory {
            // The moved directory's `..` is rewritten.
            if movesDirectory { try require(.write, to: source) }
            if mode == .exchanging, let target, isDirectory(target) { try require(.write, to: target) }
        }
        for index in [source, target] {
            guard let index else { continue }
            guard !inodes[index].isMountPoint else { throw .resourceBusy }
        }
        if mode != .exchanging, let target, isDirectory(target), names[target].count > 0 {
            throw .directoryNotEmpty
        }
    }

    /// Whether the stored name equals the path's spelling.
    private func isShown(_ name: Walk, at position: Int) -> Bool {
        let shown = names[name.directory].name(at: position)
        return name.nameBytes == shown
    }

    /// Renames a file to another spelling of its own name on a file system that folds names.
    private mutating func respell(at position: Int, _ name: Walk) throws(Errno) {
        let source = Int(names[name.directory].entries[position].inode)
        try mayRemove(source, from: name.directory, asDirectory: isDirectory(source))
        moveName(at: position, from: name.directory, to: name, over: nil)
    }

    /// Whether an inode is a directory or one of its ancestors.
    private func isAncestor(_ index: Int, of directory: Int) -> Bool {
        var current = directory
        while current != index {
            guard current != Self.root else { return false }
            current = inodes[current].parent
        }
        return true
    }
}
