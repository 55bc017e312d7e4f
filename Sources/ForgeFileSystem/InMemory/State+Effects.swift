import SystemPackage

/// The primitive changes of the tree; each is recorded if a recording is on.
extension InMemoryFileSystem.State {
    // MARK: Content

    mutating func writeBytes(_ bytes: RawSpan, to index: Int, at offset: Int64) {
        let before = contents[index].allocatedBlocks
        if !mappings.isEmpty { showWrite(bytes, to: index, at: offset) }
        contents[index].write(bytes, at: offset)
        devices[inodes[index].device].usedBlocks += contents[index].allocatedBlocks - before
        touchContent(index)
        if recording != nil {
            record(.write(inode: inodes[index].number, offset: offset, bytes: [UInt8](copying: bytes), time: now()))
        }
    }

    mutating func setSize(_ size: Int64, of index: Int) {
        let before = contents[index].allocatedBlocks
        if !mappings.isEmpty { showResize(of: index, to: size) }
        contents[index].setSize(size)
        devices[inodes[index].device].usedBlocks += contents[index].allocatedBlocks - before
        touchContent(index)
        if recording != nil { record(.setSize(inode: inodes[index].number, size: size, time: now())) }
    }

    mutating func reserve(_ range: Range<Int64>, of index: Int) {
        let before = contents[index].allocatedBlocks
        if !mappings.isEmpty { showResize(of: index, to: max(range.upperBound, contents[index].size)) }
        contents[index].reserve(range)
        devices[inodes[index].device].usedBlocks += contents[index].allocatedBlocks - before
        touchContent(index)
        if recording != nil {
            record(.reserve(inode: inodes[index].number, end: range.upperBound, time: now()))
        }
    }

    /// Stores bytes through a mapping, within the file's size.
    mutating func storeBytes(_ bytes: RawSpan, to index: Int, at offset: Int64, isNoticed: Bool) {
        let before = contents[index].allocatedBlocks
        contents[index].write(bytes, at: offset)
        devices[inodes[index].device].usedBlocks += contents[index].allocatedBlocks - before
        if isNoticed { touchContent(index) }
        if recording != nil {
            let time = isNoticed ? now() : nil
            record(.store(inode: inodes[index].number, offset: offset, bytes: [UInt8](copying: bytes), time: time))
        }
    }

    /// Marks stores through mappings as written back, or, on failure, an unknown part of them.
    mutating func writeBack(_ range: Range<Int64>, of index: Int, succeeds: Bool) {
        if recording != nil { record(.writeBack(inode: inodes[index].number, range, succeeds: succeeds)) }
    }

    /// Makes all changes of an inode, or of the names in a directory, durable.
    mutating func synchronize(_ index: Int, _ level: SyncLevel) {
        if !mappings.isEmpty { forgetStores(into: index) }
        if recording != nil { record(.synchronize(inode: inodes[index].number, level, succeeds: true)) }
    }

    /// Makes it permanently undetermined which changes of an inode have reached the device.
    mutating func failToSynchronize(_ index: Int, _ level: SyncLevel) {
        if recording != nil { record(.synchronize(inode: inodes[index].number, level, succeeds: false)) }
    }

    // MARK: Attributes

    /// Changes attributes and updates the change time.
    mutating func setAttributes(of index: Int, _ change: (inout Inode) -> Void) {
        let time = now()
        change(&inodes[index])
        inodes[index].changed = time
        if recording != nil {
            let attributes = DiskImage.Attributes(of: inodes[index], extendedAttributes[index])
            record(.setAttributes(inode: inodes[index].number, attributes))
        }
    }

    /// Updates the access time as Linux does by default (`relatime`): only if it is not newer than the last change of the
    /// content, or not newer than that of the attributes. The update of one that is older than a day is not simulated.
    mutating func noteAccess(_ index: Int) {
        let accessed = inodes[index].accessed
        guard accessed <= inodes[index].modified || accessed <= inodes[index].changed, !isReadOnly(index) else {
            return
        }
        inodes[index].accessed = now()
    }

    private mutating func touchContent(_ index: Int) {
        let time = now()
        inodes[index].touchContent(time)
    }

    // MARK: Names

