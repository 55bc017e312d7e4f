import ForgeFileSystem
import ForgeStorage
import SystemPackage
import Testing

@Suite("The files of all stores") struct StoreLayoutsTests {
    private let fileSystem = InMemoryFileSystem()

    /// A directory that stores of one kind have marked, with the same entries for each kind.
    private func directory(of kind: StoreKind) throws -> Descriptor {
        let path: POSIXPath = "/d"
        try fileSystem.createDirectory(path)
        let directory = try fileSystem.open(path, .readOnly, options: [.directory])
        try fileSystem.mark(directory, as: kind, temporary: "#tmp-a")
        try fileSystem.close(try fileSystem.open("/d/x", .writeOnly, options: [.create]))
        for name in names {
            try fileSystem.createSymbolicLink(path.appending(name), to: "x")
            try fileSystem.createDirectory(path.appending(POSIXPath(name.bytes + [0x64])))
        }
        return directory
    }

    /// Names that a regular file has in some store.
    private let names: [POSIXPath] = ["log", "vault", "key", "a.cache", "#lock", "#journal-0", "quarantine-a", "y"]

    @Test("only a regular file has the role of its name", arguments: StoreKind.allCases)
    func special(kind: StoreKind) throws {
        let directory = try directory(of: kind)
        let scope = try StoreScope(of: directory, on: fileSystem)
        #expect(scope.owner.contains(kind))
        for name in names {
            #expect(try scope.role(of: name, at: directory, on: fileSystem) == .special(.symbolicLink), "\(name)")
            let other = POSIXPath(name.bytes + [0x64])
            #expect(try scope.role(of: other, at: directory, on: fileSystem) == .special(.directory), "\(other)")
        }
        #expect(try scope.role(of: "x", at: directory, on: fileSystem) == .content)
        #expect(try scope.role(of: kind.markerName, at: directory, on: fileSystem) == .marker)
    }
}
