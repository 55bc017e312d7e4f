import ChildProcesses
import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeFileStore

@Suite("Watching a file store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct WatchingTests {
    @Test("another process's changes are reported", .onOwnThreads)
    func otherProcess() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.url("store").path
        let store = DiskFileStore(root: directory.url("store"))
        try await store.save(Data(), to: "old")
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        await #expect(processExitsWith: .success) { [path = path as String] in
            let store = DiskFileStore(root: URL(filePath: path))
            for number in 0..<100 { try await store.save(Data("\(number)".utf8), to: "d\(number % 3)/f\(number)") }
            try await store.delete("old")
            try await store.save(Data(), to: "last")
        }
        var found: Set<FileChange> = []
        while let change = try await changes.next(), change != .changed("last") { found.insert(change) }
        #expect(found == Set((0..<100).map { .changed("d\($0 % 3)/f\($0)") } + [.removed("old")]))
    }

    @Test("a thousand saves of one file are one change for a slow consumer", arguments: WatchedRoot.Kind.allCases)
    func slowConsumer(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        var watcher = try await FileWatcher(root.store)
        let found = try await watcher.changes {
            for number in 0..<1000 { try await root.store.save(Data("\(number)".utf8), to: "f") }
        }
        // The consumer waits for the marker, so that it may take the first change early.
        #expect(found == [.changed("f")])
    }

    /// Random changes by two stores, and a consumer that applies them at the same time.
    @Test(
        "a dictionary that follows the changes ends equal to the listing",
        arguments: TestDepth.pairs(WatchedRoot.Kind.allCases, TestDepth.seeds([1, 2, 3], random: 20)))
    func model(_ kind: WatchedRoot.Kind, _ seed: UInt64) async throws {
        let root = try WatchedRoot(kind)
        let stores = [root.store, root.other()]
        try await root.store.save(Data(), to: "first")
        let reader = root.other()
        let consumer = Task {
            var files: [String: FileRevision?] = [:]
            for try await change in reader.changes() {
                if change == .changed("last") { break }
                try await change.apply(to: &files, from: reader)
            }
            return files
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, store) in stores.enumerated() {
                group.addTask {
                    var random = SplitMix64(seed: seed + UInt64(index))
                    func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
                    for number in 0..<TestDepth.limit(200, deep: 2000) {
                        let directory = ["a", "b", "a/c", "a/c/d"][pick(4)]
                        do {
                            switch pick(10) {
                            case 0: try await store.deleteDirectory(directory)
                            case 1, 2: try await store.delete("\(directory)/\(pick(4))")
                            case 3 where pick(20) == 0: try await store.deleteAll()
                            default: try await store.save(Data("\(number)".utf8), to: "\(directory)/\(pick(4))")
                            }
                        } catch let error as FileStoreError
                            where error.code == .notFound || error.code == .foreignContent
                        {
                            // The other store removed the file, or is removing a directory inside this one.
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        // The changes of this key follow all others, unless a resync covers it.
        let finisher = Task {
            while !Task.isCancelled {
                try await root.store.save(Data(), to: "last")
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        var files = try await consumer.value
        finisher.cancel()
        _ = await finisher.result
        files["last"] = nil
        var present: [String: FileRevision?] = [:]
        for try await file in reader.files() where !file.isDirectory && file.key != "last" {
            present[file.key] = .some(file.revision)
        }
        #expect(files == present, "seed \(seed)")
    }

    @Test("a cancelled iteration, one that ends early, and one that fails leave no descriptor open", .onOwnThreads)
    func descriptors() async throws {
        // In a process of its own, where no other test opens files.
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            let store = DiskFileStore(root: directory.url("store"))
            for number in 0..<20 { try await store.save(Data(), to: "d\(number)/f") }
            var probe = store.changes().makeAsyncIterator()
            #expect(try await probe.next() == .resync)
            func openCount() throws -> Int {
                // The system's libraries open others, such as timers.
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { descriptor in
                    let target = try? FileManager.default.destinationOfSymbolicLink(
                        atPath: "/proc/self/fd/\(descriptor)")
                    return target?.contains("inotify") == true || target?.hasPrefix(directory.url.path) == true
                }
            }
            let count = try openCount()
            for _ in 0..<10 {
                let (started, signal) = AsyncStream<Void>.makeStream()
                let task = Task {
                    for try await _ in store.changes() { signal.yield() }
                    return try openCount()
                }
                for await _ in started { break }
                #expect(try openCount() > count)
                task.cancel()
                // When the iteration has ended, its descriptors are closed.
                #expect(try await task.value == count)
            }
            for try await _ in store.changes() { break }
            while try openCount() != count { try await Task.sleep(for: .milliseconds(1)) }
            let refusing = DiskFileStore(
                root: directory.url("store"),
                fileSystem: InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
                    if call.operation == .list { throw FileSystemError(.list, .ioError) }
                })
            await #expect(throws: FileStoreError.self) { for try await _ in refusing.changes() {} }
            withExtendedLifetime(probe) {}
            withExtendedLifetime(directory) {}
        }
    }

    @Test("a single file can be watched")
    func singleFile() async throws {
        let root = try WatchedRoot(.disk)
        try await root.store.save(Data("1".utf8), to: "a/configuration.json")
        var changes = root.store.changes(in: "a/configuration.json").makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        for key in ["a/configuration.json.old", "b", "a/configuration.json"] {
            try await root.store.save(Data("2".utf8), to: key)
        }
        #expect(try await changes.next() == .changed("a/configuration.json"))
        try await root.store.deleteDirectory("a")
        var last = try await changes.next()
        // An exchange of names may be reported twice.
        while last == .changed("a/configuration.json") { last = try await changes.next() }
        #expect(last == .removed("a/configuration.json"))
    }

    @Test("the limits of the system are an error that names them")
    func limits() async throws {
        var options = InMemoryFileSystem.Options()
        options.maximumWatchCount = 5
        let fileSystem = InMemoryFileSystem(options: options)
        let store = InMemoryFileStore(fileSystem: fileSystem)
        try await store.save(Data(), to: "a/f")
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        // The root, its parent and a; then b, c and one too many.
        for key in ["b/f", "c/f", "d/f"] { try await store.save(Data(), to: key) }
        let error = await #expect(throws: FileStoreError.self) { while try await changes.next() != nil {} }
        #expect(error?.code == .watchLimit)
        #expect(error?.operation == .watch)
        #expect((error?.underlying as? FileSystemError)?.errno == .noSpace)
        #expect(try await changes.next() == nil)
        for errno in [Errno.tooManyOpenFiles, .noSpace] {
            let limited = DiskFileStore(
                root: URL(filePath: "/store"),
                fileSystem: InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
                    if call.operation == .watch { throw FileSystemError(.watch, errno) }
                })
            await #expect(performing: { for try await _ in limited.changes() {} }, throws: hasCode(.watchLimit))
        }
    }

    @Test("a file system that cannot watch, or a root that cannot be opened, is an error")
    func unsupported() async throws {
        let store = DiskFileStore(
            root: URL(filePath: "/store"),
            fileSystem: InterceptedFileSystem(InMemoryFileSystem()) { (call) throws(FileSystemError) in
                if call.operation == .watch { throw FileSystemError(.watch, .notSupported) }
            })
        await #expect(performing: { for try await _ in store.changes() {} }, throws: hasCode(.unsupported))
        let memory = InMemoryFileSystem()
        try memory.write(Data(), to: URL(filePath: "/file"))
        let unusable = DiskFileStore(root: URL(filePath: "/file/store"), fileSystem: memory)
        await #expect(
            performing: { for try await _ in unusable.changes() {} }, throws: hasCode(.unavailable(.inputOutput)))
    }

    @Test("lost events become a resync, after which the files are still watched")
    func overflow() async throws {
        var options = InMemoryFileSystem.Options()
        options.maximumQueuedEventCount = 0
        let fileSystem = InMemoryFileSystem(options: options)
        let store = InMemoryFileStore(fileSystem: fileSystem)
        for key in ["d/f", "d/g"] { try await store.save(Data(), to: key) }
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        for _ in 0..<10 {
            try fileSystem.rename("/store/d/f", to: "/store/d/g", .exchanging)
            #expect(try await changes.next() == .resync)
        }
    }

    @Test("the queue of the system overflows into an event of its own", arguments: WatchedRoot.Kind.allCases)
    func systemOverflow(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        let queue = DispatchQueue(label: "overflow")
        let (events, continuation) = AsyncStream<[DirectoryEvent]>.makeStream()
        let watch = try root.fileSystem.makeDirectoryWatch(on: queue) {
            continuation.yield($0)
        } onCancel: {
            continuation.finish()
        }
        let directory = try root.fileSystem.open(root.base, options: [.directory])
        let number = try queue.sync { () throws(FileSystemError) in
            try watch.watch(directory, includesWrites: true)
        }
        #expect(
            try queue.sync { () throws(FileSystemError) in
                try watch.watch(directory, includesWrites: true)
            } == number)
        queue.suspend()
        try root.write("", to: "f")
        // Two events each; equal ones in succession are merged by the system.
        for _ in 0..<10_000 {
            try root.rename("f", to: "g")
            try root.rename("g", to: "f")
        }
        queue.resume()
        var isFirst = true
        for await batch in events {
            if isFirst { #expect(batch.first == .added("f", in: number)) }
            isFirst = false
            if batch.last == .lost { watch.cancel() }
        }
        try root.fileSystem.close(directory)
    }
}

/// What `kqueue(2)` reports of the changes that another watch reports: no names, and nothing of new names in a directory
/// that is watched for its existence.
private final class NamelessWatch: DirectoryWatching {
    private let base: any DirectoryWatching
    private let numbers = Mutex((existence: Set<Int>(), entries: Set<Int>()))

    var counts: (existence: Int, entries: Int) { numbers.withLock { ($0.existence.count, $0.entries.count) } }

    /// Called once, before a directory of the store is watched.
    private let beforeRoot: Mutex<(@Sendable () -> Void)?>

    init(_ base: any DirectoryWatching, beforeRoot: @escaping @Sendable () -> Void) {
        self.base = base
        self.beforeRoot = Mutex(beforeRoot)
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws(FileSystemError) -> Int {
        if includesWrites { beforeRoot.withLock { $0.take() }?() }
        let number = try base.watch(directory, includesWrites: includesWrites)
        numbers.withLock { numbers in
            numbers.existence.remove(number)
            numbers.entries.insert(number)
        }
        return number
    }

    func watchExistence(of directory: Descriptor) throws(FileSystemError) -> Int {
        let number = try base.watch(directory, includesWrites: false)
        numbers.withLock { if !$0.entries.contains(number) { $0.existence.insert(number) } }
        return number
    }

    func unwatch(_ number: Int) {
        numbers.withLock { numbers in
            numbers.existence.remove(number)
            numbers.entries.remove(number)
        }
        base.unwatch(number)
    }

    func cancel() { base.cancel() }

    func events(_ events: [DirectoryEvent]) -> [DirectoryEvent] {
        numbers.withLock { numbers in
            events.contains { event in
                switch event {
                case .lost: true
                case .written: false
                case .added(_, let number): numbers.entries.contains(number)
                // Of a directory that is watched for its existence, this is the end of the one below it.
                case .removed(_, let number): numbers.entries.contains(number) || numbers.existence.contains(number)
                }
            } ? [.lost] : []
        }
    }
}

@Suite("Directories above a root, on a system that reports no names")
struct AncestorWatchTests {
    /// The changes that a tree reports, one batch for each change of the file system.
    private func changes(
        of root: POSIXPath, in fileSystem: InMemoryFileSystem,
        _ steps: [() throws -> Void], counts: (existence: Int, entries: Int),
        beforeRoot: @escaping @Sendable () -> Void = {}
    ) throws -> [[FileChange]] {
        let queue = DispatchQueue(label: "changes")
        let events = Mutex<[DirectoryEvent]>([])
        let watch = NamelessWatch(
            try fileSystem.makeDirectoryWatch(on: queue) { batch in
                events.withLock { $0 += batch }
            } onCancel: {
            },
            beforeRoot: {
                beforeRoot()
                // `kqueue(2)` reports nothing of a directory that is not watched yet.
                queue.sync {}
                events.withLock { $0 = [] }
            })
        var reported: [FileChange] = []
        let tree = WatchedTree(LazyStoreDirectory(root, of: .files, on: fileSystem), watch, nil) {
            false
        } report: {
            reported.append($0)
        }
        try tree.restart()
        #expect(watch.counts == counts)
        reported = []
        return try steps.map { step in
            try step()
            // Events are delivered on the queue.
            queue.sync {}
            try tree.handle(
                watch.events(
                    events.withLock { batch in
                        defer { batch = [] }
                        return batch
                    }))
            defer { reported = [] }
            return reported
        }
    }

    @Test("a new name above a root that exists is no change, and the replacement of the root is one")
    func existing() throws {
        let fileSystem = InMemoryFileSystem()
        for path in ["/a", "/a/b", "/a/b/root"] as [POSIXPath] { try fileSystem.createDirectory(path) }
        let found = try changes(
            of: "/a/b/root", in: fileSystem,
            [
                { try fileSystem.createDirectory("/new") }, { try fileSystem.createDirectory("/a/b/new") },
                { try fileSystem.createDirectory("/a/b/root/new") },
                { try fileSystem.rename("/a/b", to: "/a/c") }, { try fileSystem.createDirectory("/a/b") },
            ], counts: (3, 1))
        #expect(found == [[], [], [.resync], [.resync], [.resync]])
    }

    @Test("the appearance of a missing root is a change")
    func missing() throws {
        let fileSystem = InMemoryFileSystem()
        try fileSystem.createDirectory("/a")
        let found = try changes(
            of: "/a/b/root", in: fileSystem,
            [{ try fileSystem.createDirectory("/a/b") }, { try fileSystem.createDirectory("/a/b/root") }],
            counts: (0, 2))
        #expect(found == [[.resync], [.resync]])
    }

    @Test("a root that is replaced between its opening and its watch is found")
    func replacedMeanwhile() throws {
        let fileSystem = InMemoryFileSystem()
        for path in ["/a", "/a/root"] as [POSIXPath] { try fileSystem.createDirectory(path) }
        let found = try changes(
            of: "/a/root", in: fileSystem, [{ try fileSystem.createDirectory("/a/root/new") }], counts: (0, 3)
        ) {
            do {
                try fileSystem.rename("/a/root", to: "/a/old")
                try fileSystem.createDirectory("/a/root")
            } catch {
                Issue.record(error)
            }
        }
        #expect(found == [[.resync]])
    }

    @Test("a link above the root is watched by the entries of its directory")
    func link() throws {
        let fileSystem = InMemoryFileSystem()
        for path in ["/a", "/a/root", "/c", "/c/root"] as [POSIXPath] { try fileSystem.createDirectory(path) }
        try fileSystem.createSymbolicLink("/b", to: "/a")
        let found = try changes(
            of: "/b/root", in: fileSystem,
            [
                {
                    try fileSystem.createSymbolicLink("/d", to: "/c")
                    try fileSystem.rename("/d", to: "/b")
                }
            ], counts: (1, 2))
        #expect(found == [[.resync]])
    }
}
