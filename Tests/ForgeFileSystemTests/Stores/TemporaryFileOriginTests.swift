import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The origin of a temporary file")
struct TemporaryFileOriginTests {
    private let memory = InMemoryFileSystem()
    private let root: POSIXPath = "/store"

    private func id() throws -> String {
        String(decoding: try memory.readFile("/store/#journal-0")[12..<28], as: UTF8.self)
    }

    private func origin(
        _ path: String, on fileSystem: (any POSIXFileSystem)? = nil
    ) throws -> TemporaryFileOrigin? {
        try TemporaryFileOrigin.find(POSIXPath(path), below: root, on: fileSystem ?? memory)
    }

    private func save(_ key: String, in store: StoreDirectory) throws {
        let key = try RelativeKey(key)
        try withBytes(of: Data("x".utf8)) { (bytes) throws(FileSystemError) in try store.replace(key, with: bytes) }
    }

    @Test("depends on the record of its directory and on whether the owner of the record uses it")
    func origins() throws {
        var store: StoreDirectory? = try StoreDirectory(root, on: memory)
        try save("d/a", in: try #require(store))
        let id = try id()
        var staged: StagedFile? = try #require(store).stage(try RelativeKey("d/b"), .none)
        for prefix in ["#tmp-", "#trash-"] {
            #expect(try origin("/store/d/\(prefix)\(id)-0") == .inUse)
            #expect(try origin("/store/\(prefix)\(id)-0") == .unrecorded)
            #expect(try origin("/store/d/\(prefix)\(id)-1") == .unrecorded)
        }
        staged?.discard()
        staged = nil
        store = nil
        #expect(try origin("/store/d/#tmp-\(id)-0") == .orphaned)
        #expect(try origin("/store/d/#trash-\(id)-0") == .orphaned)
        for name in [
            "a", "#tmp-", "#tmp-\(id)", "#tmp-\(id)-", "#tmp-\(id)-00", "#tmp-\(id)-x", "#tmp-\(id)--1",
            "#tmp-\(id)-99999999999999999999", "#tmp-abcdefghijklmnop-0",
        ] {
            #expect(try origin("/store/d/\(name)") == nil, "\(name)")
        }
        #expect(try origin("/store/#tmp-\(id)-\(Int.max)") == .unrecorded)
    }

    @Test("is known although the record of another directory could not be written before")
    func tornRecord() throws {
        let isTorn = Atomic(false)
        let tearing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .write, let file = call.descriptor, isTorn.load(ordering: .relaxed) else { return }
            // The checksum of the first record
            try memory.writeBytes([0, 0, 0, 0], to: file, at: 512)
            throw FileSystemError(.write, .ioError)
        }
        let store = try StoreDirectory(root, on: tearing)
        try save("d/a", in: store)
        isTorn.store(true, ordering: .relaxed)
        expectErrno(.ioError) { try save("e/a", in: store) }
        isTorn.store(false, ordering: .relaxed)
        let staged = try store.stage(try RelativeKey("d/b"), .none)
        #expect(try origin("/store/d/#tmp-\(try id())-0") == .inUse)
        withExtendedLifetime(staged) {}
    }

    @Test("is not known if the records cannot be read")
    func unreadableRecords() throws {
        do { try save("a", in: try StoreDirectory(root, on: memory)) }
        let path = "/store/#tmp-\(try id())-0"
        let plan = FaultPlan([.fail(.open, matching: "**/#journal-0", with: .ioError)])
        expectErrno(.ioError) { _ = try origin(path, on: FaultingFileSystem(memory, plan: plan)) }
    }