    /// Creates an inode without a name, with the defaults for a child of `directory`. The umask is not yet applied to
    /// `permissions`.
    mutating func createInode(
        _ kind: Inode.Kind, _ permissions: FilePermissions, in directory: Int, target: POSIXPath? = nil,
        deviceNumber: UInt64 = 0
    ) throws(Errno) -> Int {
        let device = inodes[directory].device
        guard devices[device].hasFreeInode else { throw .noSpace }
        let time = now()
        var permissions = permissions.intersection(FilePermissions(rawValue: 0o7777))
        var group = processes[current].group
        if inodes[directory].permissions.contains(.setGroupID) || options.profile == .darwin {
            group = inodes[directory].group
        }
        if inodes[directory].permissions.contains(.setGroupID), options.profile == .linux {
            let asksForGroup = permissions.contains([.setGroupID, .groupExecute])
            if kind == .directory {
                permissions.insert(.setGroupID)
            } else if asksForGroup, !isSuperuser, !processes[current].isMember(of: group) {
                permissions.remove(.setGroupID)
            }
        }
        // Only now, because the rule above also counts a group bit that the umask clears.
        if kind != .symbolicLink { permissions.subtract(processes[current].umask) }
        var inode = Inode()
        inode.kind = kind
        inode.permissions = permissions
        inode.owner = processes[current].user
        inode.group = group
        inode.device = device
        inode.parent = directory
        inode.deviceNumber = deviceNumber
        inode.setTimes(time)
        let index = add(inode)
        if let target { targets[index] = target }
        if recording != nil { record(.create(DiskImage.Node(of: inodes[index], target: target))) }
        return index
    }

    /// Adds a name for an inode.
    mutating func addName(_ name: Walk, to index: Int) {
        insertName(name, in: name.directory, leadingTo: index)
        touchContent(name.directory)
        inodes[index].gainName(now())
        if isDirectory(index) { inodes[name.directory].subdirectoryCount += 1 }
        if recording != nil { record(.addName(place(of: name), inode: inodes[index].number)) }
        if !watches.isEmpty { notify(.added, place(of: name)) }
    }

    /// Removes a name.
    mutating func removeName(at position: Int, from directory: Int) {
        let index = inode(at: position, in: directory)
        if recording != nil {
            record(.removeName(place(at: position, in: directory), inode: inodes[index].number))
        }
        if !watches.isEmpty { notify(.removed, place(at: position, in: directory)) }
        names[directory].remove(at: position)
        touchContent(directory)
        dropName(of: index, from: directory)
    }

    /// Moves a name, replacing an existing target.
    mutating func moveName(at position: Int, from directory: Int, to name: Walk, over target: Int?) {
        let index = inode(at: position, in: directory)
        let newDirectory = name.directory
        if !watches.isEmpty {
            notify(.removed, place(at: position, in: directory))
            notify(.added, target.map { place(at: $0, in: newDirectory) } ?? place(of: name))
        }
        if recording != nil {
            let newPlace = target.map { place(at: $0, in: newDirectory) } ?? place(of: name)
            record(.moveName(place(at: position, in: directory), to: newPlace, inode: inodes[index].number))
        }
        if let target {
            let replaced = inode(at: target, in: newDirectory)
            names[newDirectory].setInode(index, at: target)
            names[directory].remove(at: position)
            dropName(of: replaced, from: newDirectory)
        } else {
            names[directory].remove(at: position)
            insertName(name, in: newDirectory, leadingTo: index)
        }
        moveParent(of: index, from: directory, to: newDirectory)
        touchContent(directory)
        touchContent(newDirectory)
        inodes[index].changed = now()
    }

    /// Exchanges two names.
    mutating func exchangeNames(at position: Int, in directory: Int, at other: Int, in otherDirectory: Int) {
        let index = inode(at: position, in: directory)
        let otherIndex = inode(at: other, in: otherDirectory)
        if recording != nil {
            record(
                .exchangeNames(
                    place(at: position, in: directory), inode: inodes[index].number,
                    with: place(at: other, in: otherDirectory), otherInode: inodes[otherIndex].number))
        }
        if !watches.isEmpty {
            let places = [place(at: position, in: directory), place(at: other, in: otherDirectory)]
            for place in places { notify(.removed, place) }
            for place in places { notify(.added, place) }
        }
        names[directory].setInode(otherIndex, at: position)
        names[otherDirectory].setInode(index, at: other)
        moveParent(of: index, from: directory, to: otherDirectory)
        moveParent(of: otherIndex, from: otherDirectory, to: directory)
        touchContent(directory)
        touchContent(otherDirectory)
        inodes[index].changed = now()
        inodes[otherIndex].changed = now()
    }

