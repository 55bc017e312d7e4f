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
    /// Whether keys that differ only in case are one file.
    let foldsCase: Bool
    let flushes = Mutex(0)

    init(
        _ contents: [String: String] = [:], failures: [String: any Error] = [:], isLossy: Bool = false,
        removed: [String] = [], foldsCase: Bool = false
    ) {
        self.contents = Mutex(contents.mapValues { Data($0.utf8) })
        self.failures = failures
        self.isLossy = isLossy
        self.removed = removed
        self.foldsCase = foldsCase
    }

    var texts: [String: String] { contents.withLock { $0.mapValues { String(decoding: $0, as: UTF8.self) } } }

    func files(_ log: TransferLog?) async throws -> [FilePlaceEntry] {
        if log != nil, failures["list"] != nil { try log?.record(.fail, "list", reason: "as planned") }
        let found = contents.withLock { $0.map { FilePlaceEntry(key: $0.key, sizeInBytes: Int64($0.value.count)) } }
        let all = found + removed.map { FilePlaceEntry(key: $0, sizeInBytes: 1) }
        return all.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }

    func open(_ key: String) async throws -> (any CopiedFile)? {
        if let failure = failures[key] { throw failure }
        return contents.withLock { $0[key] }.map { RemoteFile($0) }
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
        let source = RemotePlace(["a": "1", "b": "22", "c": "3", "d/e": ""])
        let target = RemotePlace(["b": "22", "c": "4", "other": "x"])
        let before = target.texts
        try await transfer(source, target, "--dry-run", "--delete", "--verify")
        #expect(target.texts == before && target.flushes.withLock { $0 } == 0)
        try await transfer(source, target, "--verify")
        #expect(target.texts == ["a": "1", "b": "22", "c": "3", "d/e": "", "other": "x"])
        #expect(target.flushes.withLock { $0 } > 0)
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
        #expect(await status { try await transfer(source, target) } == .partial)
        #expect(target.texts == ["a": "1", "c": "3"])
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
}
