import ForgeFileSystem
import SystemPackage

/// The durable part of a tree and the later changes, of which a crash keeps some.
///
/// Recorded effects are applied to it one after another.
struct CrashModel: Sendable {
    let profile: CrashProfile
    /// The image at the start of the recording, for everything outside the tree.
    let base: DiskImage
    let root: UInt64
    private(set) var files: [UInt64: FileHistory] = [:]
    /// Nodes of directories, without their entries.
    private(set) var directories: [UInt64: DiskImage.Node] = [:]
    /// The durable names.
    private(set) var names: [UInt64: NameList] = [:]
    /// Changes of names in order over all directories; a durable one is kept only after one that is not durable.
    private(set) var changes: [NameChange] = []
    private(set) var effectCount = 0
    private(set) var markCount = 0
    private(set) var operation = 0
    /// The file of a store in progress.
    private var storing: UInt64?

    /// The model of a durable image; `markCount` is the number of marks made before.
    init(_ image: DiskImage, _ profile: CrashProfile, markCount: Int = 0) {
        self.profile = profile
        self.markCount = markCount
        base = image
        let nodes = image.nodes
        root = nodes.first?.number ?? 0
        for var node in nodes {
            guard node.isDirectory else {
                files[node.number] = FileHistory(node)
                continue
            }
            names[node.number] = NameList(node.entries)
            node.entries = []
            directories[node.number] = node
        }
    }

    /// The changes of names that a crash may keep or lose.
    var undecided: [NameChange] { changes.filter { !$0.isDurable } }

    mutating func apply(_ recorded: RecordedEffect) {
        effectCount += 1
        operation = recorded.operation
        endStore()
        switch recorded.effect {
        case .create(let node): create(node)
        case .write(let inode, let offset, let bytes, let time): files[inode]?.write(bytes, at: offset, time)
        case .setSize(let inode, let size, let time): files[inode]?.setSize(size, time)
        case .reserve(let inode, let end, let time): files[inode]?.reserve(to: end, time)
        case .store(let inode, let offset, let bytes, let time):
            files[inode]?.store(bytes, at: offset, time)
            storing = inode
        case .writeBack(let inode, let range, let succeeds): files[inode]?.writeBack(range, succeeds: succeeds)
        case .setAttributes(let inode, let attributes): setAttributes(attributes, of: inode)
        case .synchronize(let inode, let level, let succeeds): synchronize(inode, level, succeeds)
        case .mark: markCount += 1
        case .addName(let place, let inode): add(place, inode)
        case .removeName(let place, _): append([.remove(place)])
        case .moveName(let place, let newPlace, let inode): move(place, newPlace, inode)
        case .exchangeNames(let place, let inode, let other, let otherInode):
            append([.set(place, inode: otherInode), .set(other, inode: inode)])
        }
    }

    private mutating func endStore() {
        if let storing { files[storing]?.endStore() }
        storing = nil
    }

    private mutating func create(_ node: DiskImage.Node) {
        if node.isDirectory {
            directories[node.number] = node
            names[node.number] = NameList()
        } else {
            files[node.number] = FileHistory(node)
        }
    }

    private mutating func setAttributes(_ attributes: DiskImage.Attributes, of inode: UInt64) {
        // Attributes of directories are durable at once: they do not affect stored data.
        directories[inode]?.attributes = attributes
        files[inode]?.setAttributes(attributes)
    }
}

// MARK: Kills

extension CrashModel {
    /// Ends the process. The system keeps all changes, and their durability does not change.
    ///
    /// The end of a process removes its mappings, which writes back their pages: a later synchronisation by any process
    /// covers them like a write.
    mutating func killProcess() {
        endStore()
        for inode in files.keys { files[inode]?.removeMappings() }
    }

    /// The tree as every process sees it, durable or not. Inodes keep their numbers, and new ones get numbers unknown
    /// to the model.
    var live: DiskImage {
        var lists = names
        for change in changes { lists.apply(change) }
        var nodes: [DiskImage.Node] = []
        var pending = [root]
        var seen: Set<UInt64> = [root]
        while let number = pending.popLast() {
            if var node = directories[number] {
                node.entries = lists[number]?.entries ?? []
                pending += node.entries.map(\.inode).filter { seen.insert($0).inserted }
                nodes.append(node)
            } else if let file = files[number] {
                var node = file.node
                node.content = file.live
                nodes.append(node)
            }
        }
        let highest = max(files.keys.max() ?? 0, directories.keys.max() ?? 0)
        var image = DiskImage(nodes, like: base, numberedAbove: highest)
        image.advance(by: effectCount)
        return image
    }
}

// MARK: Names

extension CrashModel {
    private mutating func append(_ edits: [NameChange.Edit]) {
        changes.append(NameChange(edits, number: effectCount))
    }

    private mutating func add(_ place: FileSystemEffect.Place, _ inode: UInt64) {
        let isFirst = !changes.contains { $0.creates == inode } && !isNamed(inode)
        append([.set(place, inode: inode)])
        if isFirst { changes[changes.count - 1].creates = inode }
    }

