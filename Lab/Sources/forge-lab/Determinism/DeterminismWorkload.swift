import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage

/// Calls on an in-memory file system, and on stores on top of it, all derived from a seed.
struct DeterminismWorkload {
    /// The results of a run.
    struct Outcome {
        var log: [String]
        var logHash: UInt64
        var treeHash: UInt64
    }

    let seed: UInt64
    let count: Int

    func run() async throws -> Outcome {
        let fileSystem = InMemoryFileSystem(
            options: .init(
                quota: .init(sizeInBytes: 8 << 20, inodeCount: 600), listingOrder: .shuffled(seed: seed),
                user: UserID(1000), seed: seed))
        try fileSystem.process(user: UserID(0)).setPermissions(FilePermissions(rawValue: 0o777), of: .path("/"))
        var calls = RandomCalls(fileSystem, seed: seed)
        for _ in 0..<count { calls.callNext() }
        var log = calls.log
        try await log.append(contentsOf: useStores(on: fileSystem))
        let tree = try TreeListing(fileSystem).lines
        return Outcome(
            log: log, logHash: Fingerprint.of(log), treeHash: Fingerprint.of(tree))
    }

    /// Uses stores whose bytes depend only on their file system; a vault's nonces are random.
    private func useStores(on fileSystem: InMemoryFileSystem) async throws -> [String] {
        var log: [String] = []
        var random = SplitMix64(seed: ~seed)
        let memory = InMemoryFileSystem(options: .init(seed: seed))
        let recorded = FaultingFileSystem(memory)
        let settings = try FileKVStore(
            at: "/settings", fileSystem: recorded, options: .init(compactionFloorInBytes: 1000))
        let files = DiskFileStore(root: URL(filePath: "/files"), fileSystem: recorded)
        for number in 0..<count / 10 {
            let key = "key \(random.next() % 40)"
            switch random.next() % 6 {
            case 0: try settings.remove(KVKey<Int>(key))
            case 1: try await files.save(Data(repeating: UInt8(number & 255), count: number), to: "d\(number % 7)/f")
            case 2: log.append(try await files.list(recursive: true).map { "\($0.key) \($0.sizeInBytes)" }.joined())
            case 3: log.append(try settings.keys().sorted().joined(separator: ","))
            default: try settings.set(KVKey<[Int]>(key), value: Array(repeating: number, count: number % 50))
            }
        }
        try settings.compact()
        return log + recorded.log.text.split(separator: "\n").map(String.init) + (try TreeListing(memory).lines)
    }
}

/// A hash that is the same in every process (FNV-1a, 64 bits).
enum Fingerprint {
    static func of(_ lines: [String]) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for line in lines {
            for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
            hash = (hash ^ 0x0A) &* 0x100_0000_01B3
        }
        return hash
    }

    static func of(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

/// The content of a file system, one line per name, in listing order.
struct TreeListing {
    let lines: [String]

    init(_ fileSystem: InMemoryFileSystem) throws(FileSystemError) {
        let owner = fileSystem.process(user: UserID(0))
        var lines: [String] = []
        var pending: [POSIXPath] = ["/"]
        while let directory = pending.popLast() {
            let entries = try owner.withDirectory(directory) { (descriptor) throws(FileSystemError) in
                try owner.entries(of: descriptor)
            }
            for entry in entries {
                let path = directory.appending(entry.name)
                let status = try owner.status(path, followsSymbolicLinks: false)
                var line = "\(path) \(status)"
                switch entry.type {
                case .directory: pending.append(path)
                // The file contains the process identifier.
                case .regular where entry.name != "#lock":
                    // A file of many gigabytes is one hole.
                    let size = min(status.sizeInBytes, 1 << 20)
                    let file = try owner.open(path)
                    let bytes = try owner.closing(file) { () throws(FileSystemError) in
                        try owner.readBytes(of: file, at: 0, count: Int(size))
                    }
                    line += " \(Fingerprint.of(bytes))"
                case .symbolicLink: line += " -> \(try owner.readSymbolicLink(path))"
                default: break
                }
                lines.append(line)
            }
        }
        self.lines = lines
    }
}
