import ChildProcesses
import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

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

    private func plant(_ path: String, _ text: String) throws {
        let file = scratch.url.appendingPathComponent(path)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
    }

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
        case backup, directory, store, file, link, linkToLeftover, fileBesideMarker, otherMarker, markerInLink

        var testDescription: String { rawValue }
    }

    @Test(
        "whatever has its name and was not left by an interrupted run is refused, and kept as it is",
        arguments: ["backup", "restore"], Foreign.allCases)
    func foreign(verb: String, foreign: Foreign) throws {
        switch foreign {
        case .backup: try #require(try CommandRun(["backup", scratch.path("app"), staged.path]).status == 0)
        case .directory: try plant(".b.partial/mine", "mine")
        case .store: try #require(try CommandRun(["kv", "set", "\(staged.path)/kv", "user", "1"]).status == 0)
        case .file: try plant(".b.partial", "mine")
        case .link:
            try plant("target/mine", "mine")
            try FileManager.default.createSymbolicLink(atPath: staged.path, withDestinationPath: scratch.path("target"))
        case .linkToLeftover:
            try plantLeftover()
            try FileManager.default.moveItem(at: staged, to: scratch.url.appendingPathComponent("moved"))
            try FileManager.default.createSymbolicLink(atPath: staged.path, withDestinationPath: scratch.path("moved"))
        case .fileBesideMarker:
            try plantLeftover()
            try plant(".b.partial/mine", "mine")
        case .otherMarker:
            try plantLeftover()
            try plant(".b.partial/\(StagedDirectory.markerName.shown)", "another program's")
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
        #expect(run.errors.contains(".b.partial"), "\(run.errors)")
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
