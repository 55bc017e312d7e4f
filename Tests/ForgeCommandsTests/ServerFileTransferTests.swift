import ArgumentParser
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

/// Files on a server, in memory.
private final class RemotePlace: FilePlace {
    private let contents: Mutex<[String: Data]>
    /// The error of opening or storing a key.
    let failures: [String: any Error]
    /// Whether a stored content loses its last byte.
    let isLossy: Bool
    /// Keys that are listed and do not exist any more.
    let removed: [String]
    /// Keys that do not exist any more once they were opened.
    let vanishing: [String]
    /// Whether keys that differ only in case are one file.
    let foldsCase: Bool
    /// Keys of files that are created after the first listing, one before each further one.
    private let appearing: Mutex<[String]>
    /// Whether the directories of ``removed`` do not exist any more either.
    let isMoved: Bool
    let flushes = Mutex(0)

    init(
        _ contents: [String: String] = [:], failures: [String: any Error] = [:], isLossy: Bool = false,
        removed: [String] = [], vanishing: [String] = [], foldsCase: Bool = false, appearing: [String] = [],
        isMoved: Bool = false
    ) {
        self.contents = Mutex(contents.mapValues { Data($0.utf8) })
        self.failures = failures
        self.isLossy = isLossy
        self.removed = removed
        self.vanishing = vanishing
        self.foldsCase = foldsCase
        self.appearing = Mutex(appearing)
        self.isMoved = isMoved
    }

    var texts: [String: String] { contents.withLock { $0.mapValues { String(decoding: $0, as: UTF8.self) } } }

    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry] {
        if log != nil, failures["list"] != nil { try log?.record(.fail, "list", reason: "as planned") }
        let found = contents.withLock { $0.map { FilePlaceEntry(key: $0.key, sizeInBytes: Int64($0.value.count)) } }
        let all = found + removed.map { FilePlaceEntry(key: $0, sizeInBytes: 1) }
        return all.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }

    func keys() async throws -> [String] {
        let new: String? = appearing.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        if let new { contents.withLock { $0[new] = Data("new".utf8) } }
        return try await files(nil).map(\.key)
    }

    func isRemoved(_ key: String) -> Bool { !isMoved }

    func open(_ key: String) async throws -> (any CopiedFile)? {
        if let failure = failures[key] { throw failure }
        let content = contents.withLock { vanishing.contains(key) ? $0.removeValue(forKey: key) : $0[key] }
        return content.map { RemoteFile($0) }
    }

    func store(_ file: any CopiedFile, as key: String, isPresent: Bool) async throws {
        #expect(isPresent == contents.withLock { $0[key] != nil })
        let content = try await file.read(0..<file.sizeInBytes)
        contents.withLock { $0[key] = isLossy ? Data(content.dropLast()) + Data("?".utf8) : content }
    }

    func delete(_ key: String) async throws {
        if let failure = failures[key] { throw failure }
        contents.withLock { $0[key] = nil }
    }

    func finish() { flushes.withLock { $0 += 1 } }

    func isSameFile(_ key: String, _ other: String) -> Bool {
        foldsCase ? key.lowercased() == other.lowercased() : key == other
    }
}

@Suite("A copy of files between a server and another place")
struct ServerFileTransferTests {
    private typealias ExitStatus = ForgeCommands.ExitStatus

    private func transfer(_ source: RemotePlace, _ target: RemotePlace, _ options: String...) async throws {
        let arguments = try TransferArguments.parse(["tree:source", "tree:target"] + options)
        let log = TransferLog(arguments)
        try await ServerFileTransfer(arguments, log, from: source, to: target).run()
        try log.finish()
    }

    private func status(_ body: () async throws -> Void) async -> ExitStatus {
        do {
            try await body()
            return .success
        } catch {
            return ExitStatus(of: error)
        }
    }

    @Test("what differs is copied, what is equal is not, and a dry run changes nothing")
    func copies() async throws {
        let source = RemotePlace(["a": "1", "b": "22", "c": "3", "d/e": "", "f": "55"])
        let target = RemotePlace(["b": "22", "c": "4", "f": "5", "other": "x"])
        let before = target.texts
        try await transfer(source, target, "--dry-run", "--delete", "--verify")
        #expect(target.texts == before && target.flushes.withLock { $0 } == 0)
        try await transfer(source, target, "--verify")
        #expect(target.texts == ["a": "1", "b": "22", "c": "3", "d/e": "", "f": "55", "other": "x"])
        // Before and after the deletions.
        #expect(target.flushes.withLock { $0 } == 2)
    }

