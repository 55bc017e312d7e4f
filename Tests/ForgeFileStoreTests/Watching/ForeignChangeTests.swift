import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@testable import ForgeFileStore

@Suite("Changes by other programs", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct ForeignChangeTests {
    @Test("a write in place is reported when the file is closed", arguments: WatchedRoot.Kind.allCases)
    func inPlace(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try await root.store.save(Data("old".utf8), to: "f")
        var watcher = try await FileWatcher(root.store)
        let file = try root.fileSystem.open(root.path("store/f"), .writeOnly)
        #expect(try await watcher.changes { try root.write("new", to: file) } == [])
        #expect(try await watcher.changes { try root.fileSystem.close(file) } == [.changed("f")])
        let reading = try root.fileSystem.open(root.path("store/f"))
        #expect(try await watcher.changes { try root.fileSystem.close(reading) } == [])
    }

    @Test("canonically equal names are told apart", arguments: WatchedRoot.Kind.allCases)
    func canonicallyEqualNames(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        var watcher = try await FileWatcher(root.store)
        let names = ["\u{E9}", "e\u{301}"]
        let changes = try await watcher.changes { for name in names { try root.write(name, to: "store/\(name)") } }
        var keys: Set<[UInt8]> = []
        for change in changes { if case .changed(let key) = change { keys.insert(Array(key.utf8)) } }
        #expect(keys == Set(names.map { Array($0.utf8) }), "\(changes)")
        #expect(FileChange.changed(names[0]) != .changed(names[1]))
        #expect(Set(names.map { StoredFile(key: $0, sizeInBytes: 1, modified: .distantPast) }).count == 2)
        #expect(Set(names.map { FileChange.removed($0) }).count == 2)
    }

    @Test("renames, exchanges and links are reported under both keys", arguments: WatchedRoot.Kind.allCases)
    func names(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        for key in ["a", "b", "c"] { try await root.store.save(Data(key.utf8), to: key) }
        var watcher = try await FileWatcher(root.store)
        let renamed = try await watcher.changes { try root.rename("store/a", to: "store/x") }
        #expect(Set(renamed) == [.removed("a"), .changed("x")])
        let exchanged = try await watcher.changes { try root.rename("store/b", to: "store/c", .exchanging) }
        #expect(Set(exchanged) == [.changed("b"), .changed("c")])
        let linked = try await watcher.changes {
            try root.fileSystem.link(root.path("store/b"), to: root.path("store/l"))
        }
        #expect(linked == [.changed("l")])
        try root.write("outside", to: "outside")
        #expect(try await watcher.changes { try root.rename("outside", to: "store/x") } == [.changed("x")])
        #expect(try await watcher.changes { try root.rename("store/x", to: "outside") } == [.removed("x")])
    }

    @Test("the replacement of a directory behind a link on the path of the root", arguments: WatchedRoot.Kind.allCases)
    func linkedAncestor(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try root.makeDirectory("target")
        try root.makeDirectory("target/real")
        try root.fileSystem.createSymbolicLink(root.path("middle"), to: "target/../target/real")
        try root.fileSystem.createSymbolicLink(root.path("link"), to: root.path("middle"))
        let store = DiskFileStore(
            root: URL(root.path("link/store")), fileSystem: root.fileSystem, options: .init(durability: .none))
        var watcher = try await FileWatcher(store)
        try root.makeDirectory("new")
        try root.makeDirectory("new/store")
        try root.write("x", to: "new/store/f")
        // The store is never missing at its path.
        #expect(try await watcher.changes { try root.rename("new", to: "target/real", .exchanging) } == [.resync])
        #expect(try await watcher.changes { try root.write("y", to: "target/real/store/f") } == [.changed("f")])
    }

    @Test("a tree that is renamed is reported under its new keys, and watched there")
    func trees() async throws {
        for kind in WatchedRoot.Kind.allCases {
            let root = try WatchedRoot(kind)
            var watcher = try await FileWatcher(root.store)
            try root.makeDirectory("tree")
            try root.makeDirectory("tree/sub")
            for name in ["tree/f", "tree/sub/g"] { try root.write("x", to: name) }
            let arrived = try await watcher.changes { try root.rename("tree", to: "store/d") }
            #expect(Set(arrived) == [.changed("d/f"), .changed("d/sub/g")])
            let moved = try await watcher.changes { try root.rename("store/d", to: "store/e") }
            #expect(moved.first == .removed("d"))
            #expect(Set(moved.dropFirst()) == [.changed("e/f"), .changed("e/sub/g")])
            #expect(try await watcher.changes { try root.write("y", to: "store/e/sub/g") } == [.changed("e/sub/g")])
            #expect(try await watcher.changes { try root.rename("store/e", to: "gone") } == [.removed("e")])
            #expect(try await watcher.changes { try root.write("z", to: "gone/sub/g") } == [])
            // A directory whose files are exchanged for another's.
            try root.rename("gone", to: "store/p")
            try await root.store.save(Data(), to: "q/h")
            _ = try await watcher.changes {}
            let exchanged = try await watcher.changes { try root.rename("store/p", to: "store/q", .exchanging) }
            #expect(Set(exchanged).isSuperset(of: [.changed("p/h"), .changed("q/f"), .changed("q/sub/g")]))
            #expect(exchanged.contains(.removed("p")) && exchanged.contains(.removed("q")))
        }
    }

    @Test("links are not followed, and one that replaces a file is its removal", arguments: WatchedRoot.Kind.allCases)
    func links(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try await root.store.save(Data(), to: "f")
        try root.makeDirectory("outside")
        try root.write("x", to: "outside/g")
        var watcher = try await FileWatcher(root.store)
        let linked = try await watcher.changes {
            try root.fileSystem.createSymbolicLink(root.path("store/link"), to: root.path("outside"))
            try root.fileSystem.createSymbolicLink(root.path("temporary"), to: root.path("outside/g"))
            try root.rename("temporary", to: "store/f")
        }
        #expect(linked.contains(.removed("f")))
        #expect(!linked.contains(.changed("link")) && !linked.contains(.changed("link/g")))
        #expect(try await watcher.changes { try root.write("y", to: "outside/g") } == [])
    }

    @Test("private names, names that are not keys, and other stores are hidden", arguments: WatchedRoot.Kind.allCases)
    func privateNames(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try await root.store.createDirectory("inner")
        var watcher = try await FileWatcher(root.store)
        let found = try await watcher.changes {
            for name in ["#tmp-1", "#notes#", "back\\slash", "#trash-1-2"] { try root.write("x", to: "store/" + name) }
            try root.makeDirectory("store/#trash-3")
            try root.write("x", to: "store/#trash-3/f")
        }
        #expect(found == [])
        let nested = DiskFileStore(
            root: URL(root.path("store/inner")), fileSystem: root.fileSystem, options: .init(durability: .none))
        #expect(try await watcher.changes { try await nested.open() } == [.removed("inner")])
        #expect(try await watcher.changes { try await nested.save(Data(), to: "f") } == [])
        // Of one that is moved into the tree, nothing was ever reported; where it replaces a directory, that is removed.
        let foreign = DiskFileStore(
            root: URL(root.path("foreign")), fileSystem: root.fileSystem, options: .init(durability: .none))
        try await foreign.save(Data(), to: "f")
        #expect(try await watcher.changes { try root.rename("foreign", to: "store/moved") } == [])
        try await root.store.save(Data(), to: "own-directory/f")
        _ = try await watcher.changes {}
        let replaced = try await watcher.changes {
            try root.rename("store/moved", to: "store/own-directory", .exchanging)
        }
        #expect(replaced.filter { $0 == .removed("own-directory") }.count == 1)
        #expect(Set(replaced) == [.removed("own-directory"), .changed("moved/f")])
        var later = try await FileWatcher(root.store)
        #expect(try await later.changes { try await root.store.save(Data(), to: "own") } == [.changed("own")])
    }
}

@Suite("The root of a watched store", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
struct WatchedRootTests {
    @Test("may be created later, with the directories above it", arguments: WatchedRoot.Kind.allCases)
    func missing(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        let store = DiskFileStore(
            root: URL(root.path("a/b/store")), fileSystem: root.fileSystem, options: .init(durability: .none))
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)
        #expect(try !root.fileSystem.exists(root.path("a")))
        try await store.save(Data(), to: "f")
        #expect(try await changes.next() == .resync)
        try await Self.expectChange("g", in: &changes, of: store)
    }

    @Test("cannot be watched behind links that lead to each other", arguments: WatchedRoot.Kind.allCases)
    func linkLoop(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try root.fileSystem.createSymbolicLink(root.path("a"), to: root.path("b"))
        try root.fileSystem.createSymbolicLink(root.path("b"), to: root.path("a"))
        let store = DiskFileStore(root: URL(root.path("a/store")), fileSystem: root.fileSystem)
        await #expect(
            performing: { for try await _ in store.changes() {} }, throws: hasCode(.unavailable(.inputOutput)))
    }

    @Test("may be removed, replaced, and moved with the directories above it", arguments: WatchedRoot.Kind.allCases)
    func replaced(_ kind: WatchedRoot.Kind) async throws {
        let root = try WatchedRoot(kind)
        try root.makeDirectory("a")
        let store = DiskFileStore(
            root: URL(root.path("a/store")), fileSystem: root.fileSystem, options: .init(durability: .none))
        try await store.save(Data(), to: "f")
        var changes = store.changes().makeAsyncIterator()
        #expect(try await changes.next() == .resync)

        try root.rename("a/store", to: "old")
        #expect(try await changes.next() == .resync)
        try root.rename("old", to: "a/store")
        #expect(try await changes.next() == .resync)
        try await Self.expectChange("after-move", in: &changes, of: store)

        try root.rename("a", to: "b")
        #expect(try await changes.next() == .resync)
        try root.makeDirectory("a")
        try root.makeDirectory("a/store")
        #expect(try await changes.next() == .resync)
        try await Self.expectChange("in-new-root", in: &changes, of: store)
    }

    /// Saves a file until its change is reported; a `resync` of an earlier change may come first.
    private static func expectChange(
        _ key: String, in changes: inout FileChanges.AsyncIterator, of store: DiskFileStore
    ) async throws {
        try await store.save(Data(), to: key)
        while true {
            let change = try #require(try await changes.next())
            if change == .changed(key) { return }
            #expect(change == .resync)
            // It may cover the save.
            try await store.save(Data(), to: key)
        }
    }
}

