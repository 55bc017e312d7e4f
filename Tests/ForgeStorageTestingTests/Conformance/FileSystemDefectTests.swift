import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("The checks of times, space, processes, watches and signals of a file system")
struct FileSystemDefectTests {
    private typealias Defect = BrokenFileSystem.Defect

    private static let checks = ConformanceSuite<FileSystemUnderTest>.fileSystem.checks.filter { check in
        Defect.allCases.contains { $0.rawValue == check.description }
    }

    @Test("pass for a file system without a defect", arguments: checks)
    private func sound(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        try await check.run(on: BrokenFileSystem.subject(nil, for: check))
    }

    @Test("each detect their defect", arguments: Defect.allCases)
    private func defects(_ defect: Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: BrokenFileSystem.subject(defect, for: check))
        }
    }

    @Test("have a defect each, if they are about accesses, processes, watches or signals")
    func completeness() {
        let lists = [
            ConformanceChecks.fileSystemAccessTimes, ConformanceChecks.fileSystemProcesses,
            ConformanceChecks.fileSystemWatching, ConformanceChecks.fileSystemSignals,
        ]
        let planted = Set(Defect.allCases.map(\.rawValue))
        #expect(Set(lists.flatMap { $0.map(\.description) }).subtracting(planted) == [])
    }

    @Test("of signals each fail for a file system without them", arguments: ConformanceChecks.fileSystemSignals)
    private func signals(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        var subject = try BrokenFileSystem.subject(nil, for: check)
        subject.fileSystem = SilentFileSystem(forwarded: subject.fileSystem)
        let silent = subject
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: silent) }
    }

    @Test("each fail for a subject without the condition that they need")
    func nothing() async throws {
        let lists = [
            ConformanceChecks.fileSystemProcesses, ConformanceChecks.fileSystemPermissions,
            ConformanceChecks.fileSystemSizeLimit,
        ]
        for check in lists.flatMap(\.self) {
            let base = InMemoryFileSystem()
            try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
            let subject = FileSystemUnderTest(base, root: "/root")
            await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject) }
        }
    }
}

/// A file system without signals.
private struct SilentFileSystem: InterceptingFileSystem {
    let forwarded: any POSIXFileSystem

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {}

    func makeSignal(of descriptor: Descriptor) throws(FileSystemError) -> (any FileSignal)? { nil }
}

@Suite("The checks of a file system that expect a refusal")
struct FileSystemRefusalTests {
    /// All but those of watches and signals, which have defects of their own, and two of very many calls.
    private static let checks = TestDepth.leavingOut(
        "a hundred thousand opens", of: ConformanceSuite<FileSystemUnderTest>.fileSystem.checks
    ).filter { $0.needs.isDisjoint(with: [.directoryWatches, .watchLimits, .signals, .linkLimit]) }

    /// The checks that pass all the same: a composed call expects the refusal, or makes another call that is refused in
    /// the same way, or the check permits success too.
    private static func permitsSuccess(_ check: ConformanceCheck<FileSystemUnderTest>) -> Bool {
        // A device that is being filled is full at the next call.
        check.needs.contains(.limitedSpace)
            || [
                "a FIFO is not read as a whole file",
                "a file written by URL keeps its permissions without the set-user-ID bit, and a new one is private",
                "creating existing directories succeeds, also concurrently",
                "directories are not created over a file on the way",
                "directories have the requested mode, even below a set-group-ID directory",
                "removing a missing tree is an error",
                "setting neither owner nor group of a file of another user leaves its bits",
                "the calls that are composed of others close what they open, also when they fail",
            ].contains(check.description)
    }

    @Test("each fail if a call that is refused seems to succeed", arguments: checks)
    private func refusals(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let fails = try await isNoticed(by: check) { try ForgivingFileSystem.subject($0, for: check) }
        #expect(fails || Self.permitsSuccess(check))
    }
}

