import Foundation
import Testing

/// The result of one run of the `forge` executable.
struct CommandRun {
    /// The destination of a run's standard output.
    enum Destination: String, CaseIterable, CustomTestStringConvertible {
        case file
        /// `/dev/full`: every write fails with `ENOSPC`.
        case full
        /// The descriptor is closed, as by `>&-`.
        case closed
        /// A pipe that has no reader.
        case brokenPipe

        var testDescription: String { rawValue }
    }

    /// The exit status, or the number of the signal that ended the process.
    var status: Int32
    var endedBySignal: Bool
    var output: String
    var errors: String

    /// The lines of standard error; a failure has exactly one.
    var errorLines: [Substring] { errors.split(separator: "\n") }

    /// The JSON objects on the lines of standard output, without those about progress and the summary.
    func rows() throws -> [[String: Any]] {
        try jsonLines(of: output).filter { !["progress", "summary"].contains($0["type"] as? String) }
    }

    /// The JSON object that `--json` prints at the end.
    func summary() throws -> [String: Any] {
        try #require(jsonLines(of: output).last { $0["type"] as? String == "summary" })
    }

    /// The JSON object on standard error.
    func failure() throws -> [String: Any] {
        let objects = try jsonLines(of: errors)
        #expect(objects.count == 1, "\(errors)")
        return try #require(objects.last)
    }

    private func jsonLines(of text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map { line in
            try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
        }
    }

    /// Runs `forge` and waits for it to end.
    ///
    /// - Parameters:
    ///   - arguments: The arguments of the command.
    ///   - input: The bytes of standard input.
    ///   - destination: Where standard output goes; it is captured only if it is a file.
    ///   - prefix: A program and its arguments that start `forge`, such as `setpriv`.
    /// - Throws: The error that prevented the start of the process.
    init(
        _ arguments: [String], input: Data = Data(), to destination: Destination = .file, prefix: [String] = []
    ) throws {
        let process = Process()
        let closing = destination == .closed ? ["/bin/sh", "-c", "exec \"$0\" \"$@\" >&-"] : []
        let words = prefix + closing + [try Self.executable().path] + arguments
        process.executableURL = URL(fileURLWithPath: words[0])
        process.arguments = Array(words.dropFirst())
        if !prefix.isEmpty {
            // Another user cannot write where a run with coverage collects profiles; the runtime would print an error.
            process.environment = ProcessInfo.processInfo.environment.merging(["LLVM_PROFILE_FILE": "/dev/null"]) { $1 }
        }
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("run-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func file(_ name: String, _ content: Data = Data()) throws -> URL {
            let url = directory.appendingPathComponent(name)
            try content.write(to: url)
            return url
        }
        // Files, not pipes: a full pipe could block.
        let outputFile = try file("output")
        let errorFile = try file("errors")
        process.standardInput = try FileHandle(forReadingFrom: file("input", input))
        process.standardError = try FileHandle(forWritingTo: errorFile)
        switch destination {
        case .file, .closed: process.standardOutput = try FileHandle(forWritingTo: outputFile)
        case .full: process.standardOutput = try FileHandle(forWritingTo: URL(fileURLWithPath: "/dev/full"))
        case .brokenPipe:
            let pipe = Pipe()
            try pipe.fileHandleForReading.close()
            process.standardOutput = pipe
        }
        try process.run()
        process.waitUntilExit()
        status = process.terminationStatus
        endedBySignal = process.terminationReason == .uncaughtSignal
        output = try String(contentsOf: outputFile, encoding: .utf8)
        errors = try String(contentsOf: errorFile, encoding: .utf8)
    }

    init(_ arguments: [String], input: String) throws {
        try self.init(arguments, input: Data(input.utf8))
    }

    /// The executable of the same build, beside the test bundle.
    static func executable() throws -> URL {
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

extension Process {
    /// Starts the process, which control-C interrupts even if this process ignores it, as a background job of a shell
    /// does.
    func runInterruptibly() throws {
        signal(SIGINT, SIG_DFL)
        try run()
    }

    /// Waits for the end of the process, which must come within a minute: it is killed then.
    func waitForEnd() {
        let end = ContinuousClock.now + .seconds(60)
        while isRunning, ContinuousClock.now < end { usleep(1000) }
        if isRunning { kill(processIdentifier, SIGKILL) }
        waitUntilExit()
    }
}

/// A directory of one test, removed with the last reference.
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