/// A store on disk or in memory, and its root as other programs see it.
final class WatchedRoot: Sendable {
    enum Kind: CaseIterable, Sendable {
        case disk, memory
    }

    let fileSystem: any POSIXFileSystem
    let store: DiskFileStore
    /// The directory of the root `store`.
    let base: POSIXPath
    private let directory: TemporaryDirectory?

    init(_ kind: Kind) throws {
        switch kind {
        case .disk:
            let directory = try TemporaryDirectory()
            self.directory = directory
            fileSystem = SystemFileSystem()
            base = POSIXPath(directory.url.path)
        case .memory:
            directory = nil
            let memory = InMemoryFileSystem()
            fileSystem = memory
            base = "/base"
            try memory.createDirectory(base)
        }
        store = DiskFileStore(
            root: URL(base.appending("store")), fileSystem: fileSystem, options: .init(durability: .none))
    }

    /// The path of a name beside the root.
    func path(_ name: String) -> POSIXPath { base.appending(POSIXPath(name)) }

    /// A second store with the same root.
    func other() -> DiskFileStore {
        DiskFileStore(root: URL(path("store")), fileSystem: fileSystem, options: .init(durability: .none))
    }

    /// Writes a file beside the root, or below it, in place.
    func write(_ text: String, to name: String) throws {
        let file = try fileSystem.open(path(name), .writeOnly, options: [.create, .truncate])
        try write(text, to: file)
        try fileSystem.close(file)
    }

