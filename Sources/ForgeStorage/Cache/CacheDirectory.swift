import Crypto
import ForgeFileSystem
package import Foundation
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
                do { try index.clear(name, with: { try Self.unlink(name, in: root, durability) }) } catch _ {}
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

    /// The sum of the sizes of the files; reads none of them.
    func sizeInBytes() throws -> Int { try index.sizeInBytes() }

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

/// The content of a file of a cache on disk: a header, the key, the tag, and the encoded value.
///
/// | Offset | Length | Content; numbers are little-endian |
/// |---|---|---|
/// | 0 | 8 | `FORGECCH` in ASCII |
/// | 8 | 4 | the version of the format, 1 |
/// | 12 | 4 | CRC-32C of bytes 0 to 11 and of all from 16 on |
/// | 16 | 8 | the end of the lifetime in milliseconds since 1970, signed; the greatest number for none |
/// | 24 | 4 | bit 0: the entry says that there is no value; bit 1: there is a tag; other bits are zero |
/// | 28 | 4 | the length of the key, *k* |
/// | 32 | 4 | the length of the tag, *t* |
/// | 36 | 4 | zero |
/// | 40 | *k* | the key in UTF-8 |
/// | 40 + *k* | *t* | the tag in UTF-8 |
/// | 40 + *k* + *t* | to the end | the value as the cache's ``CacheCoding`` encodes it |
package struct CacheFile: Sendable {
    package enum Damage: Error, Hashable, Sendable {
        /// The file does not begin like one of a cache.
        case foreign
        /// The file was written by a later version of this package.
        case newerVersion(UInt32)
        /// The file differs from what was written, or is incomplete.
        case checksum
        /// The file contains another key: files were renamed.
        case otherKey
    }

    package var key: String
    package var tag: String?
    /// In milliseconds since 1970; nil for no end.
    package var expiry: Int64?
    /// Nil if the entry says that there is no value.
    package var payload: Data?

    package init(key: String, tag: String?, expiry: Int64?, payload: Data?) {
        (self.key, self.tag, self.expiry, self.payload) = (key, tag, expiry, payload)
    }

    /// The maximum size of a file that is read or written.
    package static let maximumSizeInBytes = 256 << 20

    private static let magic = Array("FORGECCH".utf8)
    private static let version: UInt32 = 1
    private static let headerLength = 40

    /// All bytes before the value.
    package func header() -> [UInt8] {
        let key = Array(key.utf8)
        let tag = self.tag.map { Array($0.utf8) }
        var start = Self.magic
        start.append(littleEndian: Self.version)
        var rest: [UInt8] = []
        rest.reserveCapacity(Self.headerLength + key.count)
        rest.append(littleEndian: expiry ?? .max)
        rest.append(littleEndian: UInt32(payload == nil ? 1 : 0) | (tag == nil ? 0 : 2))
        rest.append(littleEndian: UInt32(clamping: key.count))
        rest.append(littleEndian: UInt32(clamping: tag?.count ?? 0))
        rest.append(littleEndian: 0 as UInt32)
        rest += key + (tag ?? [])
        var checksum = CRC32C()
        checksum.update(start)
        checksum.update(rest)
        if let payload { checksum.update(payload) }
        start.append(littleEndian: checksum.value)
        return start + rest
    }

    /// Parses the content of a key's file.
    ///
    /// - Throws: ``Damage``.
    package init(_ content: [UInt8], key: String) throws(Damage) {
        guard content.starts(with: Self.magic) else { throw .foreign }
        guard content.count >= Self.headerLength else { throw .checksum }
        let version: UInt32 = content.littleEndian(at: 8)
        guard version <= Self.version else { throw .newerVersion(version) }
        var checksum = CRC32C()
        checksum.update(content[..<12])
        checksum.update(content[16...])
        guard checksum.value == content.littleEndian(at: 12, as: UInt32.self) else { throw .checksum }
        let flags: UInt32 = content.littleEndian(at: 24)
        let keyLength = Int64(content.littleEndian(at: 28, as: UInt32.self))
        let tagLength = Int64(content.littleEndian(at: 32, as: UInt32.self))
        // An `Int` of 32 bits does not hold every sum.
        guard Int64(Self.headerLength) + keyLength + tagLength <= Int64(content.count) else { throw .checksum }
        let keyEnd = Self.headerLength + Int(keyLength)
        let tagEnd = keyEnd + Int(tagLength)
        guard flags & ~3 == 0, content.littleEndian(at: 36, as: UInt32.self) == 0,
            flags & 2 != 0 || tagEnd == keyEnd,
            let tag = String(validating: content[keyEnd..<tagEnd], as: UTF8.self)
        else { throw .checksum }
        guard content[Self.headerLength..<keyEnd].elementsEqual(key.utf8) else { throw .otherKey }
        let expiry: Int64 = content.littleEndian(at: 16)
        self.init(
            key: key, tag: flags & 2 == 0 ? nil : tag,
            expiry: expiry == .max ? nil : expiry, payload: flags & 1 == 0 ? Data(content[tagEnd...]) : nil)
    }
}