/// Whether a check fails if one of its calls that are refused seems to succeed; true if none is refused.
func isNoticed<Subject: Sendable>(
    by check: ConformanceCheck<Subject>, on subject: (Refusals) async throws -> Subject
) async throws -> Bool {
    let refusals = Refusals(forgiving: nil)
    try await check.run(on: subject(refusals))
    var isNoticed = refusals.count == 0
    for number in stride(from: 0, to: refusals.count, by: max(1, refusals.count / 32)) {
        do {
            try await check.run(on: subject(Refusals(forgiving: number)))
        } catch let violation as ConformanceViolation {
            #expect(violation.description.hasPrefix(check.description + ": "))
            isNoticed = true
        }
    }
    return isNoticed
}

/// Counts the calls that were refused, one of which is forgiven.
final class Refusals: Sendable {
    private let forgiven: Int?
    private let state = Mutex(0)

    init(forgiving forgiven: Int?) {
        self.forgiven = forgiven
    }

    var count: Int { state.withLock { $0 } }

    func isNextForgiven() -> Bool {
        state.withLock { count in
            defer { count += 1 }
            return count == forgiven
        }
    }
}

/// A file system in which one of the calls that are refused seems to succeed, and does nothing.
private struct ForgivingFileSystem: InterceptingFileSystem {
    /// The result of a call that opens; every call with it succeeds.
    private static let opened = Descriptor(rawValue: 1_234_567)

    let base: any POSIXFileSystem
    let refusals: Refusals

    var forwarded: any POSIXFileSystem { base }

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {}

    static func subject(
        _ refusals: Refusals, for check: ConformanceCheck<FileSystemUnderTest>
    ) throws -> FileSystemUnderTest {
        var subject = try BrokenFileSystem.subject(nil, for: check)
        subject.fileSystem = ForgivingFileSystem(base: subject.fileSystem, refusals: refusals)
        if let asUser = subject.asUser {
            subject.asUser = { ForgivingFileSystem(base: asUser($0, $1), refusals: refusals) }
        }
        if let startProcess = subject.startProcess {
            subject.startProcess = {
                let (process, end) = startProcess()
                return (ForgivingFileSystem(base: process, refusals: refusals), end)
            }
        }
        return subject
    }

    /// Makes a call that concerns an open file or directory; if its refusal is forgiven, the result is `substitute`.
    private func forgiving<Result>(
        _ descriptor: Descriptor, _ substitute: Result, _ call: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        do throws(FileSystemError) {
            return try call()
        } catch {
            guard isForgiven(descriptor) else { throw error }
            return substitute
        }
    }

    private func isForgiven(_ descriptor: Descriptor) -> Bool {
        descriptor == Self.opened || refusals.isNextForgiven()
    }

    private func forgiving(
        _ file: FileReference, _ call: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try forgiving(Self.descriptor(of: file), (), call)
    }

    private static func descriptor(of file: FileReference) -> Descriptor {
        switch file {
        case .descriptor(let descriptor): descriptor
        case .path(_, at: let directory, followsSymbolicLinks: _): directory
        }
    }

    // MARK: Open files

    func open(
        _ path: POSIXPath, at directory: Descriptor, _ mode: FileDescriptor.AccessMode,
        options: FileDescriptor.OpenOptions, permissions: FilePermissions, resolution: PathResolution
    ) throws(FileSystemError) -> Descriptor {
        try forgiving(directory, Self.opened) { () throws(FileSystemError) in
            try base.open(
                path, at: directory, mode, options: options, permissions: permissions, resolution: resolution)
        }
    }

    func close(_ descriptor: Descriptor) throws(FileSystemError) {
        try forgiving(descriptor, ()) { () throws(FileSystemError) in try base.close(descriptor) }
    }

    func duplicate(_ descriptor: Descriptor) throws(FileSystemError) -> Descriptor {
        try forgiving(descriptor, Self.opened) { () throws(FileSystemError) in try base.duplicate(descriptor) }
    }

    func read(
        _ descriptor: Descriptor, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try forgiving(descriptor, 0) { () throws(FileSystemError) in
            try base.read(descriptor, into: buffer, at: offset)
        }
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try forgiving(descriptor, buffer.count) { () throws(FileSystemError) in
            try base.write(descriptor, from: buffer, at: offset)
        }
    }

