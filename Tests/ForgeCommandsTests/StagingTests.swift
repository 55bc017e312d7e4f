import ChildProcesses
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeCommands

@Suite("A copy under a temporary name")
struct PartialFileTests {
    let scratch: Scratch
    private let fileSystem = SystemFileSystem()
    private let content = Data(repeating: 7, count: 1_000_000) + Data(repeating: 8, count: 2_000_000)

    init() throws {
        scratch = try Scratch()
        try content.write(to: scratch.url.appendingPathComponent("source"))
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: scratch.path("to")) }
    }

    /// Opens the source, and a copy of it in the directory `to`.
    private func withCopy(_ body: (SourceFile, PartialFile) throws -> Void) throws {
        try FileManager.default.createDirectory(atPath: scratch.path("to"), withIntermediateDirectories: true)
        let path = try POSIXPath(scratch.url.appendingPathComponent("source"))
        let file = try SourceFile(path, in: .workingDirectory, path: path, on: fileSystem)
        defer { fileSystem.discard(file.descriptor) }
        let directory = try fileSystem.open(
            POSIXPath(scratch.url.appendingPathComponent("to")), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        try body(file, PartialFile(of: file, in: directory, on: fileSystem))
    }

    private func inode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: scratch.path("to/\(name)"))[.systemFileNumber] as? Int
    }

    /// Creates the partial file that a killed copy leaves, with other bytes; returns its name.
    private func leave(_ bytes: Data) throws -> String {
        try withCopy { _, _ in }
        let name = try #require(names.first)
        try bytes.write(to: scratch.url.appendingPathComponent("to/\(name)"))
        return name
    }

    @Test("a file that changes while it is copied fails with that reason")
    func changedSource() throws {
        try withCopy { file, _ in
            try file.requireUnchanged()
            try Data("other".utf8).write(to: scratch.url.appendingPathComponent("source"))
            let failure = #expect(throws: SourceFailure.self) { try file.requireUnchanged() }
            #expect(failure?.description == "changed while it was copied")
        }
    }

    @Test("continues what a killed copy has written, and replaces what is not the source's")
    func continues() throws {
        for flaw in [nil, 0, 500_000, 1_999_999] {
            var half = content.prefix(2_000_000)
            if let flaw { half[flaw] ^= 1 }
            let left = try inode(leave(half + Data(count: flaw == nil ? 0 : 2_000_000)))
            try withCopy { file, copy in try copy.finish(file, as: "final", isExpected: false) }
            #expect(try inode("final") == left)
            #expect(try Data(contentsOf: scratch.url.appendingPathComponent("to/final")) == content)
            #expect(try names == ["final"])
            try FileManager.default.removeItem(atPath: scratch.path("to/final"))
        }
    }

    @Test("does not write again what is there already")
    func keepsBeginning() throws {
        let zeros = Data(count: 3 << 20)
        try zeros.write(to: scratch.url.appendingPathComponent("source"))
        let left = try leave(Data())
        // The beginning of the copy is a hole, which only a write would fill.
        try #require(truncate(scratch.path("to/\(left)"), 2 << 20) == 0)
        try withCopy { file, copy in
            #expect(!file.mayHaveHoles)
            try copy.finish(file, as: "final", isExpected: false)
        }
        let final = scratch.url.appendingPathComponent("to/final")
        #expect(try Data(contentsOf: final) == zeros)
        #expect(try fileSystem.status(POSIXPath(final)).allocatedSizeInBytes < 2 << 20)
    }

    @Test("what has its name and is none is kept", arguments: ["link", "hard link", "directory", "pipe"])
    func foreign(kind: String) throws {
        let name = try leave(Data())
        let path = scratch.path("to/\(name)")
        try FileManager.default.removeItem(atPath: path)
        try scratch.plant("mine", "mine")
        switch kind {
        case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: scratch.path("mine"))
        case "hard link": try FileManager.default.linkItem(atPath: scratch.path("mine"), toPath: path)
        case "directory": try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        default: try #require(mkfifo(path, 0o600) == 0)
        }
        try withCopy { file, copy in try copy.finish(file, as: "final", isExpected: false) }
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("to/final")) == content)
        #expect(try String(contentsOfFile: scratch.path("mine"), encoding: .utf8) == "mine")
        #expect(try Set(names) == ["final", name])
    }

    @Test("begins anew for a source that has changed")
    func changed() throws {
        let left = try leave(content.prefix(2_000_000))
        try Data("new".utf8).write(to: scratch.url.appendingPathComponent("source"))
        try withCopy { file, copy in try copy.finish(file, as: "final", isExpected: false) }
        #expect(try Set(names) == ["final", left])
        #expect(try String(contentsOfFile: scratch.path("to/final"), encoding: .utf8) == "new")
    }

    @Test("two copies of one source to one place do not write into one file")
    func together() throws {
        try withCopy { file, first in
            try withCopy { other, second in
                #expect(try names.count == 2)
                try second.finish(other, as: "final", isExpected: false)
            }
            #expect(try Data(contentsOf: scratch.url.appendingPathComponent("to/final")) == content)
            try first.finish(file, as: "final", isExpected: true)
        }
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("to/final")) == content)
        #expect(try names == ["final"])
    }

    @Test("only a short file is read as a whole", arguments: [0, 1 << 16, (1 << 16) + 1])
    func shortContent(count: Int) throws {
        let content = Data(repeating: 7, count: count)
        try content.write(to: scratch.url.appendingPathComponent("source"))
        try withCopy { file, _ in
            let expected = count <= 1 << 16 ? [UInt8](content) : nil
            let found = try file.shortContent()
            #expect(found == expected)
            guard expected != nil else { return }
            try Data("changed".utf8).write(to: scratch.url.appendingPathComponent("source"))
            #expect(throws: SourceFailure.self) { try file.shortContent() }
        }
    }

    @Test("a failed copy leaves nothing, and names the file that has failed")
    func failed() throws {
        try withCopy { file, copy in
            try Data("new".utf8).write(to: scratch.url.appendingPathComponent("other"))
            let source = try FileHandle(forWritingTo: scratch.url.appendingPathComponent("source"))
            try source.write(contentsOf: Data("changed".utf8))
            let failure = #expect(throws: SourceFailure.self) {
                try copy.finish(file, as: "final", isExpected: false)
            }
            #expect(failure?.error.path == file.path)
        }
        #expect(try names.isEmpty)
    }

    @Test("a source that cannot be read any more is the one that fails, and nothing is left")
    func unreadableSource() throws {
        try withCopy { file, copy in
            // A descriptor that only writes takes the place of the source's.
            let other = try FileDescriptor.open(FilePath(scratch.path("source")), .writeOnly)
            _ = try other.duplicate(as: FileDescriptor(rawValue: file.descriptor.rawValue))
            try other.close()
            let failure = #expect(throws: SourceFailure.self) {
                try copy.finish(file, as: "final", isExpected: false)
            }
            #expect(failure?.error.errno == .badFileDescriptor && failure?.isChange == false)
            let unread = #expect(throws: SourceFailure.self) { try file.read(0..<1) }
            #expect(unread?.error.errno == .badFileDescriptor && unread?.error.path == file.path)
        }
        #expect(try names.isEmpty)
    }

    @Test("a directory contains itself and what is below it, also through a link")
    func ancestry() throws {
        try FileManager.default.createDirectory(atPath: scratch.path("a/b"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.path("link"), withDestinationPath: scratch.path("a/b"))
        func line(_ name: String) throws -> Ancestry {
            Ancestry(of: try POSIXPath(scratch.url.appendingPathComponent(name)))
        }
        for inside in ["a", "a/b", "link", "link/new", "a/new/newer"] {
            #expect(try line("a").contains(line(inside)), "\(inside)")
        }
        for outside in ["", "b", "b/a"] { #expect(try !line("a").contains(line(outside)), "\(outside)") }
        #expect(try !line("new").contains(line("new")))
    }
}

/// A file on a server, in memory.
final class RemoteFile: CopiedFile {
    let content: Data
    let sizeInBytes: Int64
    let knownChecksum: String?
    /// Where a read fails, as if the server had disappeared.
    let end: Int64
    /// The offsets that were read.
    let offsets = Mutex<[Int64]>([])

    init(
        _ content: Data, sizeInBytes: Int? = nil, hasChecksum: Bool = true, checksum: String? = nil, end: Int64 = .max
    ) {
        self.content = content
        self.sizeInBytes = Int64(sizeInBytes ?? content.count)
        self.end = end
        var hash = ContentHash()
        hash.update(content)
        knownChecksum = hasChecksum ? checksum ?? hash.finish() : nil
    }

    var identity: String { "identity" }

    func read(_ range: Range<Int64>) async throws -> Data {
        offsets.withLock { $0.append(range.lowerBound) }
        guard range.upperBound <= end else { throw FileStoreError(.unavailable(.server), .load, key: "a") }
        return content[Int(range.lowerBound)..<min(Int(range.upperBound), content.count)]
    }

    func checksumOfContent() async throws -> String {
        var hash = ContentHash()
        hash.update(content)
        return hash.finish()
    }

    func requireUnchanged() {}
}

@Suite("A copy from a server under a temporary name")
struct PartialDownloadTests {
    private let scratch: Scratch
    private let fileSystem = SystemFileSystem()
    /// 20 MiB; a byte differs from the one 256 bytes later.
    private let content: Data = {
        let block = Data((0..<1 << 16).map { UInt8(truncatingIfNeeded: $0 >> 8) })
        return (0..<20 << 4).reduce(into: Data()) { content, _ in content.append(block) }
    }()

    init() throws {
        scratch = try Scratch()
    }

    private func copy(_ file: RemoteFile) async throws {
        let directory = try fileSystem.open(POSIXPath(scratch.url), .readOnly, options: [.directory])
        defer { fileSystem.discard(directory) }
        try await PartialFile(of: Array("a".utf8), in: directory, on: fileSystem)
            .finish(file, as: "final", isExpected: false)
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) }
    }

    @Test("goes on where the server was lost, and the name appears when the file is complete")
    func continues() async throws {
        await #expect(throws: FileStoreError.self) { try await copy(RemoteFile(content, end: 16 << 20)) }
        let name = try #require(names.first)
        #expect(try names.count == 1 && PartialFile.isName(POSIXPath(name)))
        let file = RemoteFile(content)
        try await copy(file)
        #expect(file.offsets.withLock { $0 } == [16 << 20])
        #expect(try names == ["final"])
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("final")) == content)
    }

    @Test(
        "begins again if what was written is not of this content, or nothing can tell",
        arguments: [(true, 16 << 20), (true, 21 << 20), (false, 21 << 20)])
    func beginsAgain(hasChecksum: Bool, count: Int) async throws {
        await #expect(throws: FileStoreError.self) { try await copy(RemoteFile(content, end: 16 << 20)) }
        let left = scratch.url.appendingPathComponent(try #require(names.first))
        if hasChecksum {
            var damaged = try Data(contentsOf: left)
            damaged[9 << 20] ^= 1
            try damaged.write(to: left)
        }
        try #require(truncate(left.path, off_t(count)) == 0)
        let file = RemoteFile(content, hasChecksum: hasChecksum)
        try await copy(file)
        #expect(file.offsets.withLock { $0.contains(0) })
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("final")) == content)
    }

    @Test("a content without its checksum is not stored, and leaves nothing")
    func damage() async throws {
        await #expect(throws: CopyDamage.self) { try await copy(RemoteFile(content, checksum: "00")) }
        #expect(try names.isEmpty)
    }

    @Test("a file that has become shorter on the server is not stored, and leaves nothing")
    func shorter() async throws {
        await #expect(throws: CopyDamage.self) { try await copy(RemoteFile(Data("text".utf8), sizeInBytes: 5)) }
        #expect(try names.isEmpty)
    }

    @Test("a file of less than 8 MiB that was interrupted leaves nothing", arguments: [(8 << 20) - 1, 8 << 20])
    func short(count: Int) async throws {
        await #expect(throws: FileStoreError.self) { try await copy(RemoteFile(content.prefix(count), end: 0)) }
        #expect(try names.count == (count < 8 << 20 ? 0 : 1))
    }
}

