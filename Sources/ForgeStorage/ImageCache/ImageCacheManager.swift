public import ForgeFileSystem
public import Foundation

/// A cache of images on disk, or on whatever file system it is given.
///
/// Each image is a file in the cache's directory: `<id>.cache` where the id is made of `a`–`z`, `0`–`9`, `-`, `_` and
/// inner dots only; the name of any other id is escaped or hashed, so that no id leads out of the directory and two ids
/// never share a file, on a disk that ignores case neither. The file holds the id too, and only the image that was
/// cached as an id is ever returned for it. A checksum tells of damage.
///
/// Nothing but the six calls of `FileSystemProtocol` is used, and their errors are passed on as they are. With
/// `SystemFileSystem` and `InMemoryFileSystem` an image is stored atomically: a reader, and a crash, see the old image or
/// the new one.
///
/// All calls may come from any thread at once. They do their work on the caller's thread.
public final class ImageCacheManager: Sendable {
    private let fileSystem: any FileSystemProtocol
    private let cacheDirectory: URL
    private let now: @Sendable () -> Date

    private static let suffix = ".cache"

    /// A cache in a directory, which is created if it is missing; if that fails, the first image that is cached tells.
    ///
    /// - Parameters:
    ///   - fileSystem: Where the directory is.
    ///   - cacheDirectory: The directory; nil for `ImageCache` in the user's directory for caches. Where apps share that
    ///     (on Linux, and on a Mac without sandbox), name a directory of the app's own.
    ///   - now: The clock that ``CachedImage/cachedAt`` is read from.
    public init(
        fileSystem: any FileSystemProtocol = SystemFileSystem(), cacheDirectory: URL? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.fileSystem = fileSystem
        self.cacheDirectory = cacheDirectory ?? Self.defaultDirectory
        self.now = now
        do {
            try fileSystem.createDirectory(at: self.cacheDirectory, withIntermediateDirectories: true)
        } catch {
            // Caching an image tries again and throws what is in the way.
        }
    }

    /// Stores an image, in place of the one that was cached as `id` before.
    ///
    /// A directory that has disappeared since is created anew.
    ///
    /// - Throws: The file system's own error; with the file systems of this toolkit the old image is still there.
    public func cacheImage(id: String, data: Data) throws {
        let content = try ImageFile.content(of: CachedImage(id: id, data: data, cachedAt: now()))
        let file = url(of: id)
        do {
            try fileSystem.write(content, to: file)
        } catch {
            guard !fileSystem.fileExists(atPath: cacheDirectory.path) else { throw error }
            try fileSystem.createDirectory(at: cacheDirectory, withIntermediateDirectories: true)
            try fileSystem.write(content, to: file)
        }
    }

    /// The image that was cached as `id`, or nil if there is none that can be read.
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
    /// - Throws: ``ImageCacheError`` if the image's file holds something else; the file system's own error if it could
    ///   not be read. The file stays as it is until an image is cached as `id` anew.
    public func readCachedImage(id: String) throws -> CachedImage? {
        guard let content = try content(of: url(of: id)) else { return nil }
        let image: CachedImage
        do {
            image = try ImageFile.image(in: content)
        } catch {
            throw ImageCacheError.undecodable(id: id, underlying: error)
        }
        // Byte for byte: strings that Swift calls equal may have been two ids.
        guard image.id.utf8.elementsEqual(id.utf8) else {
            throw ImageCacheError.mismatch(id: id, storedID: image.id)
        }
        return image
    }

    /// Removes the image that was cached as `id`; that there is none is no error.
    ///
    /// - Throws: The file system's own error; the image is still there.
    public func deleteCachedImage(id: String) throws {
        try remove(url(of: id))
    }

    /// Removes every image, and no file that is not this cache's.
    ///
    /// - Throws: The file system's own error; some of the images may be gone.
    public func clearCache() throws {
        for file in try files() { try remove(file) }
    }

    /// How many bytes the files of all images have together.
    ///
    /// - Throws: The file system's own error.
    /// - Complexity: Reads every file of the cache, because the six calls tell no sizes.
    public func cacheSize() throws -> Int {
        var size = 0
        for file in try files() { size += try content(of: file)?.count ?? 0 }
        return size
    }
}

// MARK: Files

extension ImageCacheManager {
    private static var defaultDirectory: URL {
        // Only a system without users has no directory for caches.
        let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        return (caches ?? FileManager.default.temporaryDirectory)
            .appending(component: "ImageCache", directoryHint: .isDirectory)
    }

    private func url(of id: String) -> URL {
        cacheDirectory.appending(
            component: FlatFileName(id).string + Self.suffix, directoryHint: .notDirectory)
    }

    /// The files whose names this cache could have made.
    private func files() throws -> [URL] {
        let found: [URL]
        do {
            found = try fileSystem.contentsOfDirectory(at: cacheDirectory)
        } catch {
            guard error.saysMissing ?? !fileSystem.fileExists(atPath: cacheDirectory.path) else { throw error }
            return []
        }
        return found.filter { file in
            let name = file.lastPathComponent
            return !file.hasDirectoryPath && name.hasSuffix(Self.suffix)
                && FlatFileName.isName(name.dropLast(Self.suffix.count))
        }
    }

    private func content(of file: URL) throws -> Data? {
        do {
            return try fileSystem.read(from: file)
        } catch {
            guard error.saysMissing ?? !fileSystem.fileExists(atPath: file.path) else { throw error }
            return nil
        }
    }

    private func remove(_ file: URL) throws {
        do {
            try fileSystem.removeItem(at: file)
        } catch {
            guard error.saysMissing ?? !fileSystem.fileExists(atPath: file.path) else { throw error }
        }
    }
}
