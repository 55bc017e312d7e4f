import ForgeFileSystem

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
    /// A description for reports.
    var text: String
    /// Whether a synchronisation that would have covered the change failed: it stays undecided.
    var isUndecidedForEver = false

    var isDurable: Bool { unsynchronised.isEmpty }

    init(_ edits: [Edit], number: Int, text: String) {
        self.edits = edits
        self.number = number
        self.text = text
        unsynchronised = Set(edits.map(\.directory))
    }
}

/// The names of one directory, in order of creation.
struct NameList: Sendable {
    private(set) var entries: [DiskImage.Entry] = []

    init(_ entries: [DiskImage.Entry] = []) {
        self.entries = entries
    }

    subscript(name: POSIXPath) -> UInt64? {
        entries.first { $0.name == name }?.inode
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