    func seek(
        _ descriptor: Descriptor, to offset: Int64, from origin: FileDescriptor.SeekOrigin
    ) throws(FileSystemError) -> Int64 {
        try forgiving(descriptor, offset) { () throws(FileSystemError) in
            try base.seek(descriptor, to: offset, from: origin)
        }
    }

    func allocate(_ descriptor: Descriptor, at offset: Int64, length: Int64) throws(FileSystemError) {
        try forgiving(descriptor, ()) { () throws(FileSystemError) in
            try base.allocate(descriptor, at: offset, length: length)
        }
    }

    func synchronize(_ descriptor: Descriptor, _ level: SyncLevel) throws(FileSystemError) {
        try forgiving(descriptor, ()) { () throws(FileSystemError) in try base.synchronize(descriptor, level) }
    }

    func lock(_ descriptor: Descriptor, _ mode: LockMode, waiting: Bool) throws(FileSystemError) {
        try forgiving(descriptor, ()) { () throws(FileSystemError) in
            try base.lock(descriptor, mode, waiting: waiting)
        }
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        do throws(FileSystemError) {
            return try base.map(descriptor, at: offset, count: count)
        } catch {
            guard isForgiven(descriptor) else { throw error }
            let other = try base.open("/mapped", .readWrite, options: [.create])
            return try base.closing(other) { () throws(FileSystemError) in try base.map(other, at: 0, count: 1) }
        }
    }

    func entries(of descriptor: Descriptor) throws(FileSystemError) -> [DirectoryEntry] {
        try forgiving(descriptor, []) { () throws(FileSystemError) in try base.entries(of: descriptor) }
    }

    func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try forgiving(descriptor, []) { () throws(FileSystemError) in
            try base.extendedAttributeNames(of: descriptor)
        }
    }

    func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try forgiving(descriptor, nil) { () throws(FileSystemError) in
            try base.extendedAttribute(name, of: descriptor)
        }
    }

    func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try forgiving(descriptor, ()) { () throws(FileSystemError) in
            try base.setExtendedAttribute(name, to: value, of: descriptor)
        }
    }

    // MARK: Files

    func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        do throws(FileSystemError) {
            return try base.status(of: file)
        } catch {
            guard isForgiven(Self.descriptor(of: file)) else { throw error }
            return try base.status("/")
        }
    }

    func truncate(_ file: FileReference, to sizeInBytes: Int64) throws(FileSystemError) {
        try forgiving(file) { () throws(FileSystemError) in try base.truncate(file, to: sizeInBytes) }
    }

    func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try forgiving(file) { () throws(FileSystemError) in try base.setPermissions(permissions, of: file) }
    }

    func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        try forgiving(file) { () throws(FileSystemError) in try base.setOwner(owner, group: group, of: file) }
    }

    func setTimes(accessed: FileTime?, modified: FileTime?, of file: FileReference) throws(FileSystemError) {
        try forgiving(file) { () throws(FileSystemError) in
            try base.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }

    // MARK: Names

    func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try forgiving(directory, ()) { () throws(FileSystemError) in
            try base.createDirectory(path, at: directory, permissions: permissions)
        }
    }

    func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        try forgiving(directory, ()) { () throws(FileSystemError) in
            try base.createNode(
                path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
        }
    }

    func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try forgiving(directory, ()) { () throws(FileSystemError) in
            try base.createSymbolicLink(path, at: directory, to: target)
        }
    }

    func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try forgiving(directory, path) { () throws(FileSystemError) in
            try base.readSymbolicLink(path, at: directory)
        }
    }

    func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try forgiving(newDirectory, ()) { () throws(FileSystemError) in
            try base.link(path, at: directory, to: newPath, at: newDirectory)
        }
    }

    func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try forgiving(newDirectory, ()) { () throws(FileSystemError) in
            try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
        }
    }

    func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try forgiving(directory, ()) { () throws(FileSystemError) in try base.unlink(path, at: directory) }
    }

    func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try forgiving(directory, ()) { () throws(FileSystemError) in
            try base.removeDirectory(path, at: directory)
        }
    }
}