    func write(_ text: String, to file: Descriptor) throws {
        try Data(text.utf8).withUnsafeBytes { (bytes) throws in try fileSystem.writeFully(file, from: bytes) }
    }

    func makeDirectory(_ name: String) throws { try fileSystem.createDirectory(path(name)) }

    func rename(_ name: String, to new: String, _ mode: RenameMode = .replacing) throws {
        try fileSystem.rename(path(name), to: path(new), mode)
    }
}

@Suite("The changes that a consumer has not taken yet")
struct FileChangeBufferTests {
    @Test("the change of a file is kept once until it is taken or a removal follows")
    func duplicates() {
        var buffer = FileChangeBuffer()
        let changes: [FileChange] = [
            .changed("f"), .changed("g"), .changed("f"), .removed("f"), .removed("f"), .changed("f"), .removed("d"),
            .removed("f"), .changed("g"), .changed("g"),
        ]
        for change in changes { buffer.append(change) }
        #expect(
            buffer.takeAll() == [
                .changed("f"), .changed("g"), .removed("f"), .changed("f"), .removed("d"), .removed("f"), .changed("g"),
            ])
        for change in [FileChange.changed("f"), .changed("g")] { buffer.append(change) }
        #expect(buffer.popFirst() == .changed("f"))
        for change in [FileChange.changed("g"), .changed("f")] { buffer.append(change) }
        #expect(buffer.takeAll() == [.changed("g"), .changed("f")])
    }

    @Test("a resync covers all changes until it is taken")
    func resync() {
        var buffer = FileChangeBuffer()
        let changes: [FileChange] = [.changed("f"), .resync, .changed("f"), .removed("g"), .resync]
        for change in changes { buffer.append(change) }
        #expect(buffer.takeAll() == [.resync])
        buffer.append(.changed("f"))
        #expect(buffer.takeAll() == [.changed("f")])
    }

    @Test("1,024 changes are kept in their order, and one more makes them a resync")
    func limit() {
        var buffer = FileChangeBuffer()
        let changes = (0..<4_000).map { FileChange.changed("\($0)") }
        for change in changes.prefix(1_024) { buffer.append(change) }
        var taken: [FileChange] = []
        for change in changes.dropFirst(1_024) {
            if let next = buffer.popFirst() { taken.append(next) }
            buffer.append(change)
        }
        taken += buffer.takeAll()
        #expect(taken == changes)
        for change in changes.prefix(1_025) { buffer.append(change) }
        #expect(buffer.takeAll() == [.resync])
        buffer.append(.changed("f"))
        #expect(buffer.takeAll() == [.changed("f")])
    }
}

extension FileChangeBuffer {
    fileprivate mutating func takeAll() -> [FileChange] {
        var taken: [FileChange] = []
        while let change = popFirst() { taken.append(change) }
        return taken
    }
}
