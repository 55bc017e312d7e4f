import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

/// A record of the calls that affect durability.
private final class CallLog: Sendable {
    private let lines = Mutex<[String]>([])

    func add(_ line: String) { lines.withLock { $0.append(line) } }

    func take() -> [String] {
        lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}

@Suite("The root directory of a store")
struct StoreDirectoryTests {
    private let memory = InMemoryFileSystem()
    private let log = CallLog()

    private func open(_ path: POSIXPath = "/a/b/store") throws -> StoreDirectory {
        let intercepted = InterceptedFileSystem(memory) { [log] (call) throws(FileSystemError) in
            switch call.operation {
            case .synchronize, .createDirectory, .rename, .unlink: log.add("\(call.operation)")
            default: break
            }
        }
        return try StoreDirectory(path, on: intercepted)
    }

    private func save(_ text: String, _ key: String, in store: StoreDirectory) throws {
        try withBytes(of: Data(text.utf8)) { (bytes) throws(FileSystemError) in
            do {
                try store.replace(try RelativeKey(key), with: bytes)
            } catch let error as FileSystemError {
                throw error
            } catch {
                throw FileSystemError(.resolve, .invalidArgument, underlying: error)
            }
        }
    }

    /// The random part of names, from the first record in the store's root.
    private func recordedID() throws -> String {
        String(decoding: try memory.readFile("/a/b/store/#journal-0")[12..<28], as: UTF8.self)
    }

    private func hasErrno(_ errno: Errno) -> @Sendable (any Error) -> Bool {
        { ($0 as? FileSystemError)?.errno == errno }
    }

    @Test("opening creates the chain of directories and flushes the name of each, and the record of temporary names")
    func opening() throws {
        _ = try open()
        #expect(log.take().count { $0 == "synchronize" } == 5)
        #expect(try memory.status("/a/b/store").permissions == .ownerReadWriteExecute)
        #expect(try memory.status("/a/b/store/#journal-0").permissions == .ownerReadWrite)
        // Once more for each parent directory: its creator may not have flushed it.
        _ = try open()
        #expect(log.take() == ["createDirectory", "synchronize", "synchronize", "synchronize"])
    }

    @Test("the first save into a directory synchronises its name in any case; later saves do not")
    func settling() throws {
        let store = try open()
        try memory.createDirectory("/a/b/store/d")
        _ = log.take()
        try save("1", "d/x", in: store)
        // The parent of d; the content; the name.
        #expect(log.take().filter { $0 == "synchronize" }.count == 3)
        try save("2", "d/x", in: store)
        #expect(log.take().filter { $0 == "synchronize" }.count == 2)
        try save("1", "d/e/f/x", in: store)
        // The parents of e and f; the content; the name.
        #expect(log.take().filter { $0 == "synchronize" }.count == 4)
        try store.makeDirectory(try RelativeKey("d/e/g"))
        #expect(log.take().filter { $0 == "synchronize" }.count == 1)
        try store.removeTree(try RelativeKey("d"))
        try memory.createDirectory("/a/b/store/d")
        _ = log.take()
        try save("3", "d/x", in: store)
        #expect(log.take().filter { $0 == "synchronize" }.count == 3)
    }

    @Test("the names of at most eight directories are known to be durable, those that were used last")
    func settledDirectories() throws {
        let store = try open()
        let openCount = memory.openDescriptors.count
        func flushCount(_ key: String) throws -> Int {
            _ = log.take()
            try save("1", key, in: store)
            return log.take().count { $0 == "synchronize" }
        }
        for number in 0..<8 { #expect(try flushCount("\(number)/x") == 3) }
        #expect(try flushCount("0/x") == 2)
        #expect(try flushCount("8/x") == 3)
        // That of 1 was used least recently.
        for (name, count) in [("0", 2), ("2", 2), ("8", 2), ("1", 3)] {
            #expect(try flushCount("\(name)/x") == count, "\(name)")
        }
        // Another program replaces a directory, of which no descriptor stays open.
        try memory.removeTree("/a/b/store/1")
        try memory.createDirectory("/a/b/store/1")
        #expect(try flushCount("1/x") == 3)
        #expect(memory.openDescriptors.count == openCount + 8)
    }

    @Test("a save without a free descriptor closes those of durable names, and then throws")
    func noFreeDescriptor() throws {
        let isFull = Atomic(false)
        let full = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open, isFull.load(ordering: .relaxed) else { return }
            throw FileSystemError(.open, .tooManyOpenFiles)
        }
        let store = try StoreDirectory("/a/b/store", on: full)
        let openCount = memory.openDescriptors.count
        try save("1", "d/x", in: store)
        isFull.store(true, ordering: .relaxed)
        #expect(performing: { try save("2", "d/x", in: store) }, throws: hasErrno(.tooManyOpenFiles))
        #expect(memory.openDescriptors.count == openCount)
    }

