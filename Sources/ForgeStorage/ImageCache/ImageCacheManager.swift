public import ForgeFileSystem
public import Foundation

/// A cache of images on disk, or on any other file system.
///
/// Without limits it evicts nothing: an image stays until it is replaced or deleted. With limits, caching an image
/// removes others until the limits are kept; which ones, ``MemoryCache`` describes. An image that exceeds the limits
/// alone is not kept, nor is the one that it replaces.
///
/// Each image is a file in the cache's directory: `<id>.cache` if the id consists of `a`–`z`, `0`–`9`, `-`, `_` and
/// inner dots only, has 1 to 180 bytes, and is not a device name of Windows up to its first dot, such as `con`. The
/// name of any other id is escaped or hashed, so that no id leads out of the directory and two ids never share a file,
/// even on a case-insensitive disk. The file also contains the id, and an image is returned only for the id under which
/// it was cached. A checksum detects damage.
///
/// A cache needs only the six methods of `FileSystemProtocol`. With a `POSIXFileSystem`, such as `SystemFileSystem` or
/// `InMemoryFileSystem`, it also guarantees:
/// - an image is stored atomically: a reader, and a crash, see the old image or the new one;
/// - no call follows a symbolic link in the directory, blocks on a FIFO, or changes or removes anything there but
///   regular files with the name of an image: other entries are ``CacheError/Reason/foreign``.
///
/// Errors of the file system are passed on unchanged. All calls are thread-safe and work on the caller's thread.
public final class ImageCacheManager: Sendable {
    private let directory: any ImageDirectory
    private let now: @Sendable () -> Date
    /// Nil without limits.
    private let index: FileIndex?
    let decoded: DecodedImages

    /// Creates a cache in a directory, which is created if it is missing; if that fails, caching an image tries again
    /// and throws.
    ///
    /// - Parameters:
    ///   - fileSystem: The file system of the directory.
    ///   - cacheDirectory: The directory; nil for `ImageCache` in the user's cache directory. On Linux, and on a Mac
    ///     without sandbox, apps share that directory: pass one of the app's own there.
    ///   - limits: The limits of the images' files, which the next ``cacheImage(id:data:)`` keeps; nil for none. The
    ///     directory is listed once; with a file system that is only a `FileSystemProtocol`, every file is read for
    ///     that.
    ///   - decodedLimits: The limits of the decoded images in memory; 64 MiB by default.
    ///   - memoryPressure: The source of warnings on which decoded images are evicted; the operating system by default.
    ///   - now: The clock of ``CachedImage/cachedAt``.
    public init(
        fileSystem: any FileSystemProtocol = SystemFileSystem(), cacheDirectory: URL? = nil,
        limits: CacheLimits? = nil, decodedLimits: CacheLimits = CacheLimits(sizeInBytes: 64 << 20),
        memoryPressure: MemoryPressure = .system,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        let url = cacheDirectory ?? Self.defaultDirectory
        let directory: any ImageDirectory
        if let whole = fileSystem as? any POSIXFileSystem {
            directory = POSIXImageDirectory(fileSystem: whole, url: url)
        } else {
            directory = CustomImageDirectory(fileSystem: fileSystem, url: url)
        }
        self.directory = directory
        self.now = now
        decoded = DecodedImages(limits: decodedLimits, memoryPressure)
        index = limits.map { limits in
            FileIndex(
                limits: limits, list: { try directory.files(Self.imageNames(in: directory)) },
                removeFile: { try Self.removeUnlessForeign($0, in: directory) })
        }
        do {
            try directory.create()
        } catch {
            // Caching an image tries again and throws the error.
        }
    }

    /// Stores an image under `id`, replacing the previous one.
    ///
    /// Creates the cache directory again if it is missing.
    ///
    /// - Throws: ``CacheError/Reason/foreign``, ``CacheError/Reason/tooLarge``, or the file system's own error.
    ///   With a `POSIXFileSystem` the old image is kept, unless the error is a `FileSystemError` whose
    ///   `isEffectVisible` is set. With limits, the error may also be that of removing another image; then the new one
    ///   is cached.
    public func cacheImage(id: String, data: Data) throws {
        // Refuses before encoding, which copies the data; reserves 64 KiB for the identifier, the date and the header.
        guard data.count < ImageFile.maximumSizeInBytes - (1 << 16) else { throw CacheError(.tooLarge, key: id) }
        let content = try ImageFile.content(of: CachedImage(id: id, data: data, cachedAt: now()))
        guard content.count <= ImageFile.maximumSizeInBytes else { throw CacheError(.tooLarge, key: id) }
        defer { decoded.remove(id) }
        try withFileName(of: id) { name in
            guard let index else { return try directory.store(content, as: name) }
            try index.store(name, sizeInBytes: content.count) {
                try directory.store(content, as: name)
                return true
            }
        }
    }

    /// The image that was cached as `id`, or nil if it is missing or unreadable.
    ///
    /// Where the difference matters, call ``readCachedImage(id:)``.
    public func getCachedImage(id: String) -> CachedImage? {
        do {
            return try readCachedImage(id: id)
        } catch {
            return nil
        }
    }

