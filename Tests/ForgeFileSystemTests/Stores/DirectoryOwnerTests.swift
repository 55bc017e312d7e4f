import ForgeFileSystem
import ForgeStorageTesting
import Foundation
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
