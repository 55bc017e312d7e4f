package import ForgeFileSystem
import SystemPackage

/// The names, revisions and places of values in the log of a store that another process may be writing.
///
/// Takes no lock, opens no store and changes nothing. ``refresh()`` reads what was appended since the last call;
/// values stay in the file until ``bytes(of:limit:)`` reads them. Records are classified as an opening of the store
/// would classify them. No link below the root is followed.
package struct KVLogIndex: Sendable {
    /// A name with the place of its value.
    package struct Entry: Sendable {
        package var name: String
        package var revision: UInt64
        package var sizeInBytes: Int
        let offset: Int64
    }

    /// A change of the store.
    package struct Change: Sendable, Hashable {
        package enum Operation: String, Sendable { case set, remove, removeAll }

        package var operation: Operation
        /// Nil for `removeAll`.
        package var name: String?
        package var revision: UInt64

        package init(_ operation: Operation, _ name: String?, _ revision: UInt64) {
            (self.operation, self.name, self.revision) = (operation, name, revision)
        }
    }

    private let path: POSIXPath
    private let root: ConfinedDirectory
    var log: IndexedLog?

    /// Set while the log cannot be read.
    private var failure: Failure?

    private struct Failure {
        var error: FileSystemError
        var pause: ReadingPause
    }

    /// Raised by every refresh that finds a change.
    package private(set) var version: UInt64 = 0

    /// Creates the index of the store in a directory below another one; reads nothing yet.
    package init(of directory: POSIXPath, in root: ConfinedDirectory) {
        path = directory
        self.root = root
    }

    private var fileSystem: any POSIXFileSystem { root.fileSystem }

    /// Reads what has changed since the last call.
    ///
    /// - Returns: The changes in order; none at the first call. If the log was replaced, the differences.
    /// - Throws: ``KVStoreError``: `.noStore` if there is no log, `.unknownFormat`, `.damaged` if it has no readable
    ///   header, `.unavailable` if it cannot be read. The index keeps its content. Later calls retry after the log has
    ///   changed, otherwise with exponential back-off.
    /// - Complexity: O(*n*) in the appended bytes; in the whole log at first and if it was replaced.
    package mutating func refresh() throws(KVStoreError) -> [Change] {
        let store = String(path)
        do throws(FileSystemError) {
            return try root.withDirectory(path) { (directory) throws(FileSystemError) in
                try refresh(at: directory)
            }
        } catch {
            if let cause = error.underlying as? KVStoreError { throw cause }
            throw error.errno == .noSuchFileOrDirectory
                ? KVStoreError(.noStore, .read, store: store, underlying: error)
                : KVStoreError(error, .read, store: store)
        }
    }

    private mutating func refresh(at directory: Descriptor) throws(FileSystemError) -> [Change] {
        let status = try fileSystem.status(.logName, at: directory, followsSymbolicLinks: false)
        // Moved out: a second reference would make the change copy the arrays.
        if try log?.isSame(status) ?? false {
            failure = nil
            let sequence = log?.sequence
            // Also if an error follows some changes.
            defer { if log?.sequence != sequence { version += 1 } }
            return try log?.follow(status) ?? []
        }
        if let error = failure?.error, failure?.pause.isOver(.init(status)) == false { throw error }
        do throws(FileSystemError) {
            let loaded = try load(at: directory)
            let changes = log.map { loaded.changes(since: $0) } ?? []
            (log, failure) = (loaded, nil)
            version += 1
            return changes
        } catch {
            let pause = ReadingPause(.init(status), sizeInBytes: status.sizeInBytes, after: failure?.pause)
            failure = Failure(error: error, pause: pause)
            throw error
        }
    }

    private func load(at directory: Descriptor) throws(FileSystemError) -> IndexedLog {
        let (descriptor, status) = try fileSystem.openRegularFile(.logName, at: directory)
        switch try IndexedLog.load(descriptor, status, on: fileSystem) {
        case .log(let log): return log
        case .unknownVersion(let version):
            let cause = KVStoreError(.unknownFormat(version: version), .read, store: String(path))
            throw FileSystemError(.read, .notSupported, underlying: cause)
        case .damaged:
            throw FileSystemError(
                .read, .ioError, underlying: KVStoreError(.damaged, .read, store: String(path)))
        }
    }
}

// MARK: Entries

extension KVLogIndex {
    /// The number of names with a value.
    package var count: Int { log?.names.count ?? 0 }

    /// The number of the last change.
    package var revision: UInt64 { log?.sequence ?? 0 }

    /// The place of a name's value; nil if it has none.
    package func entry(named name: String) -> Entry? {
        guard let slot = log?.names.slot(of: KeyName(name)) else { return nil }
        return Entry(name: name, revision: slot.revision, sizeInBytes: slot.valueSize, offset: slot.valueOffset)
    }

    /// The entry of a number from ``names(sortedBy:containing:)``.
    package func entry(numbered number: Int32) -> Entry? {
        guard let names = log?.names else { return nil }
        let slot = names.slots[Int(number)]
        return Entry(
            name: names.name(number), revision: slot.revision, sizeInBytes: slot.valueSize, offset: slot.valueOffset)
    }

    /// Up to `limit` bytes of a value; nil if the log was truncated since the last refresh.
    ///
    /// - Throws: ``KVStoreError`` if the file cannot be read.
    package func bytes(of entry: Entry, limit: Int) throws(KVStoreError) -> [UInt8]? {
        guard let log else { return nil }
        let count = min(entry.sizeInBytes, limit)
        do throws(FileSystemError) {
            let bytes = try fileSystem.readBytes(of: log.file.descriptor, at: entry.offset, count: count)
            return bytes.count == count ? bytes : nil
        } catch {
            throw KVStoreError(error, .read, key: entry.name, store: String(path))
        }
    }
}
