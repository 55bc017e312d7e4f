import Foundation
import Testing

@Suite("The directory of the demo")
struct DemoDirectoryTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func plant(_ path: String) throws -> URL {
        let file = scratch.url.appendingPathComponent(path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data("mine".utf8).write(to: file)
        return file
    }

    private func demo(_ arguments: String...) throws -> CommandRun {
        try CommandRun(["demo", "--directory", scratch.path("demo")] + arguments)
    }

    @Test("a directory that holds other files is refused and left unchanged")
    func foreign() throws {
        let file = try plant("demo/files/mine.txt")
        let run = try demo()
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(try Data(contentsOf: file) == Data("mine".utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("demo")) == ["files"])
    }

    @Test("logging out removes what the demo stored and nothing else")
    func otherFilesStay() throws {
        #expect(try demo("--keep").status == 0)
        let files = try [
            "demo/mine.txt", "demo/files/mine.txt", "demo/files/avatars/mine.jpg", "demo/images/mine.cache",
            "demo/values/mine", "demo/secrets/mine",
        ].map(plant)
        #expect(try CommandRun(["kv", "set", scratch.path("demo/settings"), "mine", "1"]).status == 0)
        let run = try demo()
        #expect(run.status == 0, "\(run.errors)")
        for file in files { #expect(try Data(contentsOf: file) == Data("mine".utf8)) }
        #expect(try CommandRun(["kv", "get", scratch.path("demo/settings"), "mine"]).output == "1\n")
        #expect(run.output.contains("mine.txt"))
    }

    @Test("the first line states whether the demo starts for the first time")
    func firstLine() throws {
        #expect(try demo("--keep").output.hasPrefix("TaskFlow starts for the first time"))
        #expect(try demo().output.contains("starts again in \(scratch.path("demo")), still logged in"))
        #expect(try demo().output.contains("starts again in \(scratch.path("demo")), logged out"))
    }
}
