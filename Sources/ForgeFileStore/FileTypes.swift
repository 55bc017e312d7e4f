public import ForgeFileSystem
public import Foundation
import SystemPackage

/// A file or directory of a store, as contained in listings.
public struct StoredFile: Hashable, Sendable {
    /// The kind of entry at a key.
    public enum Kind: String, Hashable, Sendable {
        /// A file.
        case file

        /// A directory.
        case directory

        /// An entry that no store creates: a link, a FIFO, a device. Reading, replacing and deleting it fail with
        /// ``FileStoreError/Code/unsafe(_:)``.
        case other
    }

    /// The key, a path relative to the store.
    public var key: String

    /// The kind of entry.
    public var kind: Kind

    /// The length of the content; 0 for other entries than files.
    public var sizeInBytes: Int64

    /// The time of the last change of the content; of a directory, of its entries.
    public var modified: Date

    /// Identifies the content of a file; nil for other entries, and in a store without revisions.
    public var revision: FileRevision?

    /// Creates the description of a file or directory.
    public init(
        key: String, kind: Kind = .file, sizeInBytes: Int64, modified: Date, revision: FileRevision? = nil
    ) {
        self.key = key
        self.kind = kind
        self.sizeInBytes = sizeInBytes
        self.modified = modified
        self.revision = revision
    }

    /// Keys are compared by their bytes.
    public static func == (first: StoredFile, second: StoredFile) -> Bool {
        first.key.hasSameBytes(as: second.key) && first.kind == second.kind && first.sizeInBytes == second.sizeInBytes
            && first.modified == second.modified && first.revision == second.revision
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(POSIXPath(key))
        hasher.combine(sizeInBytes)
        hasher.combine(modified)
    }

    /// The last component of the key.
    public var name: String {
        let bytes = key.utf8
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return key }
        return String(key[bytes.index(after: slash)...])
    }

    /// Whether this is a directory.
    public var isDirectory: Bool { kind == .directory }
}

extension Sequence<StoredFile> {
    /// The total size of all files, clamped to the maximum.
    var totalSizeInBytes: Int64 {
        reduce(0) { sum, file in
            let (next, overflow) = sum.addingReportingOverflow(file.sizeInBytes)
            return overflow ? .max : next
        }
    }
}

/// The existing file that a save may replace.
public enum SaveCondition: Hashable, Sendable {
    /// Any file, or none: the save always stores.
    case always

    /// None: otherwise the save fails with ``FileStoreError/Code/alreadyExists``.
    case absent

    /// The file with this revision: otherwise the save fails with ``FileStoreError/Code/conflict``.
    case unchanged(FileRevision)
}

extension SaveCondition {
    var renameMode: RenameMode { self == .absent ? .exclusive : .replacing }

    var expectedRevision: FileRevision? {
        guard case .unchanged(let revision) = self else { return nil }
        return revision
    }
}

/// Saves and deletions that a store performs together, in their order, with few flushes.
///
/// Each file is replaced atomically, the batch as a whole is not: a reader or a crash meanwhile may see some of the
/// changes. See ``StreamingFileStoring/batch(durability:_:)``.
public struct FileBatch: Sendable {
    enum Change: Sendable {
        case save(Data, SaveCondition, [String: String])
        case delete
    }

    private(set) var changes: [(key: String, change: Change)] = []

    /// Creates an empty batch.
    public init() {}

    /// Adds a save; see ``StreamingFileStoring/save(_:to:if:durability:attributes:)``.
    public mutating func save(
        _ data: Data, to key: String, if condition: SaveCondition = .always, attributes: [String: String] = [:]
    ) {
        changes.append((key, .save(data, condition, attributes)))
    }

    /// Adds a deletion; see ``FileStoring/delete(_:)``.
    public mutating func delete(_ key: String) {
        changes.append((key, .delete))
    }
}

/// The valid attributes of a new file.
struct CheckedAttributes: Sendable {
    static let none = CheckedAttributes()

    let values: [String: [UInt8]]

    private init() { values = [:] }

    /// Validates the attributes of a save.
    init(_ attributes: [String: String], of key: String) throws(FileStoreError) {
        // Sorted, so that every run reports the same problem.
        let sorted = attributes.sorted { $0.key < $1.key }
        for (name, _) in sorted where !FileAttributes.isName(name) {
            throw FileStoreError(.invalidAttribute(.name(name)), .save, key: key)
        }
        let sizes = sorted.map { (name: $0.key, size: $0.key.utf8.count + $0.value.utf8.count) }
        if let largest = sizes.max(by: { $0.size < $1.size }),
            sizes.count > FileAttributes.maximumCount
                || sizes.reduce(0, { $0 + $1.size }) > FileAttributes.maximumSizeInBytes
        {
            throw FileStoreError(.invalidAttribute(.tooLarge(largest.name)), .save, key: key)
        }
        values = attributes.mapValues { Array($0.utf8) }
    }

    /// The attributes of an open file.
    ///
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/undecodable`` if a value is not UTF-8.
    static func read(from file: borrowing OpenFile, key: String) throws(FileStoreError) -> [String: String] {
        let values: [String: [UInt8]]
        do throws(FileSystemError) {
            values = try file.attributes()
        } catch {
            throw FileStoreError(error, .load, key: key)
        }
        var attributes: [String: String] = [:]
        for (name, value) in values {
            guard let text = String(validating: value, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .load, key: key)
            }
            attributes[name] = text
        }
        return attributes
    }
}

