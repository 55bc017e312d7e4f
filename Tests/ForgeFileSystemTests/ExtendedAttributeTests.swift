import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

/// Limits and permissions of extended attributes, which the conformance checks cannot expect of every file system.
@Suite("Extended attributes")
struct ExtendedAttributeTests {
    private let memory = InMemoryFileSystem()

    private func open(_ path: POSIXPath) throws -> Descriptor {
        try memory.open(path, .readWrite, options: [.create], permissions: FilePermissions(rawValue: 0o644))
    }

    @Test("of a file fit into one block, as on ext4 without large attributes")
    func block() throws {
        let file = try open("/f")
        // A header of 32 bytes, an entry of 16, the name and the end take 4 each.
        try memory.setExtendedAttribute("a", to: [UInt8](repeating: 1, count: 4_040), of: file)
        expectErrno(.noSpace) {
            try memory.setExtendedAttribute("a", to: [UInt8](repeating: 2, count: 4_041), of: file)
        }
        expectErrno(.noSpace) { try memory.setExtendedAttribute("b", to: [], of: file) }
        #expect(try memory.extendedAttribute("a", of: file)?.count == 4_040)
        try memory.setExtendedAttribute("a", to: [], of: file)
        try memory.setExtendedAttribute("b", to: [], of: file)
        #expect(try memory.usage().sizeInBytes == 0)
    }

    @Test("on this machine have up to 65,536 bytes, unless the file system has less room", arguments: [65_536, 65_537])
    func largest(count: Int) throws {
        let system = SystemFileSystem()
        let path = try POSIXPath(FileManager.default.temporaryDirectory.appending(path: "forge-\(UUID().uuidString)"))
        let file = try system.open(
            path, .readWrite, options: [.create, .exclusiveCreate], permissions: .ownerReadWrite)
        defer { do { try system.unlink(path) } catch _ {} }
        var errno: Errno?
        do throws(FileSystemError) {
            try system.setExtendedAttribute("user.a", to: [UInt8](repeating: 1, count: count), of: file)
        } catch {
            errno = error.errno
        }
        #expect((errno == .argListTooLong) == (count > 65_536), "\(String(describing: errno))")
        try system.close(file)
    }

    @Test("that excludes from backups is the property list that Apple's systems write")
    func backupExclusion() throws {
        let file = try open("/f")
        try memory.excludeFromBackup("/f")
        let value = try #require(
            try memory.extendedAttribute("com.apple.metadata:com_apple_backup_excludeItem", of: file))
        let text = "com.apple.backupd"
        #expect(try PropertyListSerialization.propertyList(from: Data(value), format: nil) as? String == text)
        #expect(try Data(value) == PropertyListSerialization.data(fromPropertyList: text, format: .binary, options: 0))
        try memory.close(file)
    }

    @Test("cannot be set on a read-only device")
    func readOnly() throws {
        let file = try open("/f")
        try memory.setExtendedAttribute("a", to: [1], of: file)
        try memory.setReadOnly(true)
        expectErrno(.readOnlyFileSystem) { try memory.setExtendedAttribute("a", to: [2], of: file) }
        #expect(try memory.extendedAttribute("a", of: file) == [1])
    }

    @Test("are listed in the order of their names, and end with the file system")
    func order() throws {
        let file = try open("/f")
        for name in ["c", "a", "B", "b"] { try memory.setExtendedAttribute(name, to: [], of: file) }
        #expect(try memory.extendedAttributeNames(of: file) == ["B", "a", "b", "c"])
        memory.reset()
        #expect(try memory.extendedAttributeNames(of: open("/f")) == [])
    }

    @Test("of a file that a user may not write to, or of another's sticky directory, cannot be set: in memory")
    func permissions() throws {
        try memory.createDirectory("/root")
        try requirePermissions("/root", memory, as: memory.process(user: UserID(1_234), group: GroupID(1_234)))
    }

    #if os(Linux)
    @Test("and on the disk", .enabled(if: ImpersonatingFileSystem.isPossible))
    func systemPermissions() throws {
        let directory = try TemporaryDirectory()
        defer { directory.remove() }
        let user = try #require(ImpersonatingFileSystem(user: UserID(1_234), group: GroupID(1_234)))
        try requirePermissions(directory.path, SystemFileSystem(), as: user)
    }
    #endif

    private func requirePermissions(
        _ root: POSIXPath, _ owner: some POSIXFileSystem, as user: some POSIXFileSystem
    ) throws {
        try owner.setPermissions(FilePermissions(rawValue: 0o755), of: .path(root))
        let path = root.appending("f")
        let created = try owner.open(path, .readWrite, options: [.create])
        try owner.setPermissions(FilePermissions(rawValue: 0o644), of: .path(path))
        try owner.setExtendedAttribute("a", to: [1], of: created)
        try owner.close(created)

        let file = try user.open(path)
        #expect(try user.extendedAttribute("a", of: file) == [1])
        expectErrno(.permissionDenied) { try user.setExtendedAttribute("a", to: [2], of: file) }
        try owner.setPermissions(FilePermissions(rawValue: 0o600), of: .path(path))
        expectErrno(.permissionDenied) { _ = try user.extendedAttribute("a", of: file) }
        #expect(try user.extendedAttributeNames(of: file) == ["a"])
        try user.close(file)

        let sticky = root.appending("d")
        try owner.createDirectory(sticky)
        try owner.setPermissions(FilePermissions(rawValue: 0o1777), of: .path(sticky))
        let directory = try user.open(sticky, options: [.directory])
        expectErrno(.notPermitted) { try user.setExtendedAttribute("a", to: [1], of: directory) }
        try owner.setPermissions(FilePermissions(rawValue: 0o777), of: .path(sticky))
        try user.setExtendedAttribute("a", to: [1], of: directory)
        try user.close(directory)
    }
}