    @Test("is found without any change, and leaves no record locked")
    func changesNothing() throws {
        do { try save("a", in: try StoreDirectory(root, on: memory)) }
        let path = "/store/#tmp-\(try id())-0"
        let watched = FaultingFileSystem(memory)
        #expect(try origin(path, on: watched) == .orphaned)
        let allowed: Set<FileSystemOperation> = [.open, .close, .read, .status, .lock]
        #expect(Set(watched.log.records.map(\.operation)).isSubset(of: allowed))
        _ = try StoreDirectory(root, on: memory)
        #expect(!memory.fileExists(atPath: "/store/#journal-1"))
    }
}

@Suite("A journal without an owner")
struct OwnerlessJournalTests {
    private let memory = InMemoryFileSystem()
    private let root: POSIXPath = "/store"

    init() throws {
        try memory.createDirectory(root)
    }

    private func plant(_ name: POSIXPath, in directory: POSIXPath) throws -> POSIXPath {
        let path = directory.appending(name)
        try memory.write(Data("x".utf8), to: URL(path))
        return path
    }

    private func save(_ key: String, in store: StoreDirectory) throws {
        let key = try RelativeKey(key)
        try withBytes(of: Data("x".utf8)) { (bytes) throws(FileSystemError) in try store.replace(key, with: bytes) }
    }

    private func isThere(_ path: POSIXPath) -> Bool { memory.fileExists(atPath: String(path)) }

    @Test(
        "does not prevent writes by a path that is not a valid key",
        arguments: [
            "a\0b", POSIXPath([UInt8](repeating: 0x61, count: 256)), POSIXPath([0xff]), "..", "/", "d/", "d/../d",
            "d//e", POSIXPath([UInt8](repeating: 0x2f, count: 1500)), "link", "file", "missing",
        ])
    func unusualPath(_ recorded: POSIXPath) throws {
        try memory.makeDirectories("/store/d")
        try memory.createSymbolicLink("/store/link", to: "/store/d")
        _ = try plant("file", in: root)
        let journal = OwnerlessJournal([recorded, "d"])
        let leftovers = [
            try plant(journal.name("#tmp-", slot: 0), in: "/store/d"),
            try plant(journal.name("#tmp-", slot: 0), in: "/"),
        ]
        let own = try plant(journal.name("#tmp-", slot: 1), in: "/store/d")
        try journal.write(in: root, on: memory)
        let store = try StoreDirectory(root, on: memory)
        for key in ["a", "d/b"] { try save(key, in: store) }
        for path in leftovers { #expect(isThere(path)) }
        #expect(!isThere(own))
    }

    @Test(
        "does not prevent writes by a path that the file system refuses",
        arguments: [Errno.invalidArgument, .fileNameTooLong, .notPermitted])
    func refusedPath(_ errno: Errno) throws {
        try OwnerlessJournal(["strange"]).write(in: root, on: memory)
        let refusing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open, call.path == "strange" { throw FileSystemError(.open, errno) }
        }
        _ = try StoreDirectory(root, on: refusing)
    }

