import ChildProcesses
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
        let closing = destination == .closed ? ["/bin/sh", "-c", "exec \"$0\" \"$@\" >&-"] : []
        let words = prefix + closing + [try Self.executable()] + arguments
        // Another user cannot write where a run with coverage collects profiles; the runtime would print an error.
        let environment = ProcessInfo.processInfo.environment.merging(
            prefix.isEmpty ? [:] : ["LLVM_PROFILE_FILE": "/dev/null"]
        ) { $1 }
        // Files, not pipes: a full pipe could block.
        let (outputFile, errorFile) = (try ChildProcess.unnamedFile(), try ChildProcess.unnamedFile())
        let stream: ChildProcess.Stream
        switch destination {
        case .file, .closed: stream = .file(outputFile)
        case .full: stream = .file(try FileHandle(forWritingTo: URL(fileURLWithPath: "/dev/full")))
        case .brokenPipe:
            let pipe = Pipe()
            try pipe.fileHandleForReading.close()
            stream = .pipe(pipe)
        }
        let process = try ChildProcess(
            words[0], Array(words.dropFirst()), environment: environment,
            input: .file(try ChildProcess.unnamedFile(containing: input)), output: stream, errors: .file(errorFile))
        switch process.wait() {
        case .exit(let status): (self.status, endedBySignal) = (status, false)
        case .signal(let signal): (status, endedBySignal) = (signal, true)
        }
        output = try Self.text(of: outputFile)
        errors = try Self.text(of: errorFile)
    }

    private static func text(of file: FileHandle) throws -> String {
        try #require(String(data: ChildProcess.content(of: file), encoding: .utf8))
    }

    init(_ arguments: [String], input: String) throws {
        try self.init(arguments, input: Data(input.utf8))
    }

    /// The executable of the same build, beside the test bundle.
    static func executable() throws -> String {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent("forge")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate.path }
        }
        throw NotBuilt()
    }

    struct NotBuilt: Error {}
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
