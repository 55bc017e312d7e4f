import ForgeStorage
import Foundation
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