    @Test("does not reach into other stores", arguments: ["#lock", "#lock-vaults", "#journal-0", "#journal-9"])
    func otherStores(_ marker: POSIXPath) throws {
        try memory.makeDirectories("/store/a/b/c")
        _ = try plant(marker, in: "/store/a/b")
        let journal = OwnerlessJournal(["a", "a/b", "a/b/c"])
        let own = try plant(journal.name("#tmp-", slot: 0), in: "/store/a")
        var kept: [POSIXPath] = []
        for (slot, directory) in [(1, "/store/a/b"), (2, "/store/a/b/c")] as [(Int, POSIXPath)] {
            kept.append(try plant(journal.name("#tmp-", slot: slot), in: directory))
            let trash = directory.appending(journal.name("#trash-", slot: slot))
            try memory.createDirectory(trash)
            kept.append(try plant("inside", in: trash))
        }
        try journal.write(in: root, on: memory)
        let origins = try kept.map { try TemporaryFileOrigin.find($0, below: root, on: memory) }
        #expect(origins.allSatisfy { $0 == nil })
        _ = try StoreDirectory(root, on: memory)
        for path in kept { #expect(isThere(path), "\(path)") }
        #expect(!isThere(own))
    }

    @Test("does not remove a file with another hard link, unless that is the file's future key")
    func secondName() throws {
        try memory.makeDirectories("/store/d")
        let journal = OwnerlessJournal(["d", "d", "d"])
        let names = try (0..<3).map { try plant(journal.name("#tmp-", slot: $0), in: "/store/d") }
        try memory.link(names[0], to: "/elsewhere")
        try memory.link(names[1], to: "/store/d/#no key#")
        // The exclusive creation of a file system without an exclusive rename was interrupted.
        try memory.link(names[2], to: "/store/d/key")
        try journal.write(in: root, on: memory)
        let store = try StoreDirectory(root, on: memory)
        #expect(names.map(isThere) == [true, true, false])
        #expect(try memory.status("/store/d/key").linkCount == 1)
        try save("d/other", in: store)
        #expect(names.map(isThere) == [true, true, false])
    }

    @Test(
        "has its trash removed after the directory was flushed, as far as the file system can do that",
        arguments: [nil, .invalidArgument, .noFunction, .notSupported] as [Errno?])
    func flushedTrash(_ errno: Errno?) throws {
        let journal = OwnerlessJournal([""])
        let trash = root.appending(journal.name("#trash-", slot: 0))
        try memory.createDirectory(trash)
        _ = try plant("inside", in: trash)
        try journal.write(in: root, on: memory)
        let flushCount = Mutex(0)
        let countAtRemoval = Mutex(0)
        let watched = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            switch call.operation {
            // The record is locked just before.
            case .lock: flushCount.withLock { $0 = 0 }
            case .synchronize:
                flushCount.withLock { $0 += 1 }
                if let errno { throw FileSystemError(.synchronize, errno) }
            case .unlink:
                let count = flushCount.withLock { $0 }
                countAtRemoval.withLock { $0 = count }
            default: break
            }
        }
        _ = try StoreDirectory(root, on: watched)
        #expect(!isThere(trash))
        #expect(countAtRemoval.withLock { $0 } == 1)
    }

    @Test("is cleaned with all others by one object, which keeps one of them")
    func several() throws {
        let journals = ["abcdefghijklmnop", "bbcdefghijklmnop"].map { OwnerlessJournal([""], id: $0) }
        let leftovers = try journals.map { try plant($0.name("#tmp-", slot: 0), in: root) }
        for journal in journals { try journal.write(in: root, on: memory) }
        let before = memory.openDescriptors.count
        let first = try StoreDirectory(root, on: memory)
        #expect(leftovers.map(isThere) == [false, false])
        // The root and its record.
        #expect(memory.openDescriptors.count == before + 2)
        let staged = try first.stage(try RelativeKey("a"), .none)
        try save("b", in: try StoreDirectory(root, on: memory))
        #expect(!isThere("/store/#journal-2"))
        withExtendedLifetime(staged) {}
    }

    @Test("keeps a directory with the name of a temporary file, and a file with that of trash")
    func otherTypes() throws {
        let journal = OwnerlessJournal(["", ""])
        let directory = root.appending(journal.name("#tmp-", slot: 0))
        try memory.createDirectory(directory)
        let file = try plant(journal.name("#trash-", slot: 1), in: root)
        try journal.write(in: root, on: memory)
        let store = try StoreDirectory(root, on: memory)
        for key in ["a", "d/b"] { try save(key, in: store) }
        try store.removeTree(try RelativeKey("d"))
        #expect(isThere(directory) && isThere(file))
        for path in [directory, file] {
            #expect(try TemporaryFileOrigin.find(path, below: root, on: memory) == .orphaned)
        }
    }