    private mutating func moveParent(of index: Int, from directory: Int, to newDirectory: Int) {
        guard isDirectory(index) else { return }
        inodes[index].parent = newDirectory
        inodes[directory].subdirectoryCount -= 1
        inodes[newDirectory].subdirectoryCount += 1
    }

    private mutating func dropName(of index: Int, from directory: Int) {
        inodes[index].nameCount -= 1
        inodes[index].changed = now()
        if isDirectory(index) {
            if !watches.isEmpty { endWatches(of: index) }
            inodes[directory].subdirectoryCount -= 1
            // `..` of a removed directory stays valid while the directory is in use.
            hold(inodes[index].parent)
        }
        removeIfUnused(index)
    }

    @inline(__always) private func inode(at position: Int, in directory: Int) -> Int {
        Int(names[directory].entries[position].inode)
    }

    private mutating func insertName(_ name: Walk, in directory: Int, leadingTo index: Int) {
        let bytes = name.nameBytes
        let key = folding.isIdentity ? nil : folding.key(bytes)
        names[directory].insert(bytes, key: key, hash: NameTable.hash(key.map { $0[...] } ?? bytes), inode: index)
    }
}

/// One change of the tree of an ``InMemoryFileSystem``, in terms of inodes; a call makes none, one or a few.
///
/// Inodes are identified by numbers that a file system never reuses.
package enum FileSystemEffect: Sendable {
    /// A name in a directory.
    package struct Place: Hashable, Sendable {
        package var directory: UInt64
        package var name: POSIXPath
    }

    /// An inode was created; it has no name yet.
    case create(DiskImage.Node)
    case write(inode: UInt64, offset: Int64, bytes: [UInt8], time: FileTime)
    case setSize(inode: UInt64, size: Int64, time: FileTime)
    /// Space was reserved up to `end`; the file is now at least that long.
    case reserve(inode: UInt64, end: Int64, time: FileTime)
    /// Bytes were stored through a mapping. The time is set if that counted as a modification.
    case store(inode: UInt64, offset: Int64, bytes: [UInt8], time: FileTime?)
    /// Stores through mappings in a range of a file were written back, or failed to be.
    case writeBack(inode: UInt64, Range<Int64>, succeeds: Bool)
    /// The attributes have these new values.
    case setAttributes(inode: UInt64, DiskImage.Attributes)
    /// The changes of a file, or of the names in a directory, have reached the device, or failed to.
    case synchronize(inode: UInt64, SyncLevel, succeeds: Bool)
    case addName(Place, inode: UInt64)
    case removeName(Place, inode: UInt64)
    /// A name moved, replacing any entry at the new place.
    case moveName(Place, to: Place, inode: UInt64)
    case exchangeNames(Place, inode: UInt64, with: Place, otherInode: UInt64)
    /// A mark that the recorder places between changes.
    case mark(Int)
}

/// An effect, and the number of the call that had it, counted from the start of the recording.
package struct RecordedEffect: Sendable {
    package var operation: Int
    package var effect: FileSystemEffect
}

/// The state of a recording of effects.
struct EffectRecording: Sendable {
    var operation = 0
    var effects: [RecordedEffect] = []

    mutating func append(_ effect: FileSystemEffect) {
        effects.append(RecordedEffect(operation: operation, effect: effect))
    }
}

extension InMemoryFileSystem.State {
    /// Appends to the recording.
    @inline(never) mutating func record(_ effect: FileSystemEffect) {
        recording?.append(effect)
    }

    func place(of name: Walk) -> FileSystemEffect.Place {
        FileSystemEffect.Place(directory: inodes[name.directory].number, name: POSIXPath(name.nameBytes))
    }

    func place(at position: Int, in directory: Int) -> FileSystemEffect.Place {
        FileSystemEffect.Place(
            directory: inodes[directory].number, name: names[directory].path(at: position))
    }
}
