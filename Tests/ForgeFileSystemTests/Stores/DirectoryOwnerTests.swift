import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The owner of a directory")
struct DirectoryOwnerTests {
    private let memory = InMemoryFileSystem()

    private func mark(_ path: POSIXPath, as kind: StoreKind) throws {
        try memory.makeDirectories(path)
        try memory.withDirectory(path) { (directory) throws(FileSystemError) in
            try memory.mark(directory, as: kind, temporary: "#tmp-marker")
        }
    }

    private func owner(of path: POSIXPath) throws -> DirectoryOwner {
        try memory.withDirectory(path) { (directory) throws(FileSystemError) in try memory.owner(of: directory) }
    }

    private func write(_ content: [UInt8], to path: POSIXPath) throws {
        let file = try memory.open(path, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
        try memory.writeBytes(content, to: file)
        try memory.close(file)
    }

    @Test("is the store that has marked it", arguments: StoreKind.allCases)
    func marked(_ kind: StoreKind) throws {
        try mark("/d", as: kind)
        #expect(try owner(of: "/d") == .stores([kind]))
        #expect(kind.markerName.isReservedName && kind.markerName.isStoreMarker)
        let names = try memory.contentsOfDirectory(at: URL(filePath: "/d")).map(\.lastPathComponent)
        #expect(names == [String(kind.markerName)])
    }

    @Test("can be several stores")
    func several() throws {
        try mark("/d", as: .keyValue)
        try mark("/d", as: .vaults)
        #expect(try owner(of: "/d") == .stores([.keyValue, .vaults]))
    }

    @Test("is none if files only have names of stores' files")
    func names() throws {
        try memory.makeDirectories("/d")
        for name in ["log", "a.cache", "quarantine-x", "#shared"] as [POSIXPath] {
            try write([1], to: POSIXPath("/d").appending(name))
        }
        #expect(try owner(of: "/d") == .none)
    }

    @Test("is unknown if a marker has any other content, and the marker is kept")
    func unknown() throws {
        let right = StoreMarker.content(of: .files)
        for position in right.indices {
            var wrong = right
            wrong[position] ^= 1
            try memory.makeDirectories("/d")
            try write(wrong, to: "/d/#store-files")
            #expect(try owner(of: "/d") == .unknownStore, "byte \(position)")
            try mark("/d", as: .files)
            #expect(try memory.readFile("/d/#store-files") == wrong)
        }
        for (name, content) in [
            ("#store-files", right + [0]), ("#store-files", Array(right.dropLast())), ("#store-vaults", right),
            ("#store-later", right), ("#store-", []), ("#lock", []), ("#lock-vaults", []), ("#journal-0", []),
        ] as [(POSIXPath, [UInt8])] {
            try memory.removeTree("/d")
            try memory.makeDirectories("/d")
            try write(content, to: POSIXPath("/d").appending(name))
            #expect(try owner(of: "/d") == .unknownStore, "\(name)")
        }
    }

    @Test("is unknown if a marker may not be read, and an error if the device fails")
    func unreadableMarker() throws {
        try mark("/d", as: .files)
        try memory.setPermissions([.ownerReadWriteExecute, .otherRead, .otherExecute], of: .path("/d"))
        let user = memory.process(user: UserID(7), group: GroupID(7))
        let directory = try user.open("/d", .readOnly, options: [.directory])
        #expect(try user.owner(of: directory) == .unknownStore)
        let failing = FaultingFileSystem(memory, plan: FaultPlan([.fail(.read, with: .ioError)]))
        let other = try failing.open("/d", options: [.directory])
        expectErrno(.ioError) { _ = try failing.owner(of: other) }
    }

    @Test("has a damaged marker if it is only the beginning of one, or has at most four wrong bytes")
    func damagedMarkers() {
        for kind in StoreKind.allCases {
            let valid = StoreMarker.content(of: kind)
            for count in 0...17 {
                let content = Array((valid + [0]).prefix(count))
                #expect(StoreMarker.isDamaged(content, of: kind) == (1..<16).contains(count), "\(count) bytes")
            }
            // The first bytes, or the last ones, which are the checksum.
            for count in 1...16 {
                for first in [0, 16 - count] {
                    var content = valid
                    for index in first..<first + count { content[index] ^= 0x10 }
                    #expect(StoreMarker.isDamaged(content, of: kind) == (count <= 4), "\(count) bytes from \(first)")
                }
            }
            #expect(!StoreMarker.isDamaged([1], of: kind))
            for other in StoreKind.allCases {
                #expect(!StoreMarker.isDamaged(StoreMarker.content(of: other), of: kind))
            }
            #expect(StoreMarker.kind(named: kind.markerName) == kind)
            #expect(StoreMarker.kind(of: kind.markerName, containing: valid) == kind)
            #expect(StoreMarker.kind(of: "#store-other", containing: valid) == nil)
        }
        #expect(StoreMarker.kind(named: "#store-other") == nil)
    }

    @Test("is kept if another process marks the directory meanwhile")
    func markedMeanwhile() throws {
        try memory.makeDirectories("/d")
        let racing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .rename else { return }
            try memory.withDirectory("/d") { (directory) throws(FileSystemError) in
                try memory.mark(directory, as: .files, temporary: "#tmp-other")
            }
        }
        let directory = try racing.open("/d", .readOnly, options: [.directory])
        try racing.mark(directory, as: .files, temporary: "#tmp-marker")
        #expect(try owner(of: "/d") == .stores([.files]))
        let names = try memory.contentsOfDirectory(at: URL(filePath: "/d")).map(\.lastPathComponent)
        #expect(names == ["#store-files"])
    }