    @Test("of another user, which cannot be opened, is left to its owner")
    func othersRecord() throws {
        _ = try StoreDirectory("/store", on: memory)
        try memory.setPermissions(FilePermissions(rawValue: 0o777), of: .path("/store"))
        let record = try memory.readFile("/store/#journal-0")
        let user = memory.process(user: UserID(7), group: GroupID(7))
        let store = try StoreDirectory("/store", on: user)
        try save("x", in: store)
        #expect(try memory.status("/store/#journal-1").owner == UserID(7))
        #expect(try memory.readFile("/store/#journal-0") == record)
        let temporary = POSIXPath("/store/#tmp-\(String(decoding: record[12..<28], as: UTF8.self))-0")
        #expect(try TemporaryFileOrigin.find(temporary, below: "/store", on: user) == nil)
    }

    @Test("keeps what is mounted at the name of trash, or in trash, and removes the files beside it")
    func mountedTrash() throws {
        let journal = OwnerlessJournal(["", ""])
        let trash = (0..<2).map { root.appending(journal.name("#trash-", slot: $0)) }
        let places = [trash[0], trash[1].appending("below")]
        for place in places {
            try memory.makeDirectories(place)
            try memory.mount(at: place)
            _ = try plant("x", in: place)
        }
        let own = try plant("own", in: trash[1])
        try journal.write(in: root, on: memory)
        try save("a", in: try StoreDirectory(root, on: memory))
        #expect(places.map { isThere($0.appending("x")) } == [true, true])
        #expect(!isThere(own))
    }

    @Test("keeps recording files that may not be removed and trash with another program's file")
    func keptNames() throws {
        try memory.makeDirectories("/store/d")
        let journal = OwnerlessJournal(["", "d"])
        let trash = root.appending(journal.name("#trash-", slot: 0))
        try memory.createDirectory(trash)
        let foreign = try plant("#notes#", in: trash)
        let stubborn = try plant(journal.name("#tmp-", slot: 1), in: "/store/d")
        try journal.write(in: root, on: memory)
        let refusing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .unlink, call.path == stubborn.splitLast().name {
                throw FileSystemError(.unlink, .notPermitted)
            }
        }
        let store = try StoreDirectory(root, on: refusing)
        try save("d/a", in: store)
        try store.makeDirectory(try RelativeKey("e"))
        try store.removeTree(try RelativeKey("e"))
        #expect(isThere(foreign))
        #expect(isThere(stubborn))
    }
}

/// A process that the system suspends while it holds a lock in a container of several apps is ended on iOS.
@Suite("The locks of a store directory")
struct IdleLockTests {
    @Test("are held by no object between its calls, on any file of the root")
    func idle() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let root = directory.path.appending("store")
        let fileSystem = SystemFileSystem()
        let store = try StoreDirectory(root, on: fileSystem)
        try save("f", in: store)
        try save("d/f", in: store)
        try store.unlink(try RelativeKey("f"))
        try store.removeTree(try RelativeKey("d"))

