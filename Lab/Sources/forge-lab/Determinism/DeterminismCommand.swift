import ArgumentParser
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage

/// Runs a workload derived from a seed and prints a hash of all results.
struct DeterminismCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "determinism",
        abstract: "Run a workload in memory and print a hash of every result and of the tree it leaves.",
        discussion: "The same seed gives the same line in every process, or something depends on chance.")

    @Option(help: "The seed of the workload.") var seed: UInt64 = 0
    @Option(help: "The number of operations of each kind.") var operations = 2_000
    @Flag(help: "Also print every result.") var log = false

    func run() async throws {
        let outcome = try await DeterminismWorkload(seed: seed, count: operations).run()
        if log { for line in outcome.log { print(line) } }
        print("seed \(seed): log \(outcome.logHash.hexadecimal), tree \(outcome.treeHash.hexadecimal)")
    }
}

extension UInt64 {
    fileprivate var hexadecimal: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

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
