import ForgeFileSystem
import Measuring
import SystemPackage

/// Compares the in-memory file system with a tree of dictionaries: small files in nested directories, and listings.
@main
enum FileSystems {
    private static let content = [UInt8](repeating: 0x78, count: 100)
    private static let directories = (0..<100).map { "/data/level\($0 / 10)/directory\($0)" }
    private static let parents = ["/data"] + (0..<10).map { "/data/level\($0)" }
    private static let names = directories.flatMap { directory in (0..<100).map { "\(directory)/file\($0).bin" } }
    private static let paths = names.map { POSIXPath($0) }
    private static let places = directories.map { POSIXPath($0) }

    static func main() throws {
        keepFreedMemory()
        print("10,000 files of 100 bytes in 100 directories, three levels deep; medians of 15 runs")
        print(MeasurementTable("\ncreate and write a file", try writes()))
        print(MeasurementTable("\nread a file", try reads()))
        let listings = try listings()
        print(MeasurementTable("\nlist a directory of 100 names", listings))
        print("over the bare copy: \(((listings[1].median - listings[0].median) / 10).rounded() / 100) us")
    }

    private static func writes() throws -> [Measurement] {
        [
            try Measurement("tree of dictionaries", count: names.count, setUp: emptyTree) { tree in
                for name in names { try tree.write(content, to: name) }
            },
            try Measurement("in memory: open, write, close", count: paths.count, setUp: emptyFileSystem) { fileSystem in
                for path in paths { try create(path, in: fileSystem) }
            },
        ]
    }

    private static func reads() throws -> [Measurement] {
        let tree = try emptyTree()
        for name in names { try tree.write(content, to: name) }
        let fileSystem = try fullFileSystem()
        return [
            try Measurement("tree of dictionaries", count: names.count) {
                for name in names { keep(try tree.read(name)) }
            },
            try Measurement("in memory: readFile", count: paths.count) {
                for path in paths { keep(try fileSystem.readFile(path)) }
            },
            try Measurement("in memory: open, read, close", count: paths.count) {
                try withUnsafeTemporaryAllocation(byteCount: 128, alignment: 8) { buffer in
                    for path in paths {
                        let descriptor = try fileSystem.open(path)
                        keep(try fileSystem.read(descriptor, into: buffer, at: nil))
                        try fileSystem.close(descriptor)
                    }
                }
            },
        ]
    }

    private static func listings() throws -> [Measurement] {
        let tree = try emptyTree()
        for name in names { try tree.write(content, to: name) }
        let fileSystem = try fullFileSystem()
        let entries = try list(places[0], in: fileSystem)
        return [
            Measurement("bare copy of the entries", count: places.count) {
                for _ in places { keep(copy(entries)) }
            },
            try Measurement("in memory: open, entries, close", count: places.count) {
                for place in places { keep(try list(place, in: fileSystem)) }
            },
            try Measurement("tree of dictionaries", count: directories.count) {
                for directory in directories { keep(try tree.list(directory)) }
            },
        ]
    }

    /// The minimum cost of a listing of this shape: an array, and an array of bytes for each name.
    private static func copy(_ entries: [DirectoryEntry]) -> [DirectoryEntry] {
        entries.map { entry in
            DirectoryEntry(name: POSIXPath(entry.name.bytes), type: entry.type, inode: entry.inode)
        }
    }

    private static func list(
        _ place: POSIXPath, in fileSystem: InMemoryFileSystem
    ) throws -> [DirectoryEntry] {
        try fileSystem.withDirectory(place) { (directory) throws(FileSystemError) in
            try fileSystem.entries(of: directory)
        }
    }

    private static func create(_ path: POSIXPath, in fileSystem: InMemoryFileSystem) throws {
        let descriptor = try fileSystem.open(path, .writeOnly, options: [.create, .exclusiveCreate])
        try content.withUnsafeBytes { _ = try fileSystem.write(descriptor, from: $0, at: nil) }
        try fileSystem.close(descriptor)
    }

    private static func emptyTree() throws -> DictionaryTree {
        let tree = DictionaryTree()
        for directory in parents + directories { try tree.createDirectory(directory) }
        return tree
    }

    private static func emptyFileSystem() throws -> InMemoryFileSystem {
        let fileSystem = InMemoryFileSystem()
        for directory in parents + directories { try fileSystem.createDirectory(POSIXPath(directory)) }
        return fileSystem
    }

    private static func fullFileSystem() throws -> InMemoryFileSystem {
        let fileSystem = try emptyFileSystem()
        for path in paths { try create(path, in: fileSystem) }
        return fileSystem
    }
}
