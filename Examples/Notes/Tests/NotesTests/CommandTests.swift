import Foundation
import Testing

/// The built tool as a second process.
final class CommandTests: Sendable {
    private let directory = FileManager.default.temporaryDirectory.appendingPathComponent("notes-\(UUID())")

    deinit { try? FileManager.default.removeItem(at: directory) }

    struct Run: Equatable {
        var status: Int32 = 0
        var output = ""
        var errors = ""
    }

    /// Runs the executable that the same build has put beside the test bundle.
    private func notes(_ arguments: String...) throws -> Run {
        let process = Process()
        let (output, errors) = (Pipe(), Pipe())
        process.executableURL = try #require(
            sequence(first: URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()) {
                $0.deletingLastPathComponent()
            }
            .prefix(6).dropFirst().map { $0.appendingPathComponent("notes") }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) })
        process.arguments = arguments + ["--directory", directory.appendingPathComponent("store").path]
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        process.waitUntilExit()
        return Run(
            status: process.terminationStatus,
            output: String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self),
            errors: String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self))
    }

    @Test func eachRunSeesTheRunsBefore() throws {
        #expect(try notes("list") == Run())
        #expect(try notes("add", "Buy milk\nand bread") == Run(output: "1\n"))
        #expect(try notes("add", "Call Ada") == Run(output: "2\n"))
        #expect(try notes("list") == Run(output: "1\tBuy milk\n2\tCall Ada\n"))
        #expect(try notes("show", "1") == Run(output: "Buy milk\nand bread\n"))
        #expect(try notes("remove", "1") == Run())
        #expect(try notes("list") == Run(output: "2\tCall Ada\n"))
    }

    @Test func exportsJSON() throws {
        _ = try notes("add", "Call Ada")
        let file = directory.appendingPathComponent("notes.json")
        #expect(try notes("export", file.path) == Run())
        let array = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [[String: Any]]
        #expect(array?.count == 1)
        #expect(array?.first?["text"] as? String == "Call Ada")
    }

    @Test func failuresAreOneLineAndAStatus() throws {
        #expect(try notes("show", "7") == Run(status: 1, errors: "Error: there is no note 7\n"))
        #expect(try notes("show", "seven").status == 64)

        let export = try notes("export", directory.appendingPathComponent("missing/notes.json").path)
        #expect(export.status == 1 && export.errors.split(separator: "\n").count == 1, "\(export)")

        try FileManager.default.removeItem(at: directory)
        try Data("not a directory".utf8).write(to: directory)
        let list = try notes("list")
        #expect(list.status == 1 && list.errors.split(separator: "\n").count == 1, "\(list)")
    }

    @Test func runsAtTheSameTimeLoseNothing() async throws {
        try await withThrowingTaskGroup(of: Run.self) { group in
            for number in 0..<8 { group.addTask { try self.notes("add", "note \(number)") } }
            for try await run in group { #expect(run.status == 0, "\(run)") }
        }
        #expect(try notes("list").output.split(separator: "\n").count == 8)
    }
}
