import ChildProcesses
import Foundation
import ServerTestSupport
import Testing

/// A run of the `forge` executable, which was built with the traits.
final class ForgeRun: Sendable {
    struct NotBuilt: Error {}

    /// The exit status and the output of a finished run.
    struct Result: Sendable {
        var status: Int32
        var endedBySignal: Bool
        var output: String
        var errors: String

        var lines: [String] { output.split(separator: "\n").map(String.init) }
        var errorLines: [String] { errors.split(separator: "\n").map(String.init) }
    }

    private let process: ChildProcess
    private let directory: URL

    /// Starts the command; its output goes to files, since a full pipe could block it.
    ///
    /// - Parameters:
    ///   - arguments: The arguments.
    ///   - environment: The only variables besides `PATH` and `HOME`, and where a run with coverage collects profiles.
    ///   - input: The bytes of standard input.
    ///   - output: Where standard output goes; nil for a file that is returned.
    /// - Throws: The error that prevented the start of the process.
    init(
        _ arguments: [String], _ environment: [String: String], input: Data = Data(), output: FileHandle? = nil
    ) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "forge-run-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        for name in ["output", "errors"] { try Data().write(to: directory.appending(path: name)) }
        try input.write(to: directory.appending(path: "input"))
        let own = ProcessInfo.processInfo.environment
        let kept = own.filter { ["PATH", "LLVM_PROFILE_FILE"].contains($0.key) }
        let variables = ["PATH": "/usr/bin:/bin", "HOME": directory.path].merging(kept) { $1 }
            .merging(environment) { _, given in given }
        process = try ChildProcess(
            Self.executable(), arguments, environment: variables,
            input: .file(FileHandle(forReadingFrom: directory.appending(path: "input"))),
            output: .file(output ?? FileHandle(forWritingTo: directory.appending(path: "output"))),
            errors: .file(FileHandle(forWritingTo: directory.appending(path: "errors"))))
    }

    deinit {
        process.send(SIGKILL)
        do { try FileManager.default.removeItem(at: directory) } catch {}
    }

    /// The executable of the same build, above the test bundle.
    private static func executable() throws -> String {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appending(path: "forge")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate.path }
        }
        throw NotBuilt()
    }

    var isRunning: Bool { process.isRunning }

    func send(_ signal: Int32) { process.send(signal) }

    /// What was written to standard output so far.
    func outputSoFar() throws -> String {
        try String(contentsOf: directory.appending(path: "output"), encoding: .utf8)
    }

    /// Waits for the end.
    func ended() async throws -> Result {
        try await onThread { [self] in
            let (status, endedBySignal) =
                switch process.wait() {
                case .exit(let status): (status, false)
                case .signal(let signal): (signal, true)
                }
            return Result(
                status: status, endedBySignal: endedBySignal, output: try outputSoFar(),
                errors: try String(contentsOf: directory.appending(path: "errors"), encoding: .utf8))
        }
    }
}

/// A server with the environment of the command.
protocol CommandServer: Sendable {
    var environment: [String: String] { get }
}

extension CommandServer {
    /// Runs the command to its end.
    func forge(
        _ arguments: String..., input: String = "", variables: [String: String] = [:]
    ) async throws -> ForgeRun.Result {
        try await ForgeRun(
            arguments, environment.merging(variables) { _, given in given }, input: Data(input.utf8)
        ).ended()
    }

    /// Starts the command.
    func start(_ arguments: String..., output: FileHandle? = nil) throws -> ForgeRun {
        try ForgeRun(arguments, environment, output: output)
    }
}

/// Runs the command with a closed pipe as its output, and on Linux with a full device: each is one line of error.
func expectLostOutput(_ arguments: [String], _ environment: [String: String]) async throws {
    let pipe = Pipe()
    try pipe.fileHandleForReading.close()
    #if os(Linux)
    let full = [(try FileHandle(forWritingTo: URL(filePath: "/dev/full")), "ENOSPC")]
    #else
    let full: [(FileHandle, String)] = []
    #endif
    for (output, error) in [(pipe.fileHandleForWriting, "EPIPE")] + full {
        let run = try await ForgeRun(arguments, environment, output: output).ended()
        #expect(run.status == 1 && !run.endedBySignal, "\(run.errors)")
        #expect(run.errorLines.count == 1 && run.errors.contains(error), "\(run.errors)")
    }
}

/// Waits until a condition holds; returns whether it did within a minute.
func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
    let end = ContinuousClock.now + .seconds(60)
    while try await !condition() {
        guard ContinuousClock.now < end else { return false }
        try await Task.sleep(for: .milliseconds(5))
    }
    return true
}

/// A directory of one test, removed with the last reference.
final class Scratch: Sendable {
    let url = FileManager.default.temporaryDirectory.appending(path: "forge-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

    deinit { do { try FileManager.default.removeItem(at: url) } catch {} }

    func path(_ name: String) -> String { url.appending(path: name).path }

    /// Writes a file and its directories.
    func plant(_ name: String, _ content: Data) throws {
        let file = url.appending(path: name)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try content.write(to: file)
    }

    /// Whether there is a complete file below a directory, which need not exist.
    func hasFile(_ name: String) throws -> Bool {
        guard FileManager.default.fileExists(atPath: path(name)) else { return false }
        return try FileManager.default.subpathsOfDirectory(atPath: path(name)).contains { path in
            var isDirectory: ObjCBool = false
            let file = url.appending(path: name).appending(path: path).path
            return !path.contains("#tmp-") && FileManager.default.fileExists(atPath: file, isDirectory: &isDirectory)
                && !isDirectory.boolValue
        }
    }

    /// The files below a directory by path, without the journals of stores.
    func files(_ name: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: self.path(name)) {
            let file = url.appending(path: name).appending(path: path)
            guard !path.hasPrefix("#"), try file.resourceValues(forKeys: [.isDirectoryKey]).isDirectory == false else {
                continue
            }
            files[path] = try Data(contentsOf: file)
        }
        return files
    }
}
