import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// A cache of bytes on a file system in memory, with a clock and the reported errors.
final class CacheFixture: Sendable {
    static let directory = URL(filePath: "/caches/values", directoryHint: .isDirectory)

    let fileSystem: InMemoryFileSystem
    private let time = Mutex(Date(timeIntervalSince1970: 1_000_000))
    private let reported = Mutex<[CacheError]>([])
    private let change: @Sendable (inout CacheOptions) -> Void

    init(
        _ fileSystem: InMemoryFileSystem = EachPlatform.fileSystem(),
        _ change: @escaping @Sendable (inout CacheOptions) -> Void = { _ in }
    ) {
        self.fileSystem = fileSystem
        self.change = change
    }

    /// A new cache of the directory, with nothing in memory.
    func open() throws -> BoundedCache<Data> {
        var options = CacheOptions()
        options.now = { self.time.withLock { $0 } }
        options.onError = { error in self.reported.withLock { $0.append(error) } }
        change(&options)
        return try BoundedCache(directory: Self.directory, options: options, fileSystem: fileSystem)
    }

    var errors: [CacheError] { reported.withLock { $0 } }

    func advance(by seconds: TimeInterval) { time.withLock { $0 += seconds } }

    /// The names and sizes of the files in the directory, without the journal.
    func files() throws -> [String: Int] {
        let root = try POSIXPath(Self.directory)
        guard try fileSystem.exists(root) else { return [:] }
        var files: [String: Int] = [:]
        for entry in try fileSystem.withDirectory(
            root,
            { (directory) throws(FileSystemError) in
                try fileSystem.entries(of: directory)
            }) where !entry.name.isStoreMarker
        {
            files[String(entry.name)] = Int(
                try fileSystem.status(root.appending(entry.name), followsSymbolicLinks: false).sizeInBytes)
        }
        return files
    }

    func path(_ name: String) throws -> POSIXPath { try POSIXPath(Self.directory).appending(POSIXPath(name)) }
}

struct LoadFailure: Error {}

/// Lets a load wait until the test opens it.
actor Gate {
    private var isOpen = false
    private var waiters: [CheckedContinuation<Void, Never>] = []
    private var arrivals: [CheckedContinuation<Void, Never>] = []
    private var arrivedCount = 0

    func wait() async {
        arrivedCount += 1
        for arrival in arrivals { arrival.resume() }
        arrivals = []
        if !isOpen { await withCheckedContinuation { waiters.append($0) } }
    }

    func arrival() async {
        if arrivedCount == 0 { await withCheckedContinuation { arrivals.append($0) } }
    }

    func open() {
        isOpen = true
        for waiter in waiters { waiter.resume() }
        waiters = []
    }
}

final class Counter: Sendable {
    private let count = Mutex(0)

    var value: Int { count.withLock { $0 } }

    func increment() { count.withLock { $0 += 1 } }
}
