import ForgeStorage
import ForgeStorageTesting
import SystemPackage

/// Random calls of one process on a file system, with their results.
struct RandomCalls {
    private let fileSystem: InMemoryFileSystem
    private var random: SplitMix64
    private var open: [Descriptor] = []
    private(set) var log: [String] = []

    init(_ fileSystem: InMemoryFileSystem, seed: UInt64) {
        self.fileSystem = fileSystem
        random = SplitMix64(seed: seed)
    }

    private mutating func number(below limit: UInt64) -> Int { Int(random.next() % limit) }

    /// A path one to three levels deep, from few names, so that calls affect each other.
    private mutating func path() -> POSIXPath {
        let depth = 1 + number(below: 3)
        return (0..<depth).reduce("/") { path, _ in path.appending(POSIXPath("n\(number(below: 12))")) }
    }

    private mutating func descriptor() -> Descriptor {
        guard !open.isEmpty else { return Descriptor(rawValue: 3) }
        return open[number(below: UInt64(open.count))]
    }

    /// Makes the next call and records its result.
    mutating func callNext() {
        let kind = number(below: 16)
        let path = path()
        let other = self.path()
        let file = descriptor()
        let size = Int64(number(below: 20_000))
        let bits = FilePermissions(rawValue: CInterop.Mode(number(below: 512)) | 0o400)
        var opened: Descriptor?
        let fileSystem = fileSystem
        let result: String
        do throws(FileSystemError) {
            switch kind {
            case 0, 1: try fileSystem.createDirectory(path)
            case 2, 3, 4:
                opened = try fileSystem.open(path, .readWrite, options: kind == 4 ? [.create, .truncate] : [.create])
            case 5, 6: try fileSystem.writeBytes([UInt8](repeating: UInt8(size & 255), count: Int(size)), to: file)
            case 7: try fileSystem.truncate(.descriptor(file), to: size)
            case 8: try fileSystem.rename(path, to: other)
            case 9: try fileSystem.link(path, to: other)
            case 10: try fileSystem.createSymbolicLink(path, to: other)
            case 11: try fileSystem.unlink(path)
            case 12: try fileSystem.removeDirectory(path)
            case 13: try fileSystem.setPermissions(bits, of: .path(path))
            case 14: try fileSystem.synchronize(file, .full)
            default: try fileSystem.close(file)
            }
            result = "ok"
        } catch {
            result = error.errno.name
        }
        if kind == 15 { open.removeAll { $0 == file } }
        if let opened { open.append(opened) }
        if open.count > 30 {
            do { try fileSystem.close(open.removeFirst()) } catch _ {}
        }
        log.append("\(kind) \(path) \(other) \(file) \(size): \(result) \(opened?.description ?? "")")
    }
}