    @Test("is not told by a link to a marker")
    func link() throws {
        try mark("/d", as: .files)
        try memory.makeDirectories("/e")
        try memory.createSymbolicLink("/e/#store-files", to: "/d/#store-files")
        #expect(try owner(of: "/e") == .unknownStore)
        try memory.unlink("/e/#store-files")
        try memory.link("/d/#store-files", to: "/e/#store-files")
        #expect(try owner(of: "/e") == .stores([.files]))
    }

    @Test("of a file is found above its directory, also over a link; a store without nested keys ends at its root")
    func above() throws {
        try mark("/s", as: .files)
        try mark("/kv", as: .keyValue)
        for path in ["/s/a/b", "/kv/a", "/other"] as [POSIXPath] { try memory.makeDirectories(path) }
        try memory.createSymbolicLink("/other/link", to: "/s/a")
        for path in ["/s", "/s/a", "/s/a/b", "/other/link", "/other/link/b"] as [POSIXPath] {
            let scope = try StoreScope(at: path, on: memory)
            #expect(scope.store == .stores([.files]), "\(path)")
            #expect(scope.isRoot == (path == "/s"), "\(path)")
        }
        #expect(try StoreScope(at: "/kv", on: memory).store == .stores([.keyValue]))
        for path in ["/kv/a", "/other", "/"] as [POSIXPath] {
            #expect(try StoreScope(at: path, on: memory) == .outside, "\(path)")
        }
        try write([1], to: "/s/#store-later")
        #expect(try StoreScope(at: "/s/a/b", on: memory).isUnknown)
    }

    @Test("a full device leaves the directory without a marker, which a later write adds")
    func fullDevice() throws {
        let full = FaultingFileSystem(memory, plan: FaultPlan([.fail(.write, with: .noSpace)]))
        try memory.makeDirectories("/d")
        let directory = try full.open("/d", options: [.directory])
        #expect(throws: FileSystemError.self) { try full.mark(directory, as: .files, temporary: "#tmp-marker") }
        try full.markIfSpace(directory, as: .files, temporary: "#tmp-marker")
        #expect(try owner(of: "/d") == .none)
        #expect(try memory.contentsOfDirectory(at: URL(filePath: "/d")).isEmpty)
        try mark("/d", as: .files)
        #expect(try owner(of: "/d") == .stores([.files]))
    }

    @Test("an empty marker is replaced by the store of its kind")
    func emptyMarker() throws {
        try memory.makeDirectories("/d")
        try write([], to: "/d/#store-images")
        try mark("/d", as: .images)
        #expect(try owner(of: "/d") == .stores([.images]))
    }

    @Test(
        "a directory of files has one store: one of another kind neither reads, nor writes, nor removes there",
        arguments: [StoreKind.files, .values, .images, .cache])
    func ofOneKind(_ kind: StoreKind) throws {
        let (key, path) = (try RelativeKey("a"), POSIXPath("/d").appending(kind.markerName))
        try LazyStoreDirectory("/d", of: kind, on: memory).write { (directory) throws(FileSystemError) in
            try directory.makeDirectory(key)
        }
        for other in StoreKind.allCases where other != kind {
            let store = LazyStoreDirectory("/d", of: other, on: memory)
            if other != .keyValue, other != .vaults {
                let error = #expect(throws: FileSystemError.self) { try store.existing() }
                #expect(error?.errno == .resourceBusy && error?.path == path)
            }
            let error = #expect(throws: FileSystemError.self) { try store.forWriting() }
            #expect(error?.errno == .resourceBusy && error?.path == path)
        }
        #expect(try owner(of: "/d") == .stores([kind]))
        #expect(try LazyStoreDirectory("/d", of: kind, on: memory).existing() != nil)
    }

