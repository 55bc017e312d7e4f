import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

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
