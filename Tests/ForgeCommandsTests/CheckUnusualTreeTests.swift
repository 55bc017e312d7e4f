import ForgeStorage
import Foundation
import SystemPackage
import Testing

@Suite("check on unusual trees")
struct CheckUnusualTreeTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a directory that is too deep is one short finding among the others")
    func tooDeep() throws {
        let fileSystem = SystemFileSystem()
        let root = scratch.url.appendingPathComponent("tree")
        let mode: FilePermissions = [.ownerReadWriteExecute]
        let name = POSIXPath(String(repeating: "d", count: 250))
        try fileSystem.makeDirectories(POSIXPath(root))
        defer { try? fileSystem.removeItem(at: root) }
        var directory = try fileSystem.open(POSIXPath(root), .readOnly, options: [.directory], permissions: [])
        for _ in 0..<18 {
            try fileSystem.createDirectory("#trash-abcdefghabcdefgh-0", at: directory, permissions: mode)
            try fileSystem.createDirectory(name, at: directory, permissions: mode)
            let next = try fileSystem.open(name, at: directory, .readOnly, options: [.directory], permissions: [])
            try fileSystem.close(directory)
            directory = next
        }
        try fileSystem.close(directory)
        try Data("x".utf8).write(to: root.appendingPathComponent("zz"))
        let run = try CommandRun(["check", root.path])
        #expect(run.status == 1)
        let lines = run.output.split(separator: "\n")
        #expect(lines.contains { $0.contains("(ENAMETOOLONG)") && $0.contains("damaged") })
        #expect(lines.contains { $0.hasPrefix("zz ") })
        #expect(lines.allSatisfy { $0.count < 800 }, "\(lines.map(\.count))")
    }

    @Test("the holes of a sparse file are skipped and reported", .timeLimit(.minutes(10)))
    func sparse() throws {
        let url = scratch.url.appendingPathComponent("sparse")
        try Data("data".utf8).write(to: url)
        try #require(truncate(url.path, 7 << 40) == 0)
        let run = try CommandRun(["check", scratch.url.path])
        #expect(run.status == 0, "\(run.errors)")
        #expect(run.output.contains("sparse; read 1.0 MiB, skipped holes"), "\(run.output)")
    }
}