    @Test("with the marker of a kind that is not known gets no other store", arguments: StoreKind.allCases)
    func unknownKind(_ kind: StoreKind) throws {
        try memory.makeDirectories("/d")
        for name in ["#store-later", "a"] as [POSIXPath] { try write([1], to: POSIXPath("/d").appending(name)) }
        let store = LazyStoreDirectory("/d", of: kind, on: memory)
        let error = #expect(throws: FileSystemError.self) { try store.forWriting() }
        #expect(error?.errno == .resourceBusy && error?.path == POSIXPath("/d/#store-later"))
        let names = try memory.contentsOfDirectory(at: URL(filePath: "/d")).map(\.lastPathComponent)
        #expect(names.sorted() == ["#store-later", "a"])
        // One that was there first goes on.
        try mark("/d", as: kind)
        try memory.withDirectory("/d") { (directory) throws(FileSystemError) in
            try memory.requireFree(directory, for: kind)
        }
    }

    @Test(
        "of a key-value store or of vaults is not opened for files, and no descriptor stays open",
        arguments: ["#lock", "#lock-vaults", "#store-key-value", "#store-vaults"] as [POSIXPath])
    func ofNoFiles(_ name: POSIXPath) throws {
        try memory.makeDirectories("/d")
        try write([], to: POSIXPath("/d").appending(name))
        let before = memory.openDescriptors
        expectErrno(.resourceBusy) { _ = try StoreDirectory(existing: "/d", on: memory) }
        expectErrno(.resourceBusy) { _ = try StoreDirectory("/d", on: memory) }
        #expect(memory.openDescriptors == before)
    }

    @Test("a marker is flushed, renamed unless it exists, and its name flushed")
    func calls() throws {
        try memory.makeDirectories("/d")
        let fileSystem = FaultingFileSystem(memory)
        let directory = try fileSystem.open("/d", options: [.directory])
        fileSystem.log.removeAll()
        try fileSystem.mark(directory, as: .cache, temporary: "#tmp-marker")
        let calls = fileSystem.log.records.map(\.operation)
        #expect(calls == [.status, .open, .setPermissions, .write, .synchronize, .close, .rename, .synchronize])
        fileSystem.log.removeAll()
        try fileSystem.mark(directory, as: .cache, temporary: "#tmp-marker")
        #expect(fileSystem.log.records.map(\.operation) == [.status])
    }