/// The options of a file store.
public struct FileStoreOptions: Hashable, Sendable {
    /// How durable a save or a removal is when the call returns; `.full` by default.
    public var durability: Durability

    /// The maximum size of a file that ``FileStoring/load(_:)`` loads; by default what memory can hold. For a larger
    /// one it throws ``FileStoreError/Code/tooLarge`` before allocating memory; read it in parts, with
    /// ``StreamingFileStoring/reader(for:)``. Set a limit where others can put files into the store.
    public var maximumLoadSizeInBytes: Int

    /// How long an asynchronous call waits for a thread, for the lock of a directory or for the device; nil for no
    /// limit, 30 seconds by default. Past it, a call throws ``FileStoreError/Code/deadlineExceeded(_:)``.
    ///
    /// A call that reads or writes much has a second more for each MiB. Calls on whole trees, batches and commits have
    /// no deadline once they have begun, other than for locks. Synchronous calls wait for the device without limit.
    public var deadline: Duration?

    /// Whether the first write excludes the root, and with it all files, from the backups of an Apple device; not by
    /// default. False leaves the root as it is. No effect elsewhere.
    ///
    /// Set it for what the app can load or compute again, outside of a directory for caches.
    public var isExcludedFromBackup: Bool

    /// Creates options with default values.
    public init(
        durability: Durability = .full, maximumLoadSizeInBytes: Int = .max, deadline: Duration? = .seconds(30),
        isExcludedFromBackup: Bool = false
    ) {
        self.durability = durability
        self.maximumLoadSizeInBytes = maximumLoadSizeInBytes
        self.deadline = deadline
        self.isExcludedFromBackup = isExcludedFromBackup
    }
}

/// Any text as one component of a file key, for names that users or servers choose.
///
/// ```swift
/// let title = "Übersicht 1/2: CON"
/// try await store.saveJSON(note, to: "notes/" + FileKey.escaping(title))
/// let titles = try await store.list(in: "notes").map { FileKey.unescaping($0.name) ?? $0.name }
/// ```
///
/// A component keeps `a`–`z`, `0`–`9`, `-`, `_` and `.`. Any other byte of the text's UTF-8, a dot at either end, and
/// the first letter of a name that Windows reserves for devices become `=` and two lower-case hexadecimal digits; the
/// empty text is `=` alone. So every component is lower-case ASCII, which no file system folds or normalises, and is
/// neither hidden, reserved nor a dot component; texts that differ in any byte have different components.
public enum FileKey {
    /// The component of a text.
    ///
    /// A component has at most 255 bytes: a character that is kept takes one, any other byte of the text's UTF-8 three.
    ///
    /// - Throws: `InvalidKey` with the component, if that is longer; the reason is `.componentTooLong`, or `.tooLong`
    ///   above 1,024 bytes.
    /// - Complexity: O(bytes)
    public static func escaping(_ text: String) throws(InvalidKey) -> String {
        try RelativeKey(component: String(decoding: EscapedName.escaping(Array(text.utf8)), as: UTF8.self)).string
    }

    /// The text of a component; nil for a string that is not the component of any text.
    ///
    /// - Complexity: O(bytes)
    public static func unescaping(_ component: String) -> String? {
        guard component.utf8.count <= RelativeKey.maximumComponentLength else { return nil }
        return EscapedName.unescaping(Array(component.utf8))
    }
}

/// The data protection class of a store's files: when they can be read on an Apple device. No effect elsewhere.
///
/// The class is set on the store's root directory; files that are created below inherit it.
public enum FileProtection: String, Hashable, Sendable, CaseIterable {
    /// At all times.
    case none

    /// While the device is unlocked.
    case complete

    /// While the device is unlocked; a file that is open stays readable and writable after the device is locked.
    case completeUnlessOpen

    /// From the first unlock after the device has started.
    case completeUntilFirstUserAuthentication
}

/// A file system that implements protection classes itself, such as that of a simulated device.
package protocol FileProtecting: POSIXFileSystem {
    /// Sets the class of a file or directory. Entries that are created in the directory later inherit its class.
    func setProtection(_ protection: FileProtection, of path: POSIXPath) throws(FileSystemError)
}

extension FileProtection {
    /// Sets the class on a directory; no effect on a file system without classes.
    func apply(to path: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        if let fileSystem = fileSystem as? any FileProtecting {
            try fileSystem.setProtection(self, of: path)
        } else if fileSystem is SystemFileSystem {
            try applyOnSystem(to: path)
        }
    }
}

extension Errno {
    /// The error of the system call behind one of Foundation; `EIO` if Foundation does not tell.
    init(ofFoundation error: any Error) {
        let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError ?? error as NSError
        self = cause.domain == NSPOSIXErrorDomain ? Errno(rawValue: CInt(cause.code)) : .ioError
    }
}

extension StoredFile {
    init(key: String, _ status: FileStatus, isForeign: Bool = false) {
        let kind: Kind =
            switch status.type {
            case .regular: .file
            case .directory where !isForeign: .directory
            default: .other
            }
        let seconds = Double(status.modified.seconds) + Double(status.modified.nanoseconds) / 1e9
        self.init(
            key: key, kind: kind, sizeInBytes: kind == .file ? status.sizeInBytes : 0,
            modified: Date(timeIntervalSince1970: seconds), revision: kind == .file ? FileRevision(status) : nil)
    }
}