    // MARK: What is flushed

    /// A store with the file `d/x`, which logs what it flushes by its inode number.
    private func openLoggingFlushes() throws -> StoreDirectory {
        let intercepted = InterceptedFileSystem(memory) { [memory, log] (call) throws(FileSystemError) in
            guard call.operation == .synchronize, let file = call.descriptor else { return }
            log.add("\(try memory.status(of: .descriptor(file)).inode)")
        }
        let store = try StoreDirectory("/a/b/store", on: intercepted)
        try save("1", "d/x", in: store)
        _ = log.take()
        return store
    }

    private func inode(_ path: POSIXPath) throws -> String { "\(try memory.status(path).inode)" }

    @Test("that a key is absent, or present, is durable when a call fails because of that")
    func durableReasons() throws {
        let store = try openLoggingFlushes()
        let (root, directory) = (try inode("/a/b/store"), try inode("/a/b/store/d"))
        let isMissing = hasErrno(.noSuchFileOrDirectory)
        for (name, flushed) in [("y", root), ("d/y", directory), ("d/e/f/y", directory), ("n/m/y", root)] {
            let key = try RelativeKey(name)
            #expect(performing: { try store.unlink(key) }, throws: isMissing)
            #expect(log.take() == [flushed], "\(name)")
            #expect(performing: { try store.removeTree(key) }, throws: isMissing)
            #expect(log.take() == [flushed], "\(name)")
            #expect(performing: { try store.unlink(key, durability: .none) }, throws: isMissing)
            #expect(log.take() == [])
        }
        let key = try RelativeKey("d/x")
        func create(_ durability: Durability) throws {
            try withBytes(of: Data("2".utf8)) { (bytes) throws(FileSystemError) in
                try store.replace(key, with: bytes, .exclusive, durability: durability)
            }
        }
        #expect(performing: { try create(.full) }, throws: hasErrno(.fileExists))
        #expect(log.take() == [directory])
        #expect(performing: { try create(.none) }, throws: hasErrno(.fileExists))
        #expect(log.take() == [])
        #expect(try store.read(key) == Array("1".utf8))
    }

    @Test("the new name of a file that is moved into the store is flushed before its private one; a failure is undone")
    func adopting() throws {
        let store = try openLoggingFlushes()
        let (root, directory) = (try inode("/a/b/store"), try inode("/a/b/store/d"))
        for (name, flushed) in [("d/x", [directory, root]), ("y", [root])] {
            try memory.write(Data(name.utf8), to: URL(filePath: "/a/b/store/#move-x"))
            try store.adopt(
                as: try RelativeKey(name), .replacing, durability: .full,
                claim: { (_) throws(FileSystemError) -> POSIXPath in "#move-x" },
                restore: { () throws(FileSystemError) in Issue.record("restored") })
            #expect(log.take() == flushed, "\(name)")
            #expect(try store.read(try RelativeKey(name)) == Array(name.utf8))
        }
        let lost = try RelativeKey("z")
        var restoredCount = 0
        var failure: FileSystemError?
        do throws(FileSystemError) {
            try store.adopt(
                as: lost, .replacing, durability: .full,
                claim: { (_) throws(FileSystemError) -> POSIXPath in "#move-none" },
                restore: { () throws(FileSystemError) in restoredCount += 1 })
        } catch {
            failure = error
        }
        #expect(failure?.errno == .noSuchFileOrDirectory && restoredCount == 1)
    }