    private func isNamed(_ inode: UInt64) -> Bool {
        // Only an initial file, or one whose creation is durable, can be among these names.
        names.values.contains { list in list.entries.contains { $0.inode == inode } }
    }

    private mutating func move(_ place: FileSystemEffect.Place, _ newPlace: FileSystemEffect.Place, _ inode: UInt64) {
        // A directory never has two names, and within one directory a rename is one change.
        guard profile.splitsRenames, place.directory != newPlace.directory, directories[inode] == nil else {
            return append([.remove(place), .set(newPlace, inode: inode)])
        }
        append([.set(newPlace, inode: inode)])
        append([.remove(place)])
        changes[changes.count - 1].requires = effectCount
        changes[changes.count - 1].number = -effectCount
    }

    private mutating func synchronize(_ inode: UInt64, _ level: SyncLevel, _ succeeds: Bool) {
        files[inode]?.synchronize(level, succeeds: succeeds, coversStores: profile.synchronizesStores)
        for place in changes.indices where changes[place].unsynchronised.contains(inode) {
            guard succeeds else {
                changes[place].isUndecidedForEver = true
                continue
            }
            guard !changes[place].isUndecidedForEver else { continue }
            // Where a rename cannot be split, one durable half makes the other durable.
            if profile.splitsRenames {
                changes[place].unsynchronised.remove(inode)
            } else {
                changes[place].unsynchronised = []
            }
        }
        guard succeeds else { return }
        if profile.keepsFreshNames { keepFreshName(of: inode) }
        keepWhatIsRequired()
        if profile.names == .orderedPrefix, let last = changes.lastIndex(where: \.isDurable) {
            for place in changes[...last].indices { changes[place].unsynchronised = [] }
        }
        settleNames()
    }

    /// Makes the name that created an inode durable, and the names of its parent directories.
    private mutating func keepFreshName(of inode: UInt64) {
        guard let place = changes.firstIndex(where: { $0.creates == inode && !$0.isUndecidedForEver }) else { return }
        changes[place].unsynchronised = []
        for edit in changes[place].edits where edit.directory != inode { keepFreshName(of: edit.directory) }
    }

    /// Makes the new name of a file durable if the removal of the old one is durable.
    private mutating func keepWhatIsRequired() {
        for change in changes where change.isDurable {
            guard let required = change.requires, let place = changes.firstIndex(where: { $0.number == required })
            else { continue }
            changes[place].unsynchronised = []
        }
    }

    /// Applies durable changes that are not preceded by undecided ones in the same directories.
    private mutating func settleNames() {
        var held: Set<UInt64> = []
        var kept: [NameChange] = []
        for change in changes {
            let touched = Set(change.edits.map(\.directory))
            if change.isDurable, held.isDisjoint(with: touched) {
                names.apply(change)
            } else {
                held.formUnion(touched)
                kept.append(change)
            }
        }
        changes = kept
    }
}

/// An atomic change of names in one or two directories: after a crash it is done completely or not at all.
struct NameChange: Sendable {
    enum Edit: Sendable {
        case set(FileSystemEffect.Place, inode: UInt64)
        case remove(FileSystemEffect.Place)

        var directory: UInt64 {
            switch self {
            case .set(let place, _), .remove(let place): place.directory
            }
        }
    }

    /// The edits, in order.
    var edits: [Edit]
    /// The directories that must still be synchronised.
    var unsynchronised: Set<UInt64>
    /// The number of a change that this one requires: a rename's new name, for the removal of its old name.
    var requires: Int?
    /// The number of the change, counted from the start of the recording.
    var number: Int
    /// The inode that was created with this name.
    var creates: UInt64?
    /// Whether a synchronisation that would have covered the change failed: it stays undecided.
    var isUndecidedForEver = false

    var isDurable: Bool { unsynchronised.isEmpty }

    init(_ edits: [Edit], number: Int) {
        self.edits = edits
        self.number = number
        unsynchronised = Set(edits.map(\.directory))
    }
}

/// The names of one directory, in order of creation.
struct NameList: Sendable {
    private(set) var entries: [DiskImage.Entry] = []

    init(_ entries: [DiskImage.Entry] = []) {
        self.entries = entries
    }

    mutating func set(_ name: POSIXPath, to inode: UInt64) {
        if let place = entries.firstIndex(where: { $0.name == name }) {
            entries[place].inode = inode
        } else {
            entries.append(DiskImage.Entry(name: name, inode: inode))
        }
    }

    mutating func remove(_ name: POSIXPath) {
        if let place = entries.firstIndex(where: { $0.name == name }) { entries.remove(at: place) }
    }
}

extension [UInt64: NameList] {
    /// Applies a change.
    mutating func apply(_ change: NameChange) {
        for edit in change.edits {
            switch edit {
            case .set(let place, let inode): self[place.directory, default: NameList()].set(place.name, to: inode)
            case .remove(let place): self[place.directory, default: NameList()].remove(place.name)
            }
        }
    }
}