    @Test("--delete removes what the source does not have, unless it is too much or the source is incomplete")
    func deletion() async throws {
        let target = RemotePlace(["a": "1", "x": "", "y": ""])
        #expect(
            await status { try await transfer(RemotePlace(["a": "1"]), target, "--delete", "--max-delete", "1") }
                == .partial)
        #expect(target.texts.count == 3)
        let failing = RemotePlace(["a": "1"], failures: ["list": CancellationError()])
        #expect(await status { try await transfer(failing, target, "--delete") } == .partial)
        #expect(target.texts.count == 3)
        #expect(await status { try await transfer(RemotePlace(), target, "--delete") } == .failure)
        #expect(target.texts.count == 3)
        try await transfer(RemotePlace(["a": "1"]), target, "--delete", "--max-delete", "2")
        #expect(target.texts == ["a": "1"])
        // A file that disappears before it is deleted is no failure.
        let racing = RemotePlace(["a": "1", "x": ""], failures: ["x": FileStoreError(.notFound, .delete, key: "x")])
        try await transfer(RemotePlace(["a": "1"]), racing, "--delete")
    }

    @Test("a store in the way of a file is a failure of that file, also in a dry run", arguments: [true, false])
    func presentStore(isDryRun: Bool) async throws {
        let scratch = try Scratch()
        try await scratch.makeStores(in: "t")
        let before = try scratch.contents("t")
        let arguments = try TransferArguments.parse(["tree:source", "tree:target"] + (isDryRun ? ["--dry-run"] : []))
        let log = TransferLog(arguments)
        let source = RemotePlace(["a": "1", "fs/new": "2", "log/log": "3"])
        try await ServerFileTransfer(arguments, log, from: source, to: LocalFilePlace(scratch.home("tree:t"))).run()
        let failure = #expect(throws: CommandFailure.self) { try log.finish() }
        #expect(failure?.description == "2 items failed, 1 did not")
        #expect(try scratch.contents("t") == before.merging(isDryRun ? [:] : ["a": Data("1".utf8)]) { $1 })
    }

    @Test("another spelling of a copied file is not deleted where both are one file")
    func spellings() async throws {
        let target = RemotePlace(["A": "1", "b": ""], foldsCase: true)
        try await transfer(RemotePlace(["a": "1"]), target, "--delete")
        #expect(target.texts == ["A": "1", "a": "1"])
        let exact = RemotePlace(["A": "1"])
        try await transfer(RemotePlace(["a": "1"]), exact, "--delete")
        #expect(exact.texts == ["a": "1"])
    }

    @Test("what differs when it is read back is a failure")
    func verification() async throws {
        let target = RemotePlace(isLossy: true)
        #expect(await status { try await transfer(RemotePlace(["a": "1"]), target) } == .success)
        let other = RemotePlace(isLossy: true)
        #expect(await status { try await transfer(RemotePlace(["a": "1"]), other, "--verify") } == .partial)
    }

    @Test("a file that was removed since it was listed is no failure")
    func removed() async throws {
        let target = RemotePlace()
        try await transfer(RemotePlace(["a": "1"], removed: ["b"]), target, "--verify")
        #expect(target.texts == ["a": "1"])
        // Between the copy and its verification.
        try await transfer(RemotePlace(["a": "1", "c": "2"], vanishing: ["c"]), target, "--verify", "--delete")
        #expect(target.texts == ["a": "1", "c": "2"])
    }

    @Test("nothing is deleted if a file of the source may have been moved meanwhile")
    func moved() async throws {
        let target = RemotePlace(["a": "1", "x": ""])
        let listed = await #expect(throws: CommandFailure.self) {
            try await transfer(RemotePlace(["a": "1"], removed: ["d/b"], isMoved: true), target, "--delete")
        }
        #expect(listed?.description == "nothing was deleted: 1 item failed" && listed?.status == .partial)
        let unlisted = await #expect(throws: CommandFailure.self) {
            try await transfer(RemotePlace(["a": "1"], appearing: ["d/b", "e"]), target, "--delete")
        }
        let reason = "the source has changed during the copy, and e was not copied; copy again"
        #expect(unlisted?.description == "nothing was deleted: \(reason)" && unlisted?.status == .partial)
        #expect(target.texts == ["a": "1", "d/b": "new", "x": ""])
        // A file that appears only once is copied first; it may have the key, or a spelling, of one to be deleted.
        for (key, foldsCase) in [("c", false), ("x", false), ("X", true)] {
            let place = RemotePlace(["a": "1", "x": "", "y": ""], foldsCase: foldsCase)
            try await transfer(RemotePlace(["a": "1"], appearing: [key]), place, "--delete", "--verify")
            var expected = ["a": "1", key: "new"]
            if foldsCase { expected["x"] = "" }
            #expect(place.texts == expected, "\(key)")
        }
        // Without anything to delete, it is one that was created since.
        let complete = RemotePlace(["a": "1"])
        try await transfer(RemotePlace(["a": "1"], appearing: ["d/b"]), complete, "--delete")
    }

    @Test("a file that appears meanwhile is durable before anything is deleted, and verified; if it fails, nothing is")
    func appeared() async throws {
        func source(_ failures: [String: any Error] = [:]) -> RemotePlace {
            RemotePlace(["a": "1"], failures: failures, appearing: ["c"])
        }
        let target = RemotePlace(["a": "1", "x": ""])
        try await transfer(source(), target, "--delete", "--verify", "--dry-run")
        #expect(target.texts == ["a": "1", "x": ""] && target.flushes.withLock { $0 } == 0)
        let unreadable = SourceFailure(error: FileSystemError(.read, .ioError))
        let incomplete = await #expect(throws: CommandFailure.self) {
            try await transfer(source(["c": unreadable]), target, "--delete")
        }
        #expect(incomplete?.description == "nothing was deleted: 1 item failed")
        #expect(target.texts == ["a": "1", "x": ""])
        let complete = RemotePlace(["a": "1", "x": ""])
        try await transfer(source(), complete, "--delete", "--verify")
        // After the copies, after that of the new file, and after the deletions.
        #expect(complete.texts == ["a": "1", "c": "new"] && complete.flushes.withLock { $0 } == 3)
        let lossy = RemotePlace(["a": "1", "x": ""], isLossy: true)
        let differing = await #expect(throws: CommandFailure.self) {
            try await transfer(source(), lossy, "--delete", "--verify")
        }
        #expect(differing?.description == "1 item failed, 3 did not")
    }

    @Test(
        "a copy between places in S3 of which one contains the other is wrong usage, and no server is asked",
        arguments: [("s3://bucket/a", "s3://bucket/a/b"), ("s3://bucket/a/b", "s3://bucket/a")])
    func nestedPlaces(source: String, target: String) throws {
        let arguments = try TransferArguments.parse([source, target])
        let failure = #expect(throws: CommandFailure.self) { try ServerFileTransfer(arguments, TransferLog(arguments)) }
        #expect(failure?.status == .usage)
        #expect(failure?.description == "\(source) and \(target) contain one another")
    }

    @Test(
        "an error of one file is listed, and the others are copied",
        arguments: [
            FileStoreError(.tooLarge, .save), FileStoreError(.isDirectory, .load), FileStoreError(.conflict, .save),
            FileStoreError(.unavailable(.inputOutput), .load), FileSystemError(.open, .isDirectory),
            FileSystemError(.open, .fileNameTooLong), FileSystemError(.open, .notDirectory), CopyDamage(),
            SourceFailure(error: FileSystemError(.read, .ioError)),
        ] as [any Error])
    func partial(error: any Error) async throws {
        let target = RemotePlace(failures: ["b": error])
        let source = RemotePlace(["a": "1", "b": "2", "c": "3"])
        let failure = await #expect(throws: CommandFailure.self) { try await transfer(source, target, "--verify") }
        #expect(failure?.description == "1 item failed, 2 did not" && failure?.status == .partial)
        #expect(target.texts == ["a": "1", "c": "3"])
    }

    @Test("a source without a file that can be copied is not taken for an empty one")
    func nothingToCopy() async throws {
        let source = RemotePlace(failures: ["list": CancellationError()])
        let failure = await #expect(throws: CommandFailure.self) { try await transfer(source, RemotePlace()) }
        #expect(failure?.description == "1 item failed, 0 did not")
        let empty = await #expect(throws: CommandFailure.self) { try await transfer(RemotePlace(), RemotePlace()) }
        #expect(empty?.description.hasPrefix("the source is empty: ") == true)
    }

    @Test("a copy from a server makes no file store above files of others")
    func storeAboveOthers() throws {
        let scratch = try Scratch()
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try store.set(KVKey<Int>("k"), value: 1)
        try store.close()
        try FileManager.default.createDirectory(atPath: scratch.path("t/d"), withIntermediateDirectories: true)
        try FileManager.default.moveItem(atPath: scratch.path("kv/log"), toPath: scratch.path("t/d/log"))
        // No server is asked.
        let run = try CommandRun(["copy", "s3://bucket/app", "file:\(scratch.path("t"))"])
        #expect(run.status == 2, "\(run.errors)")
        #expect(run.errors.hasSuffix(" would take files of others for its own: d/log\n"), "\(run.errors)")
        #expect(try FileManager.default.subpathsOfDirectory(atPath: scratch.path("t")).sorted() == ["d", "d/log"])
    }

    @Test(
        "an error of all files ends the copy with its own status",
        arguments: [
            (FileStoreError(.unavailable(.server), .load), .unreachable), (FileStoreError(.noSpace, .save), .failure),
            (FileSystemError(.write, .noSpace), .failure), (CancellationError(), .interrupted),
            (
                FileStoreError(
                    .unavailable(.inputOutput), .save, underlying: FileSystemError(.write, .ioError)), .failure
            ),
        ] as [(any Error, ForgeCommands.ExitStatus)])
    func all(error: any Error, expected: ForgeCommands.ExitStatus) async throws {
        let source = RemotePlace(["a": "1", "b": "2"])
        #expect(await status { try await transfer(source, RemotePlace(failures: ["a": error])) } == expected)
    }

    // MARK: Local files

    /// Opens a file of a directory for a copy.
    private func opened(_ name: String, in scratch: Scratch) async throws -> LocalCopiedFile {
        let place = try LocalFilePlace(#require(Home(argument: "tree:\(scratch.url.path)")))
        let file = try await place.open(name)
        return try #require(file as? LocalCopiedFile)
    }

    @Test("the checksum of a local file is computed once, and not if the file changes meanwhile")
    func localChecksum() async throws {
        let scratch = try Scratch()
        let content = Data(repeating: 7, count: (2 << 20) + 1)
        try scratch.plant("a", content)
        let file = try await opened("a", in: scratch)
        #expect(file.knownChecksum == nil)
        let checksum = try await file.checksum()
        let expected = try #require(RemoteFile(content).knownChecksum)
        #expect(checksum == expected && file.knownChecksum == expected)
        try file.requireUnchanged()
        let other = try await opened("a", in: scratch)
        let handle = try FileHandle(forWritingTo: scratch.url.appendingPathComponent("a"))
        try handle.truncate(atOffset: 1)
        try handle.close()
        #expect(throws: SourceFailure.self) { try other.requireUnchanged() }
        await #expect(throws: SourceFailure.self) { try await other.checksum() }
        #expect(other.knownChecksum == nil)
    }

    @Test("a file with attributes that changes while it is copied to a file store is not stored")
    func changedWithAttributes() async throws {
        let scratch = try Scratch()
        let source = DiskFileStore(root: scratch.url.appendingPathComponent("s"))
        try await source.save(Data(repeating: 7, count: 1 << 17), to: "a", attributes: ["type": "note"])
        let target = DiskFileStore(root: scratch.url.appendingPathComponent("t"))
        let local = try await opened("s/a", in: scratch)
        try await local.file.store(in: target, as: "whole")
        #expect(try await target.attributes(of: "whole") == ["type": "note"])
        let handle = try FileHandle(forWritingTo: scratch.url.appendingPathComponent("s/a"))
        try handle.truncate(atOffset: 1)
        try handle.close()
        await #expect(throws: SourceFailure.self) { try await local.file.store(in: target, as: "a") }
        #expect(try await target.list(in: "", recursive: true).map(\.key) == ["whole"])
    }

    #if os(Linux)
    @Test("a local file is closed after its copy")
    func closedLocalFile() async throws {
        let scratch = try Scratch()
        try scratch.plant("a", "text")
        func isOpen() throws -> Bool {
            // The descriptors of other tests may be closed meanwhile.
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").contains { number in
                let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
                return path == scratch.path("a")
            }
        }
        do {
            let file = try await opened("a", in: scratch)
            #expect(try await file.checksum().count == 64)
            #expect(try isOpen())
            withExtendedLifetime(file) {}
        }
        #expect(try isOpen() == false)
    }
    #endif
}
