// "Abstracting File System Access": the production code of the article on this package's protocol.
// It prints no test; those of the next article run on it.

import ForgeStorage
import Foundation
import XCTest

enum Document000 {
    struct CachedImage: Codable {
        let id: String
        let data: Data
        let cachedAt: Date
    }

    class SystemFileSystem: FileSystemProtocol, @unchecked Sendable {
        private let fileManager = FileManager.default

        func fileExists(atPath path: String) -> Bool {
            fileManager.fileExists(atPath: path)
        }

        func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
            try fileManager.createDirectory(at: url, withIntermediateDirectories: withIntermediateDirectories)
        }

        func write(_ data: Data, to url: URL) throws {
            try data.write(to: url)
        }

        func read(from url: URL) throws -> Data {
            try Data(contentsOf: url)
        }

        func removeItem(at url: URL) throws {
            try fileManager.removeItem(at: url)
        }

        func contentsOfDirectory(at url: URL) throws -> [URL] {
            try fileManager.contentsOfDirectory(at: url, includingPropertiesForKeys: nil)
        }
    }

    class ImageCacheManager {
        private let fileSystem: FileSystemProtocol
        private let cacheDirectory: URL

        init(
            fileSystem: FileSystemProtocol = SystemFileSystem(),
            cacheDirectory: URL? = nil
        ) {
            self.fileSystem = fileSystem

            if let dir = cacheDirectory {
                self.cacheDirectory = dir
            } else {
                let documentsPath = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask)[0]
                self.cacheDirectory = documentsPath.appendingPathComponent("ImageCache")
            }

            try? fileSystem.createDirectory(at: self.cacheDirectory, withIntermediateDirectories: true)
        }

        func cacheImage(id: String, data: Data) throws {
            let fileURL = cacheDirectory.appendingPathComponent("\(id).cache")
            let cached = CachedImage(id: id, data: data, cachedAt: Date())
            let encodedData = try JSONEncoder().encode(cached)
            try fileSystem.write(encodedData, to: fileURL)
        }

        func getCachedImage(id: String) -> CachedImage? {
            let fileURL = cacheDirectory.appendingPathComponent("\(id).cache")
            guard fileSystem.fileExists(atPath: fileURL.path) else { return nil }
            guard let data = try? fileSystem.read(from: fileURL),
                let cached = try? JSONDecoder().decode(CachedImage.self, from: data)
            else {
                return nil
            }
            return cached
        }
    }
}

class Document000Tests: XCTestCase {
    private var directory: URL!

    override func setUp() {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("Document000-\(UUID().uuidString)")
    }

    override func tearDown() {
        try? FileManager.default.removeItem(at: directory)
    }

    func test_theArticlesCache_runsOnOurFileSystems() throws {
        let data = Data([0x89, 0x50, 0x4E, 0x47])
        for fileSystem in [InMemoryFileSystem(), ForgeStorage.SystemFileSystem(), Document000.SystemFileSystem()]
            as [FileSystemProtocol]
        {
            let cache = Document000.ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory)
            XCTAssertNil(cache.getCachedImage(id: "test_image"))
            try cache.cacheImage(id: "test_image", data: data)
            XCTAssertEqual(cache.getCachedImage(id: "test_image")?.data, data)
            try fileSystem.removeItem(at: directory)
        }
    }

    func test_ourCache_runsOnTheArticlesFileSystem() throws {
        let data = Data([0x89, 0x50, 0x4E, 0x47])
        let fileSystem = Document000.SystemFileSystem()
        let cache = ForgeStorage.ImageCacheManager(fileSystem: fileSystem, cacheDirectory: directory)
        XCTAssertNil(try cache.readCachedImage(id: "test_image"))
        try cache.cacheImage(id: "test_image", data: data)
        XCTAssertEqual(cache.getCachedImage(id: "test_image")?.data, data)
        XCTAssertGreaterThan(try cache.cacheSize(), 0)
        try cache.deleteCachedImage(id: "test_image")
        try cache.deleteCachedImage(id: "test_image")
        XCTAssertNil(try cache.readCachedImage(id: "test_image"))
        try cache.cacheImage(id: "test_image", data: data)
        try cache.clearCache()
        XCTAssertEqual(try cache.cacheSize(), 0)
    }
}
