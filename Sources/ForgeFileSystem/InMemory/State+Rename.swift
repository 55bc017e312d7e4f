import SystemPackage

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
        return name.withName { $0.elementsEqual(shown) }
    }

    /// Renames a file to another spelling of its own name on a file system that folds names.
    private mutating func respell(at position: Int, _ name: Walk) throws(Errno) {
        let source = Int(names[name.directory].entries[position].inode)
        try mayRemove(source, from: name.directory, asDirectory: isDirectory(source))
        moveName(at: position, from: name.directory, to: name, over: nil)
    }

    /// Whether a directory equals another one or is one of its ancestors.
    private func isAncestor(_ index: Int, of directory: Int) -> Bool {
        guard isDirectory(index) else { return false }
        var current = directory
        while current != index {
            guard current != Self.root else { return false }
            current = inodes[current].parent
        }
        return true
    }
}