@Suite("the directory beside the destination in which a backup or a restore is completed")
struct StagedDirectoryTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        let store = try FileKVStore(at: scratch.url.appendingPathComponent("app/kv"))
        try store.set(KVKey<String>("name"), value: "dusk")
        try store.synchronize()
        try store.close()
        try #require(try CommandRun(["backup", scratch.path("app"), scratch.path("saved")]).status == 0)
    }

    private var staged: URL { scratch.url.appendingPathComponent(".b.partial") }

    /// Every path below the scratch directory, with the content of files and the targets of links.
    private func tree() throws -> [String: Data?] {
        var found: [String: Data?] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path) {
            let link = try? FileManager.default.destinationOfSymbolicLink(atPath: scratch.path(path))
            found[path] = .some(link.map { Data($0.utf8) } ?? FileManager.default.contents(atPath: scratch.path(path)))
        }
        return found
    }

    /// Makes what an interrupted run leaves: the directory of an unfinished one, under its name.
    private func plantLeftover() throws {
        let copy = scratch.url.appendingPathComponent("copy")
        do {
            let unfinished = try StagedDirectory(for: POSIXPath(scratch.url.appendingPathComponent("b")), keeping: [])
            try Data("unfinished".utf8).write(to: URL(unfinished.path).appendingPathComponent("manifest"))
            try FileManager.default.copyItem(at: staged, to: copy)
        }
        try #require(!FileManager.default.fileExists(atPath: staged.path))
        try FileManager.default.moveItem(at: copy, to: staged)
    }

    private func words(_ verb: String) -> [String] {
        [verb, scratch.path(verb == "backup" ? "app" : "saved"), scratch.path("b")]
    }

    enum Foreign: String, CaseIterable, CustomTestStringConvertible {
        case backup, directory, contentAlone, store, file, link, linkToLeftover, fileBesideMarker, otherMarker
        case markerInLink

        var testDescription: String { rawValue }
    }

    @Test(
        "whatever has its name and was not left by an interrupted run is refused, and kept as it is",
        arguments: ["backup", "restore"], Foreign.allCases)
    func foreign(verb: String, foreign: Foreign) throws {
        switch foreign {
        case .backup: try #require(try CommandRun(["backup", scratch.path("app"), staged.path]).status == 0)
        case .directory: try scratch.plant(".b.partial/mine", "mine")
        case .contentAlone: try scratch.plant(".b.partial/\(StagedDirectory.contentName.shown)/mine", "mine")
        case .store: try #require(try CommandRun(["kv", "set", "\(staged.path)/kv", "user", "1"]).status == 0)
        case .file: try scratch.plant(".b.partial", "mine")
        case .link:
            try scratch.plant("target/mine", "mine")
            try FileManager.default.createSymbolicLink(atPath: staged.path, withDestinationPath: scratch.path("target"))
        case .linkToLeftover:
            try plantLeftover()
            try FileManager.default.moveItem(at: staged, to: scratch.url.appendingPathComponent("moved"))
            try FileManager.default.createSymbolicLink(atPath: staged.path, withDestinationPath: scratch.path("moved"))
        case .fileBesideMarker:
            try plantLeftover()
            try scratch.plant(".b.partial/mine", "mine")
        case .otherMarker:
            try plantLeftover()
            try scratch.plant(".b.partial/\(StagedDirectory.markerName.shown)", "another program's")
        case .markerInLink:
            try plantLeftover()
            let marker = staged.appendingPathComponent(StagedDirectory.markerName.shown)
            try FileManager.default.moveItem(at: marker, to: scratch.url.appendingPathComponent("marker"))
            try FileManager.default.createSymbolicLink(
                atPath: marker.path, withDestinationPath: scratch.path("marker"))
        }
        let before = try tree()
        let run = try CommandRun(words(verb))
        #expect(run.status == 1 && run.errorLines.count == 1, "\(run.status) \(run.errors)")
        let reason = "exists and is not what an interrupted run has left; it was left as it is"
        #expect(run.errors == "Error: \(staged.path) \(reason)\n")
        #expect(try tree() == before, "\(run.errors)")
    }

    @Test("an input that has its name is kept", arguments: ["backup", "restore"], [true, false])
    func input(verb: String, isLeftover: Bool) throws {
        if isLeftover {
            try plantLeftover()
        } else {
            try FileManager.default.moveItem(
                at: scratch.url.appendingPathComponent(verb == "backup" ? "app" : "saved"), to: staged)
        }
        let before = try tree()
        // A leftover has the files of a backup below it.
        let source = isLeftover ? "\(staged.path)/\(StagedDirectory.contentName.shown)" : staged.path
        let run = try CommandRun([verb, verb == "backup" ? staged.path : source, scratch.path("b")])
        #expect(run.status != 0 && run.errorLines.count == 1, "\(run.status) \(run.errors)")
        #expect(try tree() == before, "\(run.errors)")
    }

    enum Leftover: String, CaseIterable, CustomTestStringConvertible {
        case unfinished, markerAlone, emptyMarker, emptyDirectory

        var testDescription: String { rawValue }
    }

    @Test(
        "what an interrupted run has left is removed by the next one to the same destination",
        arguments: ["backup", "restore"], Leftover.allCases)
    func leftover(verb: String, leftover: Leftover) throws {
        try plantLeftover()
        let content = staged.appendingPathComponent(StagedDirectory.contentName.shown)
        let marker = staged.appendingPathComponent(StagedDirectory.markerName.shown)
        if leftover != .unfinished { try FileManager.default.removeItem(at: content) }
        switch leftover {
        case .unfinished, .markerAlone: break
        case .emptyMarker: try Data().write(to: marker)
        case .emptyDirectory: try FileManager.default.removeItem(at: marker)
        }
        let run = try CommandRun(words(verb))
        #expect(run.status == 0, "\(run.errors)")
        #expect(!FileManager.default.fileExists(atPath: staged.path))
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.path("b")).sorted()
        #expect(names == (verb == "backup" ? ["content", "manifest"] : ["kv"]))
    }

    @Test("a second run to the same destination fails while the first one writes", arguments: ["backup", "restore"])
    func inUse(verb: String) throws {
        let first = try StagedDirectory(for: POSIXPath(scratch.url.appendingPathComponent("b")), keeping: [])
        try Data("unfinished".utf8).write(to: URL(first.path).appendingPathComponent("manifest"))
        let before = try tree()
        let run = try CommandRun(words(verb))
        #expect(run.status == 5, "\(run.status) \(run.errors)")
        #expect(try tree() == before)
        try first.place()
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("b")) == ["manifest"])
        #expect(!FileManager.default.fileExists(atPath: staged.path))
    }
}
