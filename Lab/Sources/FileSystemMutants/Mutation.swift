import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// One rule of a file system that a ``MutantFileSystem`` breaks, as replacements of single calls.
///
/// Each closure replaces the call of the same name; without one, the in-memory file system answers.
package struct Mutation: Sendable, CustomStringConvertible {
    /// The defect as a sentence: "an exclusive creation opens what exists".
    package let description: String

    typealias Failure = FileSystemError
    typealias Tree = MutantFileSystem
    typealias Path = POSIXPath
    typealias Reader = UnsafeMutableRawBufferPointer
    typealias Writer = UnsafeRawBufferPointer
    typealias Origin = FileDescriptor.SeekOrigin

    /// Replaces the path of every call that takes one.
    var path: (@Sendable (Path) -> Path)?
    var open: (@Sendable (Tree, OpenCall) throws(Failure) -> Descriptor)?
    var close: (@Sendable (Tree, Descriptor) throws(Failure) -> Void)?
    var duplicate: (@Sendable (Tree, Descriptor) throws(Failure) -> Descriptor)?
    var read: (@Sendable (Tree, Descriptor, Reader, Int64?) throws(Failure) -> Int)?
    var write: (@Sendable (Tree, Descriptor, Writer, Int64?) throws(Failure) -> Int)?
    var seek: (@Sendable (Tree, Descriptor, Int64, Origin) throws(Failure) -> Int64)?
    var truncate: (@Sendable (Tree, FileReference, Int64) throws(Failure) -> Void)?
    var allocate: (@Sendable (Tree, Descriptor, Int64, Int64) throws(Failure) -> Void)?
    var synchronize: (@Sendable (Tree, Descriptor) throws(Failure) -> Void)?
    var map: (@Sendable (Tree, Descriptor, Int64, Int) throws(Failure) -> FileMapping)?
    var lock: (@Sendable (Tree, Descriptor, LockMode, Bool) throws(Failure) -> Void)?
    var status: (@Sendable (Tree, FileReference) throws(Failure) -> FileStatus)?
    var setPermissions: (@Sendable (Tree, FilePermissions, FileReference) throws(Failure) -> Void)?
    var setOwner: (@Sendable (Tree, UserID?, GroupID?, FileReference) throws(Failure) -> Void)?
    var setTimes: (@Sendable (Tree, FileTime?, FileTime?, FileReference) throws(Failure) -> Void)?
    var extendedAttributeNames: (@Sendable (Tree, Descriptor) throws(Failure) -> [String])?
    var extendedAttribute: (@Sendable (Tree, String, Descriptor) throws(Failure) -> [UInt8]?)?
    var setExtendedAttribute: (@Sendable (Tree, String, [UInt8], Descriptor) throws(Failure) -> Void)?
    var createDirectory: (@Sendable (Tree, Path, Descriptor, FilePermissions) throws(Failure) -> Void)?
    var createNode: (@Sendable (Tree, Path, Descriptor, FileType, FilePermissions) throws(Failure) -> Void)?
    var createSymbolicLink: (@Sendable (Tree, Path, Descriptor, Path) throws(Failure) -> Void)?
    var readSymbolicLink: (@Sendable (Tree, Path, Descriptor) throws(Failure) -> Path)?
    var link: (@Sendable (Tree, MoveCall) throws(Failure) -> Void)?
    var rename: (@Sendable (Tree, MoveCall) throws(Failure) -> Void)?
    var unlink: (@Sendable (Tree, Path, Descriptor) throws(Failure) -> Void)?
    var removeDirectory: (@Sendable (Tree, Path, Descriptor) throws(Failure) -> Void)?
    var entries: (@Sendable (Tree, Descriptor) throws(Failure) -> [DirectoryEntry])?

    /// A mutation whose defect `breaking` fills in.
    init(_ description: String, _ breaking: (inout Mutation) -> Void) {
        self.description = description
        breaking(&self)
    }
}

/// The arguments of an `open` call, which a mutation may change.
struct OpenCall: Sendable {
    var path: POSIXPath
    var directory: Descriptor
    var mode: FileDescriptor.AccessMode
    var options: FileDescriptor.OpenOptions
    var permissions: FilePermissions
    var resolution: PathResolution

    func callAsFunction(on tree: MutantFileSystem) throws(FileSystemError) -> Descriptor {
        try tree.base.open(
            path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
    }
}

/// The arguments of a `rename` or `link` call, which a mutation may change.
struct MoveCall: Sendable {
    var path: POSIXPath
    var directory: Descriptor
    var newPath: POSIXPath
    var newDirectory: Descriptor
    var mode = RenameMode.replacing

    func rename(on tree: MutantFileSystem) throws(FileSystemError) {
        try tree.base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
    }

    func link(on tree: MutantFileSystem) throws(FileSystemError) {
        try tree.base.link(path, at: directory, to: newPath, at: newDirectory)
    }
}

extension Mutation {
    /// Every mutation, each with one defect.
    package static let all: [Mutation] =
        opening + walking + content + mapping + offsets + descriptors + times + attributes + directories + renaming
        + links
        + listing + surroundings + extendedAttributes

    /// The mutation without a defect, as the control.
    package static let none = Mutation("nothing is wrong") { _ in }
}

extension Mutation {
    /// The first violation that the published checks report for this mutant; nil if every check passes.
    ///
    /// Runs every list for file systems, each check on a new file system configured for that list.
    package func firstViolation() async -> String? {
        // The short lists come first, because most mutants fail early.
        let lists = [
            (ConformanceChecks.fileSystemDescriptors, Setting.fewDescriptors),
            (ConformanceChecks.fileSystemPermissions, .users), (ConformanceChecks.fileSystemQuota, .quota),
            (ConformanceChecks.fileSystemReadOnly, .readOnly), (ConformanceChecks.fileSystemDevices, .devices),
            (ConformanceChecks.fileSystemExtendedAttributes, .plain),
            (ConformanceChecks.fileSystem, .plain), (ConformanceChecks.fileSystemLinkLimit, .plain),
            (ConformanceChecks.fileSystemSizeLimit, .plain),
        ]
        for (checks, setting) in lists {
            for check in checks {
                do {
                    try await check.run(on: try subject(setting))
                } catch {
                    return "\(error)"
                }
            }
        }
        return nil
    }

    private enum Setting {
        case plain, fewDescriptors, users, quota, readOnly, devices
    }

    private func subject(_ setting: Setting) throws -> FileSystemUnderTest {
        var options = InMemoryFileSystem.Options()
        if setting == .fewDescriptors { options.maximumOpenFileCount = 10 }
        if setting == .quota { options.quota = .init(sizeInBytes: 100_000, inodeCount: 64) }
        let base = InMemoryFileSystem(options: options)
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        let mutant = MutantFileSystem(base, self)
        var subject = FileSystemUnderTest(mutant, root: "/root")
        subject.asUser = { user, group in mutant.process(user: user, group: group) }
        subject.makeReadOnly = { try base.setReadOnly(true) }
        subject.maximumFileSizeInBytes = options.maximumFileSizeInBytes
        if setting == .devices {
            try base.createDirectory("/other")
            try base.mount(at: "/other")
            subject.otherDevice = "/other"
        }
        return subject
    }
}