/// A key encoded as a file name that is valid on every file system, and distinct for distinct keys.
///
/// The short form is the ``EscapedName`` of the key, which can be decoded.
///
/// A short form of more than 180 bytes is replaced by the long one: `~`, its first 100 bytes (without a partial
/// escape), `~` and the SHA-256 of the key in hexadecimal digits. It cannot be decoded.
package struct FlatFileName: Hashable, Sendable {
    /// The name, 1 to 180 bytes.
    package let string: String

    /// The maximum length of a name in the short form, in bytes.
    package static let maximumShortLength = 180

    private static let keptLength = 100

    /// The name of a key.
    package init(_ key: String) {
        let short = EscapedName.escaping(Array(key.utf8))
        string =
            short.count <= Self.maximumShortLength
            ? String(decoding: short, as: UTF8.self) : Self.longForm(of: key, short: short)
    }

    private static func longForm(of key: String, short: [UInt8]) -> String {
        var kept = short.prefix(keptLength)
        if let start = kept.suffix(2).lastIndex(of: EscapedName.mark) { kept = kept[..<start] }
        var name = [mark]
        name.append(contentsOf: kept)
        name.append(mark)
        for byte in SHA256.hash(data: Array(key.utf8)) {
            EscapedName.appendHexDigits(of: byte, to: &name)
        }
        return String(decoding: name, as: UTF8.self)
    }
}

// MARK: Decoding

extension FlatFileName {
    /// The key of a name in the short form; nil for any other bytes.
    package static func key(of name: some Collection<UInt8>) -> String? {
        name.count <= maximumShortLength ? EscapedName.unescaping(Array(name)) : nil
    }

    /// Whether a file name is that of a key, followed by a suffix.
    package static func isName(_ name: POSIXPath, suffix: String) -> Bool {
        let bytes = name.bytes
        guard bytes.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) else { return false }
        return isName(bytes.dropLast(suffix.utf8.count))
    }

    /// Whether bytes have the form of a key's name.
    package static func isName(_ name: some Collection<UInt8>) -> Bool {
        let bytes = Array(name)
        guard bytes.first == mark else { return key(of: bytes) != nil }
        let rest = bytes.dropFirst()
        let kept = rest.dropLast(65)
        let digest = rest.suffix(64)
        // A partial escape at the end is omitted, so up to two bytes may be missing.
        guard (keptLength - 2...keptLength).contains(kept.count) else { return false }
        return rest[kept.endIndex] == mark && kept.allSatisfy { EscapedName.isPlain($0) || $0 == EscapedName.mark }
            && digest.allSatisfy { EscapedName.value(ofHexDigit: $0) != nil }
    }
}

private let mark = UInt8(ascii: "~")
