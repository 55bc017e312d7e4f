import ForgeStorage
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("The files of a backup while they are written and read")
struct BackupWriterTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        for name in ["b", "t"] {
            try FileManager.default.createDirectory(atPath: scratch.path(name), withIntermediateDirectories: false)
        }
    }

    private func path(_ name: String) -> POSIXPath { POSIXPath(scratch.path(name)) }

    /// Backs up the directory `s` into `b`; `change` is called before each call of the walk.
    private func save(
        _ report: BackupReport, _ change: @escaping @Sendable (InterceptedCall) throws(FileSystemError) -> Void
    ) throws {
        let source = try ConfinedDirectory(path("s"), on: InterceptedFileSystem(SystemFileSystem(), change))
        var writer = try BackupWriter(source, to: path("b"), report)
        try writer.run()
    }

    #if os(Linux)
    @Test("the files are flushed before the manifest is completed, and a flush that fails is an error")
    func flush() throws {
        for file in ["s/a/x", "s/z/y"] { try scratch.plant(file) }
        let failure = #expect(throws: FileSystemError.self) {
            try save(BackupReport("saved", json: false)) { [scratch] (call) throws(FileSystemError) in
                // The first file was saved.
                guard call.operation == .open, call.path == "z" else { return }
                do { try scratch.preventFlush(of: "b/content/a") } catch { Issue.record(error) }
            }
        }
        #expect(failure?.errno == .badFileDescriptor)
        let unfinished = #expect(throws: CommandFailure.self) {
            try BackupManifestReader(of: path("b")).forEach({ _ in })
        }
        let reason = "not a finished backup: the manifest is incomplete: \(scratch.path("b/manifest"))"
        #expect(unfinished?.description == reason)
    }

    @Test("a manifest is flushed when it is complete, and a flush that fails is an error with its path")
    func manifestFlush() throws {
        let manifest = try BackupManifestWriter(in: path("b"))
        // It takes what is written, and cannot be flushed.
        try scratch.redirect("b/manifest", to: FileDescriptor.open(FilePath("/dev/null"), .writeOnly))
        let failure = #expect(throws: FileSystemError.self) { try manifest.finish() }
        #expect(failure?.operation == .synchronize && failure?.errno == .invalidArgument)
        #expect(failure?.path == path("b/manifest"))
    }

    @Test("files and manifests are closed after they were copied or read")
    func descriptors() throws {
        for file in ["s/d/f", "t/d/f"] { try scratch.plant(file, "text of \(file)") }
        do { try BackupManifestWriter(in: path("b")).finish() }
        #expect(try scratch.opened().isEmpty)
        let (source, target) = (try ConfinedDirectory(path("s")), try ConfinedDirectory(path("t")))
        let held = try scratch.opened()
        let copied = try HashedCopy().copy("d/f", in: source, to: target).content
        #expect(try HashedCopy().content(of: "d/f", in: target) == copied)
        try BackupManifestReader(of: path("b")).forEach({ _ in })
        #expect(try scratch.opened() == held)
        withExtendedLifetime((source, target)) {}
    }
    #endif

    @Test(
        "a file whose mode changes while it is copied is copied again, but not one that is removed meanwhile",
        arguments: [false, true])
    func changedFile(isRemoved: Bool) throws {
        try scratch.plant("s/f", "text")
        let file = path("s/f")
        let (old, new): (FilePermissions, FilePermissions) = (.ownerReadWrite, [.ownerReadWrite, .groupRead])
        try SystemFileSystem().setPermissions(old, of: .path(file))
        let attempts = Mutex(0)
        let changing = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
            // Each attempt opens the directory of the copy once, after it has looked at the file.
            guard call.operation == .open, call.path == "." else { return }
            let number = attempts.withLock { count -> Int in
                count += 1
                return count
            }
            guard number == 1 else { return }
            let before = try SystemFileSystem().status(file).changed
            // The clock of the file system has steps.
            repeat {
                try SystemFileSystem().setPermissions(new, of: .path(file))
            } while try SystemFileSystem().status(file).changed == before
            if isRemoved { try SystemFileSystem().unlink(file) }
        }
        let target = try ConfinedDirectory(path("t"), on: changing)
        let copied = try HashedCopy().copy("f", in: ConfinedDirectory(path("s")), to: target)
        #expect(copied.content.bytes == 4 && copied.permissions == (isRemoved ? old : new))
        let count = attempts.withLock { $0 }
        #expect(count == (isRemoved ? 1 : 2))
    }

    @Test(
        "a key-value store that is moved before it is opened is a failure, and one whose log is removed is none",
        arguments: [true, false])
    func changedStore(isMoved: Bool) throws {
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("s/kv"))
        try store.set(KVKey<Int>("key"), value: 1)
        try store.close()
        let (directory, other, log) = (path("s/kv"), path("s/moved"), path("s/kv/log"))
        let steps = Mutex(0)
        let report = BackupReport("saved", json: false)
        try save(report) { (call) throws(FileSystemError) in
            // When the walk closes the log, which it has looked at.
            let isNow = steps.withLock { steps -> Bool in
                if steps == 0, call.operation == .open, call.path == "log" { steps = 1 }
                guard steps == 1, call.operation == .close else { return false }
                steps = 2
                return true
            }
            guard isNow else { return }
            if isMoved {
                try SystemFileSystem().rename(directory, to: other)
            } else {
                try SystemFileSystem().unlink(log)
            }
        }
        guard isMoved else { return try report.finish("b") }
        let failure = #expect(throws: CommandFailure.self) { try report.finish("b") }
        #expect(failure?.description == "1 failed, 0 left out: see the list")
    }
}
