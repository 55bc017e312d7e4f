import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("The walk of a tree of stores")
struct StoreWalkTests {
    private let memory = InMemoryFileSystem(options: .init(listingOrder: .shuffled(seed: 3)))

    /// A store whose file `log` is a log if it begins with `LOG`, and which tells nothing else apart.
    private enum Logs: StoreLayout {
        static var kind: StoreKind { .keyValue }

        static func role(
            of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
        ) throws(FileSystemError) -> FileRole {
            guard name == "log" else { return name == "#lock" ? .bookkeeping : .content }
            return try start().starts(with: "LOG".utf8) ? .log : .content
        }
    }

    private func write(_ text: String, to path: POSIXPath) throws {
        try memory.makeDirectories(path.splitLast().parent)
        try memory.write(Data(text.utf8), to: URL(path))
    }

    private func mark(_ path: POSIXPath, as kind: StoreKind) throws {
        try memory.makeDirectories(path)
        try memory.withDirectory(path) { (directory) throws(FileSystemError) in
            try memory.mark(directory, as: kind, temporary: "#tmp-marker")
        }
    }

    /// A line for each event: the path, then the owner of a directory, or the role and store of a file.
    private func lines(
        except other: DirectoryIdentity? = nil, below root: POSIXPath = "/t",
        on fileSystem: (any POSIXFileSystem)? = nil
    ) throws -> [String] {
        let root = try ConfinedDirectory(root, on: fileSystem ?? memory)
        var walk = StoreWalk(root, layouts: [Logs.self, FilesLayout.self, ValuesLayout.self], except: other)
        var lines: [String] = []
        while let event = try walk.next() {
            switch event {
            case .entered(let directory): lines.append("\(directory.path)/ \(directory.scope.owner.text ?? "none")")
            case .file(let file):
                lines.append("\(file.path) \(try walk.role(of: file)) \(file.root.map { "\($0)/" } ?? "-")")
            case .other(let path): lines.append("\(path)/ other")
            case .failed(let error): lines.append("\(error.path ?? "") \(error.errno.name)")
            }
        }
        return lines
    }

    @Test("is ordered by the bytes of paths, a directory as its name with a slash")
    func order() throws {
        for path in ["/t/a/x", "/t/a-b", "/t/a0", "/t/a.b/y", "/t/B"] as [POSIXPath] { try write("", to: path) }
        let paths = try lines().map { String($0.prefix { $0 != " " }) }
        #expect(paths == ["/", "B", "a-b", "a.b/", "a.b/y", "a/", "a/x", "a0"])
    }

    @Test("below a file store, every file with a valid key is content, until a nested directory has a marker")
    func fileStore() throws {
        try mark("/t/f", as: .files)
        let id = "abcdefghabcdefgh"
        try OwnerlessJournal(["", "d"], id: id).write(in: "/t/f", on: memory)
        for name in ["log", "d/log", "d/a.cache", "#tmp-x", "d/#move-x", "#tmp-\(id)-0", "#tmp-\(id)"] {
            try write("LOG", to: POSIXPath("/t/f/\(name)"))
        }
        try mark("/t/f/kv", as: .keyValue)
        try write("LOG", to: "/t/f/kv/log")
        try write("LOG", to: "/t/f/kv/sub/log")
        try memory.makeDirectories(POSIXPath("/t/f/d/#trash-\(id)-1/below"))
        try memory.makeDirectories("/t/f/#trash-x/below")
        #expect(
            try lines() == [
                "/ none", "f/ file store", "f/#store-files marker f/", "f/#journal-0 bookkeeping f/",
                "f/#tmp-\(id) content f/", "f/#tmp-\(id)-0 temporary f/", "f/#tmp-x content f/", "f/#trash-x/ none",
                "f/#trash-x/below/ none", "f/d/ none", "f/d/#move-x moved f/", "f/d/#trash-\(id)-1 temporary f/",
                "f/d/a.cache content f/", "f/d/log content f/", "f/kv/ key-value store",
                "f/kv/#store-key-value marker f/kv/", "f/kv/log log f/kv/", "f/kv/sub/ none",
                "f/kv/sub/log log f/kv/", "f/log content f/",
            ])
        // The owner of a directory in a store is found above the root of the walk.
        #expect(try lines(below: "/t/f/d").contains("log content -"))
        #expect(try lines(below: "/t/f/kv/sub") == ["/ none", "log log -"])
    }

    @Test("in a directory of a file store, files with the names of a cache's entries are the app's")
    func sharedRoot() throws {
        try mark("/t/f", as: .files)
        try mark("/t/f", as: .keyValue)
        for name in ["f/log", "f/#lock", "f/d/log"] { try write("LOG", to: POSIXPath("/t/\(name)")) }
        let lines = try lines()
        #expect(lines.contains("f/log log f/") && lines.contains("f/#lock bookkeeping f/"))
        #expect(lines.contains("f/d/log content f/"))
    }

    @Test("a log in no store only looks like one, and below an unknown store nothing has a role")
    func withoutMarker() throws {
        try write("LOG", to: "/t/a/log")
        try write("text", to: "/t/b/log")
        try write("later", to: "/t/c/#store-files")
        try write("LOG", to: "/t/c/d/log")
        try memory.createSymbolicLink("/t/link", to: "a")
        let lines = try lines()
        #expect(lines.contains("a/log log -"))
        #expect(lines.contains("b/log content -"))
        #expect(lines.contains("c/ unknown store"))
        #expect(lines.contains("c/d/log content c/"))
        #expect(lines.contains { $0.hasPrefix("link special(") })
    }

    @Test("reports one directory without entering it, and those that cannot be read")
    func exceptions() throws {
        try write("", to: "/t/out/x")
        try write("", to: "/t/secret/x")
        try write("", to: "/t/z")
        try memory.setPermissions([], of: .path("/t/secret"))
        for path in ["/t", "/t/out"] as [POSIXPath] {
            try memory.setPermissions([.ownerReadWriteExecute, .otherRead, .otherExecute], of: .path(path))
        }
        let other = DirectoryIdentity(try memory.status("/t/out"))
        let user = memory.process(user: UserID(7), group: GroupID(7))
        let lines = try lines(except: other, on: user)
        #expect(lines == ["/ none", "out/ other", "secret EACCES", "z content -"])
    }
}