    @Test("the removal of everything flushes the directories that stay, and holds none open")
    func removeAllBesideForeign() throws {
        let store = try openLoggingFlushes()
        let openCount = memory.openDescriptors.count
        try memory.write(Data(), to: URL(filePath: "/a/b/store/d/#notes#"))
        try store.removeAll()
        #expect(log.take() == [try inode("/a/b/store/d"), try inode("/a/b/store")])
        #expect(memory.openDescriptors.count == openCount - 1)
        try store.removeAll(durability: .none)
        #expect(log.take() == [])
        #expect(try store.list(nil, isRecursive: true).map(\.path) == ["d"])
    }

    @Test("the record of a name is flushed once, as long as it names the same directory")
    func flushedRecord() throws {
        let store = try open()
        for key in ["d/x", "e/x"] { try save("1", key, in: store) }
        try store.removeTree(try RelativeKey("d"))
        _ = log.take()
        try store.removeTree(try RelativeKey("e"))
        #expect(log.take() == ["rename", "synchronize", "unlink", "synchronize"])
    }

    @Test("a key is a file or a directory, never both")
    func exclusiveKinds() throws {
        let store = try open()
        try save("1", "foo/bar", in: store)
        #expect(performing: { try save("2", "foo", in: store) }, throws: hasErrno(.isDirectory))
        #expect(performing: { try save("2", "foo/bar/baz", in: store) }, throws: hasErrno(.notDirectory))
        #expect(performing: { try store.read(try RelativeKey("foo")) }, throws: hasErrno(.isDirectory))
        #expect(performing: { try store.unlink(try RelativeKey("foo")) }, throws: hasErrno(.isDirectory))
        #expect(performing: { try store.removeTree(try RelativeKey("foo/bar")) }, throws: hasErrno(.notDirectory))
        #expect(try store.read(try RelativeKey("foo/bar")) == Array("1".utf8))
    }

    @Test("on Darwin, unlinking a directory is the same error")
    func darwin() throws {
        let store = try StoreDirectory("/store", on: InMemoryFileSystem(options: .darwin))
        try store.makeDirectory(try RelativeKey("d"))
        #expect(performing: { try store.unlink(try RelativeKey("d")) }, throws: hasErrno(.isDirectory))
    }