        var held: Set<POSIXPath> = []
        let entries = try fileSystem.withDirectory(root) { (root) throws(FileSystemError) in
            try fileSystem.entries(of: root)
        }
        #expect(!entries.isEmpty)
        for path in [root] + entries.map({ root.appending($0.name) }) where try isLocked(path) { held.insert(path) }
        #expect(held == [])
        withExtendedLifetime(store) {}
    }

    @Test("keep the temporary file of a writer from the cleaning of other objects, also after others used its record")
    func staged() throws {
        let memory = InMemoryFileSystem()
        let first = try StoreDirectory("/store", on: memory)
        try save("d/a", in: first)
        let second = try StoreDirectory("/store", on: memory)
        try save("e/a", in: second)

        let staged = try first.stage(try RelativeKey("d/b"), .none)
        try save("d/c", in: second)
        _ = try StoreDirectory("/store", on: memory)
        try staged.withFile { (file) throws(FileSystemError) in try memory.writeBytes([1, 2], to: file, at: 0) }
        try staged.finish(.none)
        try first.place(staged, .replacing, durability: .none)
        #expect(try first.read(try RelativeKey("d/b")) == [1, 2])
        #expect(
            try Set(first.list(nil, isRecursive: true).map { "\($0.path)" }) == [
                "d", "d/a", "d/b", "d/c", "e", "e/a",
            ])
    }

    @Test("that a process has left with its end let the next object remove its files")
    func ended() throws {
        let memory = InMemoryFileSystem()
        let idle = try StoreDirectory("/store", on: memory)
        try save("d/a", in: idle)
        let killed = memory.process(user: UserID(0), group: GroupID(0))
        let lost = try StoreDirectory("/store", on: killed).stage(try RelativeKey("e/b"), .none)
        #expect(try leftovers(of: memory).count == 1)
        killed.endProcess()
        // The object takes its record back, and removes what its owner in between has left.
        try save("d/c", in: idle)
        #expect(try leftovers(of: memory) == [])
        _ = try StoreDirectory("/store", on: memory)
        #expect(!memory.fileExists(atPath: "/store/#journal-1"))
        withExtendedLifetime(lost) {}
    }

    @Test(
        "that a file system does not have prevent no change, and any other error of a lock is thrown",
        arguments: [
            (.invalidArgument, true), (.noFunction, true), (.notSupported, true), (.noLocks, true),
            (.badFileDescriptor, true), (.ioError, false), (.permissionDenied, false),
        ] as [(Errno, Bool)])
    func withoutLocks(_ errno: Errno, _ isMade: Bool) throws {
        let memory = InMemoryFileSystem()
        let unlocked = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .lock, let file = call.descriptor,
                try memory.status(of: .descriptor(file)).type == .directory
            else { return }
            throw FileSystemError(.lock, errno)
        }
        let store = try StoreDirectory("/store", on: unlocked)
        for (key, path) in [("x", "/store"), ("d/x", "/store/d")] as [(String, POSIXPath)] {
            if isMade {
                try save(key, in: store)
                #expect(try store.read(try RelativeKey(key)) == Array("x".utf8))
            } else {
                let error = #expect(throws: FileSystemError.self) { try save(key, in: store) }
                #expect(error?.errno == errno && error?.path == path && error?.isTakenTurn == false)
            }
        }
    }

    @Test("let no further object write while those of all 4,096 records are taken")
    func allInUse() throws {
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/store")
        // A directory with the name of a record is no other object's record, and is not replaced.
        for number in 0..<4096 { try memory.createDirectory(POSIXPath("/store/#journal-\(number)")) }
        let error = #expect(throws: FileSystemError.self) { try StoreDirectory("/store", on: memory) }
        #expect(error?.operation == .lock && error?.errno == .resourceTemporarilyUnavailable)
        #expect(memory.openDescriptors.isEmpty)
        try memory.removeDirectory("/store/#journal-4095")
        try save("x", in: try StoreDirectory("/store", on: memory))
        #expect(try memory.readFile("/store/x") == Array("x".utf8))
    }

    private func leftovers(of fileSystem: InMemoryFileSystem) throws -> [POSIXPath] {
        try ["/store", "/store/d", "/store/e"].flatMap { (path: POSIXPath) in
            try fileSystem.withDirectory(path) { (directory) throws(FileSystemError) in
                try fileSystem.entries(of: directory).map(\.name).filter(\.isLeftover)
            }
        }
    }

    private func save(_ key: String, in store: StoreDirectory) throws {
        let key = try RelativeKey(key)
        try withBytes(of: Data("x".utf8)) { (bytes) throws(FileSystemError) in try store.replace(key, with: bytes) }
    }

    private func isLocked(_ path: POSIXPath) throws -> Bool {
        let fileSystem = SystemFileSystem()
        let file = try fileSystem.open(path)
        defer { fileSystem.discard(file) }
        do throws(FileSystemError) {
            try fileSystem.lock(file, .exclusive, waiting: false)
            return false
        } catch {
            return true
        }
    }
}