    /// The image that was cached as `id`, or nil if there is none.
    ///
    /// - Throws: ``CacheError`` if the image's file contains something else; the file system's own error if it
    ///   could not be read. The file is kept until another image is cached under `id`.
    public func readCachedImage(id: String) throws -> CachedImage? {
        let found = try withFileName(of: id) { name in
            let content = try directory.content(of: name)
            if content != nil {
                index?.hit(name)
            } else {
                try index?.forget(name, if: { try directory.sizeInBytes(of: name) == nil })
            }
            return content
        }
        guard let content = found else { return nil }
        let image: CachedImage
        do {
            image = try ImageFile.image(in: content)
        } catch ImageFileDamage.newerVersion(let version) {
            throw CacheError(.newerVersion(version), key: id)
        } catch {
            throw CacheError(.undecodable, key: id, underlying: error)
        }
        // Compared by bytes: strings that are equal in Swift (canonical equivalence) may be different ids.
        guard image.id.utf8.elementsEqual(id.utf8) else {
            throw CacheError(.mismatch, key: id, storedID: image.id)
        }
        return image
    }

    /// Removes the image that was cached as `id`; succeeds if there is none.
    ///
    /// - Throws: ``CacheError/Reason/foreign``, or the file system's own error. The image is kept, unless only the
    ///   flush after its removal failed.
    public func deleteCachedImage(id: String) throws {
        defer { decoded.remove(id) }
        try withFileName(of: id) { name in
            guard let index else { return try directory.remove(name) }
            try index.remove(name, with: { try directory.remove(name) })
        }
        // Also if there is none: a killed process may have removed it without a flush.
        try directory.synchronize()
    }

    /// Removes every file whose name has the form of an image's file name, and no other file.
    ///
    /// The content is not checked, so this includes another program's file with such a name. With a `POSIXFileSystem`
    /// only regular files are removed.
    ///
    /// - Throws: The file system's own error; some of the images may be removed.
    public func clearCache() throws {
        defer { decoded.removeAll() }
        for name in try Self.imageNames(in: directory) {
            let remove = { try Self.removeUnlessForeign(name, in: self.directory) }
            if let index { try index.remove(name, with: remove) } else { try remove() }
        }
        // Also if there were none: an earlier process's removals may still be unflushed.
        try directory.synchronize()
    }

    /// The sum of the sizes of all images' files, in bytes. With limits, files that other managers have added to the
    /// directory since it was listed are not included.
    ///
    /// - Throws: The file system's own error.
    /// - Complexity: O(number of images), with limits only for the first call that needs it; with a file system that is
    ///   only a `FileSystemProtocol`, every file is read.
    public func cacheSize() throws -> Int {
        if let index { return try index.sizeInBytes() }
        return try Self.imageNames(in: directory).reduce(0) { sum, name in
            let (total, overflows) = sum.addingReportingOverflow(try directory.sizeInBytes(of: name) ?? 0)
            return overflows ? .max : total
        }
    }
}

// MARK: Names

extension ImageCacheManager {
    private static var defaultDirectory: URL {
        let caches: URL
        do throws(FileSystemError) {
            caches = URL(try StandardDirectory.caches.path())
        } catch {
            // Only a system without users lacks a cache directory.
            caches = FileManager.default.temporaryDirectory
        }
        return caches.appending(component: "ImageCache", directoryHint: .isDirectory)
    }

    /// Calls `body` with the name of an image's file.
    private func withFileName<Result>(of id: String, _ body: (String) throws -> Result) throws -> Result {
        do {
            return try body(FlatFileName(id).string + ImageFile.suffix)
        } catch is ForeignEntry {
            throw CacheError(.foreign, key: id)
        }
    }

    /// The names of all files in the directory that have the form of an image's file name.
    private static func imageNames(in directory: any ImageDirectory) throws -> [String] {
        try directory.names().filter { FlatFileName.isName(POSIXPath($0), suffix: ImageFile.suffix) }
    }

    private static func removeUnlessForeign(_ name: String, in directory: any ImageDirectory) throws {
        do { try directory.remove(name) } catch is ForeignEntry { return }
    }
}

/// An image in an ``ImageCacheManager``.
public struct CachedImage: Codable, Hashable, Sendable {
    /// The identifier under which the image was cached.
    public let id: String

    /// The image's bytes, unchanged.
    public let data: Data

    /// The time when it was cached.
    public let cachedAt: Date

    /// Creates a cached image.
    public init(id: String, data: Data, cachedAt: Date) {
        self.id = id
        self.data = data
        self.cachedAt = cachedAt
    }

    public static func == (first: CachedImage, second: CachedImage) -> Bool {
        first.id.hasSameBytes(as: second.id) && first.data == second.data && first.cachedAt == second.cachedAt
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(Array(id.utf8))
        hasher.combine(cachedAt)
    }
}

/// A problem with a file that should contain a cached image.
package enum ImageFileDamage: Error, Hashable, Sendable {
    /// The file does not begin like one of an image cache: it is truncated, or another program's.
    case foreign

    /// The file was written by a later version of this package.
    case newerVersion(UInt32)

    /// The file differs from what was written, or is incomplete.
    case checksum
}

extension ImageFileDamage: CustomStringConvertible {
    package var description: String {
        switch self {
        case .foreign: "not a file of an image cache"
        case .newerVersion(let version): "version \(version) of the format, which is newer than this package"
        case .checksum: "the checksum is wrong"
        }
    }
}