    @Test("the next store opened after a store has ended removes only the files that it recorded")
    func sweeping() throws {
        var first: StoreDirectory? = try open()
        try save("1", "d/x", in: try #require(first))
        let id = try recordedID()
        let recorded = ["/a/b/store/d/#tmp-\(id)-0", "/a/b/store/d/#trash-\(id)-0"]
        let others = [
            "/a/b/store/#tmp-\(id)-0", "/a/b/store/d/#tmp-\(id)-1", "/a/b/store/d/#tmp-a", "/a/b/store/#tmp-",
        ]
        let staged = try #require(first).stage(try RelativeKey("d/y"), .none)
        for path in others { try memory.write(Data(), to: URL(filePath: path)) }
        try memory.createDirectory(POSIXPath(recorded[1]))
        try memory.write(Data(), to: URL(filePath: recorded[1] + "/x"))
        let second = try open()
        for path in recorded { #expect(memory.fileExists(atPath: path)) }
        staged.discard()
        first = nil
        try memory.write(Data(), to: URL(filePath: recorded[0]))
        _ = try StoreDirectory(existing: "/a/b/store", on: memory).list(nil, isRecursive: true)
        for path in recorded { #expect(memory.fileExists(atPath: path)) }
        let third = try open()
        for path in recorded { #expect(!memory.fileExists(atPath: path)) }
        for path in others { #expect(memory.fileExists(atPath: path)) }
        // The name is free again, and one that another program's file has taken is made free.
        for (key, path) in [("d/y", recorded[0]), ("y", others[0])] {
            try memory.write(Data("other".utf8), to: URL(filePath: others[0]))
            let file = try third.stage(try RelativeKey(key), .none)
            #expect(try memory.readFile(POSIXPath(path)) == [], "\(key)")
            file.discard()
        }
        withExtendedLifetime((first, second, third)) {}
    }

    @Test("trash with another program's file is kept")
    func foreignTrash() throws {
        var store: StoreDirectory? = try open()
        try save("1", "x", in: try #require(store))
        let trash = "/a/b/store/#trash-\(try recordedID())-0"
        try memory.createDirectory(POSIXPath(trash))
        try memory.write(Data(), to: URL(filePath: trash + "/x"))
        try memory.write(Data(), to: URL(filePath: trash + "/#notes#"))
        store = nil
        _ = try open()
        #expect(!memory.fileExists(atPath: trash + "/x"))
        #expect(memory.fileExists(atPath: trash + "/#notes#"))
    }

    @Test("a leftover that may not be removed does not prevent opening the store")
    func stubbornLeftovers() throws {
        var store: StoreDirectory? = try open()
        try save("1", "d/x", in: try #require(store))
        let path = "/a/b/store/d/#tmp-\(try recordedID())-0"
        try memory.write(Data(), to: URL(filePath: path))
        store = nil
        let stubborn = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .unlink else { return }
            throw FileSystemError(.unlink, .notPermitted)
        }
        _ = try StoreDirectory("/a/b/store", on: stubborn)
        #expect(memory.fileExists(atPath: path))
    }

    @Test("a leftover in a directory that may not be entered stays recorded, and is removed once it may be")
    func lockedLeftovers() throws {
        var store: StoreDirectory? = try open()
        try save("1", "d/x", in: try #require(store))
        let path = "/a/b/store/d/#tmp-\(try recordedID())-0"
        try memory.write(Data(), to: URL(filePath: path))
        store = nil
        let refusing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open, call.path == "d" else { return }
            throw FileSystemError(.open, .permissionDenied, path: "d")
        }
        store = try StoreDirectory("/a/b/store", on: refusing)
        try save("2", "e/y", in: try #require(store))
        store = nil
        #expect(memory.fileExists(atPath: path))
        _ = try open()
        #expect(!memory.fileExists(atPath: path))
    }

    @Test("a record that cannot be read closes its descriptors and reports the reason")
    func failedSweep() throws {
        _ = try open()
        let before = memory.openDescriptors
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .read { throw FileSystemError(.read, .ioError) }
        }
        #expect(performing: { try StoreDirectory("/a/b/store", on: failing) }, throws: hasErrno(.ioError))
        #expect(memory.openDescriptors == before)
    }

    @Test("files that are only named like a record are left unchanged")
    func foreignRecords() throws {
        try memory.makeDirectories("/a/b/store")
        try memory.write(Data("foreign".utf8), to: URL(filePath: "/a/b/store/#journal-0"))
        try memory.createDirectory("/a/b/store/#journal-1")
        try memory.createSymbolicLink("/a/b/store/#journal-2", to: "/nowhere")
        try memory.createNode(
            "/a/b/store/#journal-3", at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
        try memory.createNode(
            "/a/b/store/#journal-4", at: .workingDirectory, type: .socket, permissions: .ownerReadWrite,
            deviceNumber: 0)
        let store = try open()
        try save("1", "x", in: store)
        try store.makeDirectory(try RelativeKey("d"))
        try store.removeTree(try RelativeKey("d"))
        #expect(try memory.read(from: URL(filePath: "/a/b/store/#journal-0")) == Data("foreign".utf8))
        #expect(memory.fileExists(atPath: "/a/b/store/#journal-5"))
        #expect(!memory.fileExists(atPath: "/nowhere"))
    }

    @Test("the next object takes over the record of a closed one")
    func reusedRecords() throws {
        for _ in 0..<5 { try save("1", "x", in: try open()) }
        let names = try memory.contentsOfDirectory(at: URL(filePath: "/a/b/store")).map(\.lastPathComponent)
        #expect(Set(names) == ["#journal-0", "x"])
    }

    @Test("removeAll keeps the record and files that others are writing")
    func removeAll() throws {
        let store = try open()
        try save("1", "x", in: store)
        try save("1", "d/e/f", in: store)
        try memory.write(Data(), to: URL(filePath: "/a/b/store/#tmp-a"))
        try store.removeAll()
        let left = try memory.contentsOfDirectory(at: URL(filePath: "/a/b/store")).map(\.lastPathComponent)
        #expect(Set(left) == ["#journal-0", "#tmp-a"])
    }

    @Test("a deleted tree is removed by one rename before its entries are")
    func removeTreeOrder() throws {
        let store = try open()
        try save("1", "d/x", in: store)
        _ = log.take()
        try store.removeTree(try RelativeKey("d"))
        // The record of the trash's name comes first; the removal of the trash is flushed before the name is reused.
        #expect(log.take() == ["synchronize", "rename", "synchronize", "unlink", "synchronize"])
    }

    @Test("a listing contains links and never follows them")
    func listing() throws {
        let store = try open()
        try save("1", "d/x", in: store)
        try memory.createSymbolicLink("/a/b/store/d/link", to: "/a")
        let entries = try store.list(nil, isRecursive: true)
        #expect(Set(entries.map { String($0.path) }) == ["d", "d/x", "d/link"])
        #expect(entries.first { $0.path == "d/link" }?.type == .symbolicLink)
        #expect(try store.list(try RelativeKey("d"), isRecursive: false).count == 2)
    }

    @Test("a change that waited for the lock of its directory for the patience ends, and has changed nothing")
    func patience() throws {
        try save("old", "d/x", in: try open())
        let patience = Duration.milliseconds(50)
        let store = try StoreDirectory(existing: "/a/b/store", on: memory, turnPatience: patience)
        let key = try RelativeKey("d/x")
        let other = memory.process()
        let lock = try other.open("/a/b/store/d", .readOnly, options: [.directory], permissions: [])
        try other.lock(lock, .exclusive, waiting: false)
        for change in [{ try save("new", "d/x", in: store) }, { try store.unlink(key) }] as [() throws -> Void] {
            let start = ContinuousClock.now
            let error = #expect(throws: FileSystemError.self) { try change() }
            #expect(error?.isTakenTurn == true && error?.path == "/a/b/store/d")
            #expect(ContinuousClock.now - start >= patience)
            #expect(try store.read(key) == Array("old".utf8))
            #expect(try store.list(nil, isRecursive: true).map { "\($0.path)" } == ["d", "d/x"])
        }
        try other.close(lock)
        try save("new", "d/x", in: store)
        #expect(try store.read(key) == Array("new".utf8))
    }

    @Test("a write is done again if the directory was removed meanwhile, and only then")
    func removedMeanwhile() throws {
        let lazy = LazyStoreDirectory("/store", of: .files, on: memory)
        let missing = FileSystemError(.open, .noSuchFileOrDirectory)
        var callCount = 0
        try lazy.write { (_) throws(FileSystemError) -> Void in
            callCount += 1
            guard callCount == 1 else { return }
            try memory.removeTree("/store")
            throw missing
        }
        #expect(callCount == 2)
        var failure: FileSystemError?
        do throws(FileSystemError) {
            try lazy.write { (_) throws(FileSystemError) -> Void in
                callCount += 1
                throw missing
            }
        } catch {
            failure = error
        }
        #expect(failure?.errno == .noSuchFileOrDirectory && callCount == 3)
    }

    @Test("a directory that was removed is held open no more")
    func forgotten() throws {
        try memory.makeDirectories("/store")
        let lazy = LazyStoreDirectory("/store", of: .files, on: memory)
        #expect(try lazy.existing() != nil && memory.openDescriptors.count == 1)
        try memory.removeTree("/store")
        #expect(try lazy.existing() == nil && memory.openDescriptors.isEmpty)
    }

    @Test("a directory that was removed has no names to flush")
    func removedParents() throws {
        let store = try open()
        try save("x", "d/f", in: store)
        try memory.removeTree("/a/b/store/d")
        _ = log.take()
        try store.synchronizeParents(of: [try RelativeKey("d/f"), try RelativeKey("f")])
        #expect(log.take() == ["synchronize"])
    }

    @Test("an entry below the deepest key is listed, and nothing below it")
    func deepListing() throws {
        let store = try open()
        var path: POSIXPath = "/a/b/store"
        for _ in 0..<40 {
            path = path.appending("d")
            try memory.createDirectory(path)
        }
        #expect(try store.list(nil, isRecursive: true).count == RelativeKey.maximumDepth + 1)
    }

    @Test("an open file is checked, and closed at the end of its life")
    func openFile() throws {
        let store = try open()
        try save("123", "x", in: store)
        let before = memory.openDescriptors
        let size = try store.openFile(try RelativeKey("x")).currentStatus().sizeInBytes
        #expect(size == 3)
        #expect(memory.openDescriptors == before)
        try memory.link("/a/b/store/x", to: "/second")
        #expect(try store.read(try RelativeKey("x")) == Array("123".utf8))
        #expect(
            performing: { try store.read(try RelativeKey("y"), maximumSizeInBytes: 1) },
            throws: hasErrno(.noSuchFileOrDirectory))
    }
}
