public import SystemPackage

/// An open file or directory of one ``POSIXFileSystem``.
///
/// It is valid only for the file system that returned it: a descriptor of an ``InMemoryFileSystem`` is not a descriptor
/// of the process. Close it with ``POSIXFileSystem/close(_:)``.
public struct Descriptor: RawRepresentable, Hashable, Sendable {
    /// The number of the descriptor, the lowest one free when it was opened.
    public let rawValue: Int32

    /// Wraps the number of an open file.
    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// The working directory, from which relative paths start (`AT_FDCWD`).
    public static let workingDirectory = Descriptor(rawValue: -100)
}

extension Descriptor: CustomStringConvertible {
    public var description: String { self == .workingDirectory ? "cwd" : "fd\(rawValue)" }
}

/// One name in a directory.
public struct DirectoryEntry: Hashable, Sendable {
    /// The bytes of the name: one component, never `.` or `..`.
    public var name: POSIXPath

    /// The type of the entry; for a symbolic link, that of the link itself.
    public var type: FileType

    /// The inode number of the entry.
    public var inode: UInt64

    /// Creates an entry.
    public init(name: POSIXPath, type: FileType, inode: UInt64) {
        self.name = name
        self.type = type
        self.inode = inode
    }
}

/// The file of an attribute call: an open file, or the file at a path.
public enum FileReference: Hashable, Sendable {
    /// The open file of this descriptor.
    case descriptor(Descriptor)

    /// The file at a path, relative to an open directory; the link itself if links are not followed.
    case path(POSIXPath, at: Descriptor = .workingDirectory, followsSymbolicLinks: Bool = true)
}

/// The status of a file (`stat(2)`).
public struct FileStatus: Hashable, Sendable {
    /// Regular file, directory, symbolic link and so on.
    public var type: FileType

    /// The permission bits, set-user-id, set-group-id and sticky bit included.
    public var permissions: FilePermissions

    /// The length of the content; of a symbolic link, the length of its target's path.
    public var sizeInBytes: Int64

    /// The space allocated on the device, less than the size if the file has holes.
    public var allocatedSizeInBytes: Int64

    /// The number of the inode, unique within ``device`` while the file exists.
    public var inode: UInt64

    /// The device, or mounted file system, that holds the file.
    public var device: UInt64

    /// The number of hard links; 0 for an open file whose last name was removed.
    public var linkCount: UInt64

    /// The user that owns the file.
    public var owner: UserID

    /// The group that owns the file.
    public var group: GroupID

    /// The time of the last read of the content, as far as the file system records it.
    public var accessed: FileTime

    /// The time of the last change of the content.
    public var modified: FileTime

    /// The time of the last change of the content or of any attribute.
    public var changed: FileTime

    /// Creates a status.
    public init(
        type: FileType, permissions: FilePermissions, sizeInBytes: Int64, allocatedSizeInBytes: Int64, inode: UInt64,
        device: UInt64, linkCount: UInt64, owner: UserID, group: GroupID, accessed: FileTime, modified: FileTime,
        changed: FileTime
    ) {
        self.type = type
        self.permissions = permissions
        self.sizeInBytes = sizeInBytes
        self.allocatedSizeInBytes = allocatedSizeInBytes
        self.inode = inode
        self.device = device
        self.linkCount = linkCount
        self.owner = owner
        self.group = group
        self.accessed = accessed
        self.modified = modified
        self.changed = changed
    }
}

/// What can be known of a file without its times.
///
/// On Linux, a look at the times of a file makes its next change record a finer time, which the flush after that change
/// then has to write too (multigrain timestamps, since 6.13): a call that does not need them asks for this.
public struct BriefFileStatus: Hashable, Sendable {
    /// The number of the inode, unique within a device while the file exists.
    public var inode: UInt64

    /// The length of the content.
    public var sizeInBytes: Int64

    /// The number of hard links; 0 for an open file whose last name was removed.
    public var linkCount: UInt64

    /// Creates a status.
    public init(inode: UInt64, sizeInBytes: Int64, linkCount: UInt64) {
        self.inode = inode
        self.sizeInBytes = sizeInBytes
        self.linkCount = linkCount
    }

    /// The part of a status.
    public init(_ status: FileStatus) {
        self.init(inode: status.inode, sizeInBytes: status.sizeInBytes, linkCount: status.linkCount)
    }
}

