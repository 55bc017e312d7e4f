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
        name.withName { bytes in
            FileSystemEffect.Place(directory: inodes[name.directory].number, name: POSIXPath(bytes))
        }
    }

    func place(at position: Int, in directory: Int) -> FileSystemEffect.Place {
        FileSystemEffect.Place(
            directory: inodes[directory].number, name: names[directory].path(at: position))
    }
}
