import Foundation

/// The result of running `forge` in a process of its own.
struct CommandRun {
    var status: Int32
    var output: String
    var errors: String

    /// The lines of standard error; there is to be one for each failure.
    var errorLines: [Substring] { errors.split(separator: "\n") }

    init(_ arguments: [String], input: String? = nil) throws {
        let process = Process()
        process.executableURL = try Self.executable()
        process.arguments = arguments
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("run-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func file(_ name: String, _ content: String = "") throws -> URL {
            let url = directory.appendingPathComponent(name)
            try Data(content.utf8).write(to: url)
            return url
        }
        // Files, not pipes: nothing can fill up and block.
        let outputFile = try file("output")
        let errorFile = try file("errors")
        process.standardInput = try FileHandle(forReadingFrom: file("input", input ?? ""))
        process.standardOutput = try FileHandle(forWritingTo: outputFile)
        process.standardError = try FileHandle(forWritingTo: errorFile)
        try process.run()
        process.waitUntilExit()
        status = process.terminationStatus
        output = try String(contentsOf: outputFile, encoding: .utf8)
        errors = try String(contentsOf: errorFile, encoding: .utf8)
    }

    /// The executable that the same build has put beside the test bundle.
    private static func executable() throws -> URL {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent("forge")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw NotBuilt()
    }

    struct NotBuilt: Error {}
}

/// A directory of a test's own, gone when the suite's value goes.
final class Scratch: Sendable {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("forge-\(UUID().uuidString)")

    init() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    func path(_ name: String) -> String { url.appendingPathComponent(name).path }
}