/// A point in time as file systems store it: seconds since 1970 and nanoseconds; may be before 1970.
public struct FileTime: Hashable, Sendable, Comparable {
    /// Whole seconds since 1970-01-01 00:00:00 UTC, rounded down; negative before.
    public var seconds: Int64

    /// Nanoseconds after ``seconds``, 0 to 999,999,999.
    public var nanoseconds: Int32

    /// Creates a time.
    public init(seconds: Int64, nanoseconds: Int32 = 0) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    public static func < (left: FileTime, right: FileTime) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }
}

/// Identifies the content of a file: two revisions of one file are equal only if its content was not replaced or
/// written between them.
///
/// To be compared and stored, not interpreted. On a file system of this machine it consists of inode number,
/// modification time and size. The stores give every file they write a modification time of its own to the nanosecond,
/// so a reused inode number does not repeat a revision. A program that writes to a file in place and then restores its
/// modification time keeps the revision; on file systems that store times in seconds, such as FAT, so does a
/// replacement of the same size within that time that reuses the inode number.
public struct FileRevision: RawRepresentable, Hashable, Sendable {
    /// Numbers for a file of this machine, because formatting them takes longer than reading them.
    private enum Content: Hashable {
        case file(inode: UInt64, seconds: Int64, nanoseconds: Int32, sizeInBytes: Int64)
        case text(String)
    }

    private let content: Content

    /// The revision of a regular file with this status.
    public init(_ status: FileStatus) {
        content = .file(
            inode: status.inode, seconds: status.modified.seconds, nanoseconds: status.modified.nanoseconds,
            sizeInBytes: status.sizeInBytes)
    }

    /// Creates a revision from its text, which may be that of any store.
    public init(rawValue: String) {
        content = Self.file(rawValue) ?? .text(rawValue)
    }

    /// The text of the revision.
    public var rawValue: String {
        switch content {
        case .file(let inode, let seconds, let nanoseconds, let size): "\(inode).\(seconds).\(nanoseconds).\(size)"
        case .text(let text): text
        }
    }

    private static func file(_ text: String) -> Content? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, let inode = UInt64(parts[0]), let seconds = Int64(parts[1]),
            let nanoseconds = Int32(parts[2]), let size = Int64(parts[3])
        else { return nil }
        let content = Content.file(inode: inode, seconds: seconds, nanoseconds: nanoseconds, sizeInBytes: size)
        // Other spellings of the same numbers are other texts.
        return "\(inode).\(seconds).\(nanoseconds).\(size)" == text ? content : nil
    }
}

extension FileRevision: Codable {}

extension FileRevision: CustomStringConvertible {
    public var description: String { rawValue }
}

/// A lock on an open file (`flock(2)`): it belongs to the open file, so two opens in one process do conflict.
public enum LockMode: Hashable, Sendable {
    /// Any number of open files may hold it together.
    case shared

    /// No other open file may hold a lock.
    case exclusive

    /// Releases the lock; closing the last descriptor of the open file does too.
    case unlocked
}

/// The treatment of an existing target of a rename (`renameat2(2)`, `renameatx_np(2)`).
public enum RenameMode: Hashable, Sendable {
    /// The target is replaced, atomically.
    case replacing

    /// `EEXIST` if the target exists.
    case exclusive

    /// Both must exist and are swapped, atomically.
    case exchanging
}

/// The extent of a synchronisation.
public enum SyncLevel: Hashable, Sendable {
    /// Content, size and attributes are durable when the call returns (`fsync(2)`; `F_FULLFSYNC` on Darwin, whose
    /// `fsync` leaves them in the device's cache).
    case full

    /// Content and size are durable; times, permissions, owner and extended attributes may be older (`fdatasync(2)`,
    /// which on ext4 writes only what is needed to read the content).
    case data

    /// Earlier writes reach the device before any later write, at an unspecified time (`F_BARRIERFSYNC`). Where there
    /// is no barrier, as ``data``.
    case barrier
}

/// Limits on path resolution (`openat2(2)`).
public struct PathResolution: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Resolution must not leave the starting directory by `..`, an absolute path or a link; otherwise `EXDEV`.
    ///
    /// On Darwin only together with ``noSymbolicLinks``, since no system call confines a resolution that follows links:
    /// alone it is `ENOTSUP`, and every `..` is `EXDEV`, also one that stays below the directory.
    public static let beneath = PathResolution(rawValue: 1)

    /// No component may be a symbolic link; otherwise `ELOOP`.
    public static let noSymbolicLinks = PathResolution(rawValue: 2)
}

