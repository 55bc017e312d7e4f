import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("Rights that a replaced file must not gain")
struct PrivilegeTests {
    @Test("a replaced file loses the set-user and set-group bits, like a written one")
    func setUserBit() throws {
        let fileSystem = InMemoryFileSystem()
        let url = URL(filePath: "/tool")
        try fileSystem.write(Data("old".utf8), to: url)
        try fileSystem.setOwner(UserID(7), group: GroupID(7), of: .path("/tool"))
        try fileSystem.setPermissions(FilePermissions(rawValue: 0o6755), of: .path("/tool"))
        try fileSystem.write(Data("new".utf8), to: url)
        #expect(try fileSystem.status("/tool").permissions == FilePermissions(rawValue: 0o755))
    }

    @Test("directories have the requested mode, regardless of the umask", arguments: [0, 0o177, 0o777])
    func directories(_ umask: FilePermissions.RawValue) throws {
        let options = InMemoryFileSystem.Options(umask: FilePermissions(rawValue: umask))
        let fileSystem = InMemoryFileSystem(options: options)
        try fileSystem.makeDirectories("/a/b", permissions: FilePermissions(rawValue: 0o750))
        try fileSystem.createDirectory(at: URL(filePath: "/c"), withIntermediateDirectories: false)
        #expect(try fileSystem.status("/a").permissions == FilePermissions(rawValue: 0o750))
        #expect(try fileSystem.status("/a/b").permissions == FilePermissions(rawValue: 0o750))
        #expect(try fileSystem.status("/c").permissions == .ownerReadWriteExecute)
    }
}
