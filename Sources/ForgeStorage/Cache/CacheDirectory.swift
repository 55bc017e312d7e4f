import ForgeFileSystem
import Foundation
import SystemPackage

/// The layer of a cache on disk: one ``CacheFile`` per key, named by the key's ``FlatFileName`` and `.forgecache`.
///
/// Calls block, except ``cachedContent(of:)``. Files that are not regular,
/// or whose names have another form, belong to other programs: they are neither read, replaced nor removed.
package final class CacheDirectory: Sendable {
    /// The result of reading a key's file.
    enum Reading {
        case missing
        case file(CacheFile)
        /// The file does not contain the key's entry; it was removed if it has this format.
        case damaged(CacheFile.Damage)
    }

    /// What follows the name of a key in the name of its file.
    package static let suffix = ".forgecache"

    private let root: LazyStoreDirectory
    private let index: FileIndex
    private let durability: Durability

    init(_ path: POSIXPath, on fileSystem: any POSIXFileSystem, limits: CacheLimits, durability: Durability) {
        // A cache may replace what another process has just stored.
        let root = LazyStoreDirectory(path, of: .cache, on: fileSystem, turnPatience: nil)
        self.root = root
        self.durability = durability
        index = FileIndex(
            limits: limits, list: { try Self.files(in: root) },
            removeFile: { try Self.unlink($0, in: root, durability) })
    }

    static func fileName(of key: String) -> String { FlatFileName(key).string + suffix }

    /// The threads for calls that may wait for the disk.
    var lane: BlockingLane { root.lane }

    /// Reads the file of a key.
    func content(of key: String) throws -> Reading {
        let name = Self.fileName(of: key)
        guard let content = try read(name) else { return .missing }
        do throws(CacheFile.Damage) {
            let file = try CacheFile(content, key: key)
            index.hit(name)
            return .file(file)
        } catch {
            if error != .foreign || Self.isTorn(content) { try removeDamaged(name, key) }
            return .damaged(error)
        }
    }

    /// Larger files are not read on the caller's thread.
    private static let cachedLimit = 256 << 10

    /// Reads the file of a key if it is in memory, without waiting; nil if it has to be read by ``content(of:)``.
    func cachedContent(of key: String) throws -> Reading? {
        let name = Self.fileName(of: key)
        let content: [UInt8]
        do {
            guard let file = try root.openCachedFile(try RelativeKey(component: name)),
                let found = file.cachedContents(upTo: Self.cachedLimit)
            else { return nil }
            content = found
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return .missing
        }
        do throws(CacheFile.Damage) {
            let entry = try CacheFile(content, key: key)
            index.hit(name)
            return .file(entry)
        } catch {
            return nil
        }
    }

    /// Stores an entry, unless `isWanted` returns false just before, and calls `didStore` before a later change of the
    /// same key can take effect.
    func store(_ file: CacheFile, isWanted: () -> Bool, didStore: () -> Void) throws {
        let name = Self.fileName(of: file.key)
        let header = file.header()
        let payload = file.payload ?? Data()
        let size = header.count + payload.count
        guard size <= CacheFile.maximumSizeInBytes else {
            try index.remove(name)
            throw FileSystemError(.write, .fileTooLarge, path: POSIXPath(name))
        }
        let key = try RelativeKey(component: name)
        try index.store(name, sizeInBytes: size) {
            guard isWanted() else { return false }
            do {
                try write(key, header, payload)
            } catch {
                // The entry that could not be replaced is out of date. The first failure is the one to report.
                do { try Self.unlink(name, in: root, durability) } catch _ {}
                throw error
            }
            didStore()
            return true
        }
    }

    private func write(_ key: RelativeKey, _ header: [UInt8], _ payload: Data) throws(FileSystemError) {
        let pending = PendingFile()
        defer { pending.discard() }
        _ = try root.write { (directory) throws(FileSystemError) in
            try directory.save(pending, at: key, .replacing, durability: durability) { (file) throws(FileSystemError) in
                try file.write(header)
                try file.write(payload)
            }
        }
    }

    func remove(_ key: String) throws { try index.remove(Self.fileName(of: key)) }

    func removeAll() throws {
        try index.removeAll()
        // A process that was killed may have removed files without a flush.
        try root.existing()?.synchronizeRoot(durability)
    }

    /// The sum of the sizes and the number of the files; reads none of them.
    func totals() throws -> (sizeInBytes: Int, count: Int) { try index.totals() }

    var evictionCount: Int { index.evictionCount }

    // MARK: Files

    /// Nil if there is no file of this form.
    private func read(_ name: String) throws -> [UInt8]? {
        let key = try RelativeKey(component: name)
        do throws(FileSystemError) {
            if let file = try root.openFile(key) {
                return try file.contents(maximumSizeInBytes: CacheFile.maximumSizeInBytes)
            }
            return try root.existing()?.read(key, maximumSizeInBytes: CacheFile.maximumSizeInBytes)
        } catch {
            if error.errno == .noSuchFileOrDirectory || error.errno.isForeignEntry { return nil }
            throw error
        }
    }

    private func removeDamaged(_ name: String, _ key: String) throws {
        try index.remove(name) {
            guard let content = try read(name) else { return false }
            do throws(CacheFile.Damage) {
                _ = try CacheFile(content, key: key)
                return false  // It was stored again meanwhile.
            } catch {
                return error != .foreign || Self.isTorn(content)
            }
        }
    }

    /// Whether a power cut may have left this of a file of this format: its first block is missing, or was not written.
    private static func isTorn(_ content: [UInt8]) -> Bool { content.prefix(4096).allSatisfy { $0 == 0 } }

    /// The files of this form, the least recently modified first.
    private static func files(in root: LazyStoreDirectory) throws -> [FileIndex.Listed] {
        guard let directory = try root.existing() else { return [] }
        var found: [(file: FileIndex.Listed, modified: FileTime)] = []
        try directory.forEachEntry(of: nil, isRecursive: false) { (entry, parent, name) throws(FileSystemError) in
            guard entry.type == .regular, FlatFileName.isName(name, suffix: suffix),
                let string = String(validating: name)
            else { return }
            do throws(FileSystemError) {
                let status = try root.fileSystem.status(name, at: parent, followsSymbolicLinks: false)
                guard status.type == .regular else { return }
                found.append(
                    (FileIndex.Listed(name: string, sizeInBytes: Int(clamping: status.sizeInBytes)), status.modified))
            } catch  where error.errno == .noSuchFileOrDirectory {
                return
            }
        }
        return found.sorted { $0.modified < $1.modified }.map(\.file)
    }

    private static func unlink(_ name: String, in root: LazyStoreDirectory, _ durability: Durability) throws {
        let key = try RelativeKey(component: name)
        do throws(FileSystemError) {
            try root.existing()?.unlink(key, durability: durability)
        } catch {
            guard error.errno == .noSuchFileOrDirectory || error.errno.isForeignEntry else { throw error }
        }
    }
}

extension Errno {
    /// Whether a name belongs to something that no cache creates: a link, a directory or a special file.
    fileprivate var isForeignEntry: Bool {
        self == .isDirectory || self == .tooManySymbolicLinkLevels || self == .notSupported
            || self == .noSuchAddressOrDevice
    }
}