/// The failures that an acknowledged write survives.
public enum Durability: String, Hashable, Sendable, CaseIterable {
    /// Survives a power cut: the device has confirmed content and name.
    case full

    /// Survives a kill of the process, and is never torn; a power cut may revert to an earlier consistent state,
    /// because writes reach the device in order.
    case barrier

    /// Survives a kill of the process; a power cut may lose it.
    case none
}

/// A watch of any number of open directories for changes of their entries (`inotify(7)`).
///
/// ``POSIXFileSystem/makeDirectoryWatch(on:onEvents:onCancel:)`` creates it. Calls must be made on its queue.
public protocol DirectoryWatching: Sendable {
    /// Starts to watch a directory, but not the directories below it.
    ///
    /// A directory is watched as such, whatever its path: a rename does not end its watch. The watch ends with its
    /// removal. Every change after this call is reported, or covered by a later ``DirectoryEvent/lost``.
    ///
    /// - Parameters:
    ///   - directory: An open directory; it may be closed immediately afterwards.
    ///   - includesWrites: Whether ``DirectoryEvent/written(_:in:)`` is reported; of several calls, the last one counts.
    /// - Returns: The number of the directory in events; the same for a directory that is already watched, otherwise
    ///   one that is not in use and was not used by an earlier directory.
    /// - Throws: ``FileSystemError``: `ENOSPC` at the limit of watched directories; `EACCES` without the permission to
    ///   read the directory; `ENOTDIR`; `EBADF`.
    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int

    /// Starts to watch whether a directory keeps its name: its removal and its rename are reported, and changes of its
    /// entries need not be.
    ///
    /// On systems that report changes without names (`kqueue(2)`), every new name in a busy directory would otherwise
    /// be an event. By default, as ``watch(_:includesWrites:)`` without writes.
    ///
    /// - Returns: As ``watch(_:includesWrites:)``. A directory that is watched for its entries already stays so.
    /// - Throws: As ``watch(_:includesWrites:)``.
    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int

    /// Stops watching a directory; succeeds if it is not watched. Its earlier events may still arrive.
    func unwatch(_ number: Int)

    /// Stops watching and releases all resources; may be called on any thread and more than once.
    func cancel()
}

extension DirectoryWatching {
    public func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        try watch(directory, includesWrites: false)
    }
}

/// A change of an entry of a watched directory, which is identified by its number.
///
/// The events of all directories of a watch are in the order of the changes.
public enum DirectoryEvent: Hashable, Sendable {
    /// The name appeared, or leads to another file: by a creation, a link or a rename.
    case added(POSIXPath, in: Int)

    /// The name disappeared, or led to a file that was exchanged.
    case removed(POSIXPath, in: Int)

    /// A file that was open for writing was closed.
    case written(POSIXPath, in: Int)

    /// Events were lost, of any of the directories.
    case lost
}

// MARK: Numbers in headers

extension FixedWidthInteger {
    /// The bytes of the number in little-endian order.
    package var littleEndianBytes: [UInt8] {
        stride(from: 0, to: bitWidth, by: 8).map { UInt8(truncatingIfNeeded: self >> $0) }
    }
}

extension [UInt8] {
    /// Appends the bytes of a number in little-endian order.
    package mutating func append(littleEndian number: some FixedWidthInteger) {
        append(contentsOf: number.littleEndianBytes)
    }

    /// The little-endian number at `offset`.
    package func littleEndian<Number: FixedWidthInteger>(at offset: Int, as _: Number.Type = Number.self) -> Number {
        self[offset..<offset + Number.bitWidth / 8].reversed().reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }
}

/// The identity of a directory, valid only while the directory exists or is open: file systems reuse the inode numbers
/// of removed directories.
package struct DirectoryIdentity: Hashable, Sendable {
    var inode: UInt64
    var device: UInt64

    package init(_ status: FileStatus) {
        self.init(inode: status.inode, device: status.device)
    }

    init(inode: UInt64, device: UInt64) {
        self.inode = inode
        self.device = device
    }
}