    @Test("a failing call leaves no marker or a whole one, and the next try succeeds")
    func failures() throws {
        let report = try forEachFailingCall(on: { InMemoryFileSystem() }) { fileSystem in
            try fileSystem.makeDirectories("/d")
            let directory = try fileSystem.open("/d", options: [.directory])
            defer { fileSystem.discard(directory) }
            try fileSystem.mark(directory, as: .files, temporary: "#tmp-marker")
        } verify: { fileSystem, error in
            let memory = fileSystem.base
            guard try memory.exists("/d") else { return }
            let directory = try memory.open("/d", .readOnly, options: [.directory])
            defer { memory.discard(directory) }
            let owner = try memory.owner(of: directory)
            #expect(owner == .stores([.files]) || owner == .none && error != nil, "\(owner)")
            try memory.mark(directory, as: .files, temporary: "#tmp-marker")
            #expect(try memory.owner(of: directory) == .stores([.files]))
        }
        #expect(report.runCount > 50)
    }
}

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

    /// A cache with entries that end in `.cache`.
    private enum Entries: StoreLayout {
        static var kind: StoreKind { .cache }

        static func role(
            of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
        ) throws(FileSystemError) -> FileRole {
            name.bytes.suffix(6).elementsEqual(".cache".utf8) ? .entry : .content
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
        var walk = StoreWalk(
            root, layouts: [Logs.self, Entries.self, FilesLayout.self, ValuesLayout.self], except: other)
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
        for directory in ["/t/f", "/t/c"] as [POSIXPath] { try mark(directory, as: .cache) }
        for name in ["f/log", "f/#lock", "f/d/log", "f/a.cache", "c/a.cache"] {
            try write("LOG", to: POSIXPath("/t/\(name)"))
        }
        let lines = try lines()
        #expect(lines.contains("c/a.cache entry c/") && lines.contains("f/a.cache content f/"))
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

    @Test("leaves out files that are removed meanwhile, and reports what cannot be read with its path")
    func changes() throws {
        for path in ["/t/a/x", "/t/d/f", "/t/d/g", "/t/z"] as [POSIXPath] { try write("", to: path) }
        let changing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            if call.operation == .open, call.path == "a" { try memory.removeTree("/t/a") }
            if call.operation == .status, call.path == "f" { throw FileSystemError(.status, .ioError, path: "f") }
            if call.operation == .status, call.path == "z" { try memory.unlink("/t/z") }
        }
        #expect(try lines(on: changing) == ["/ none", "d/ none", "d/f EIO", "d/g content -"])
    }

    @Test("reports at the end a directory that is moved or replaced before it is entered, or while it is walked")
    func moves() throws {
        for path in ["/t/d/e/x", "/t/d/f", "/t/z", "/n/f"] as [POSIXPath] { try write("", to: path) }
        func walk(
            _ operation: FileSystemOperation, _ name: POSIXPath, to place: POSIXPath, new: POSIXPath? = nil
        ) throws -> [String] {
            let moving = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
                guard call.operation == operation, call.path == name, try !memory.exists(place) else { return }
                try memory.rename("/t/d", to: place)
                if let new { try memory.rename(new, to: "/t/d") }
            }
            let found = try lines(on: moving)
            if new == nil { try memory.rename(place, to: "/t/d") }
            return found
        }
        // The open directory is read on.
        let unread = ["/ none", "d/ none", "d/f content -", "z content -"]
        #expect(try walk(.open, "d/e", to: "/t/a") == unread + ["d/e ENOENT"])
        let read = ["/ none", "d/ none", "d/e/ none", "d/e/x content -", "z content -"]
        #expect(try walk(.status, "x", to: "/t/a") == read + ["d ENOENT"])
        // A directory that left the tree is not reported, unless another one has its path.
        #expect(try walk(.open, "d/e", to: "/m") == unread)
        #expect(try walk(.status, "x", to: "/m") == read)
        #expect(try walk(.status, "x", to: "/m", new: "/n") == read + ["d ENOENT"])
        // Only directories are left of the one that was replaced, and the new one has more of them.
        for path in ["/u/a/x", "/u/b/y", "/v/a/x", "/v/b/y", "/v/c/new"] as [POSIXPath] { try write("", to: path) }
        try memory.makeDirectories("/w")
        try memory.rename("/u", to: "/w/d")
        let replacing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .status, call.path == "x", try memory.exists("/v") else { return }
            try memory.rename("/w/d", to: "/old")
            try memory.rename("/v", to: "/w/d")
        }
        let found = try lines(below: "/w", on: replacing)
        #expect(found == ["/ none", "d/ none", "d/a/ none", "d/a/x content -", "d ENOENT"])
        // Without its root, a walk is an error.
        let rootless = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            if call.operation == .status, call.path == "f" { try memory.rename("/t", to: "/r") }
        }
        #expect(throws: FileSystemError.self) { try lines(on: rootless) }
    }

    @Test(
        "a directory is removed only if all others can be listed again, and have the numbers that were listed for them",
        arguments: ["", "error", "number", "later number"])
    func removedDirectories(change: String) throws {
        for path in ["/t/a/x", "/t/d/y", "/n/y"] as [POSIXPath] { try write("", to: path) }
        let isRead = Atomic(false)
        let changing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            if call.operation == .open, call.path == "a" { try memory.removeTree("/t/a") }
            if call.operation == .status, call.path == "y" { isRead.store(true, ordering: .relaxed) }
            guard call.operation == .open, call.path == "d" else { return }
            if change == "error", isRead.load(ordering: .relaxed) { throw FileSystemError(.open, .permissionDenied) }
            let isNow = change == "number" || change == "later number" && isRead.load(ordering: .relaxed)
            guard isNow, try memory.exists("/n") else { return }
            try memory.rename("/t/d", to: "/o")
            try memory.rename("/n", to: "/t/d")
        }
        let lines = try lines(on: changing)
        #expect(lines == ["/ none", "d/ none", "d/y content -"] + (change.isEmpty ? [] : ["a ENOENT"]))
    }

    @Test(
        "a directory is not removed if one that was listed in it is elsewhere, or if another root or device is there",
        arguments: ["", "part", "root", "device"])
    func lostDirectories(change: String) throws {
        try memory.makeDirectories("/t/b/d")
        if change == "device" { try memory.mount(at: "/t/b/d") }
        for path in ["/t/b/d/e/x", "/t/b/d/f/y", "/t/b/d/g", "/n/z"] as [POSIXPath] { try write("", to: path) }
        let changing = InterceptedFileSystem(memory) { [memory] (call) throws(FileSystemError) in
            guard call.operation == .status, call.path == "x", try memory.exists("/n") else { return }
            if change == "part" { try memory.rename("/t/b/d/f", to: "/t/a") }
            if change == "root" {
                try memory.rename("/t", to: "/old")
                try memory.rename("/n", to: "/t")
            } else {
                try memory.rename("/t/b", to: "/old")
                try memory.rename("/n", to: "/m")
            }
        }
        let read = ["/ none", "b/ none", "b/d/ none", "b/d/e/ none", "b/d/e/x content -"]
        #expect(try lines(on: changing) == read + (change.isEmpty ? [] : ["b/d ENOENT"]))
    }

    @Test("reports a directory that its caller has not found, unless it was removed", arguments: ["", "moved", "root"])
    func missedDirectory(change: String) throws {
        for path in ["/t/d/x", "/n/z"] as [POSIXPath] { try write("", to: path) }
        let root = DirectoryIdentity(try memory.status("/t"))
        let directory = DirectoryIdentity(try memory.status("/t/d"))
        var walk = StoreWalk(try ConfinedDirectory("/t", on: memory), layouts: [])
        while try walk.next() != nil {}
        switch change {
        case "moved": try memory.rename("/t/d", to: "/t/a")
        case "root":
            try memory.rename("/t", to: "/old")
            try memory.rename("/n", to: "/t")
        default: try memory.rename("/t/d", to: "/old")
        }
        if change == "root" { walk.miss("", root) }
        walk.miss("d", directory)
        var found: [POSIXPath] = []
        while case .failed(let error)? = try walk.next() { found.append(error.path ?? "none") }
        let expected: [POSIXPath] = change.isEmpty ? [] : change == "root" ? ["", "d"] : ["d"]
        #expect(found == expected)
    }

    @Test("a file is removed if its directory is where it was listed, and nothing has its name")
    func removal() throws {
        for path in ["/t/d/f", "/n/g"] as [POSIXPath] { try write("", to: path) }
        let isFailing = Atomic(false)
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if isFailing.load(ordering: .relaxed) { throw FileSystemError(.status, .ioError) }
        }
        var walk = StoreWalk(try ConfinedDirectory("/t", on: failing), layouts: [])
        var found: StoreWalk.Entry?
        while found == nil, let event = try walk.next() { if case .file(let entry) = event { found = entry } }
        let file = try #require(found)
        #expect(try walk.isRemoved(file) == false)
        isFailing.store(true, ordering: .relaxed)
        #expect(throws: FileSystemError.self) { try walk.isRemoved(file) }
        isFailing.store(false, ordering: .relaxed)
        try memory.unlink("/t/d/f")
        #expect(try walk.isRemoved(file))
        try memory.rename("/t/d", to: "/t/m")
        #expect(try walk.isRemoved(file) == false)
        try memory.rename("/n", to: "/t/d")
        #expect(try walk.isRemoved(file) == false)
    }

    @Test("takes a file that was removed since for content; another error of reading its role has its path")
    func roles() throws {
        try write("LOG", to: "/t/d/log")
        let isFailing = Atomic(false)
        let failing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .read, isFailing.load(ordering: .relaxed) else { return }
            throw FileSystemError(.read, .ioError)
        }
        var walk = StoreWalk(try ConfinedDirectory("/t", on: failing), layouts: [Logs.self])
        var file: StoreWalk.Entry?
        while let event = try walk.next() { if case .file(let entry) = event { file = entry } }
        let log = try #require(file)
        // The walk has left the directory.
        #expect(try walk.role(of: log) == .log)
        isFailing.store(true, ordering: .relaxed)
        let error = #expect(throws: FileSystemError.self) { try walk.role(of: log) }
        #expect(error?.errno == .ioError && error?.path == "d/log")
        isFailing.store(false, ordering: .relaxed)
        try memory.unlink("/t/d/log")
        #expect(try walk.role(of: log) == .content)
        try memory.createDirectory("/t/d/log")
        #expect(try walk.role(of: log) == .content)
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
