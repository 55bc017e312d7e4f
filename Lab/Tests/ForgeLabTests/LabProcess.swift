import Foundation

/// A run of the lab's executable as a process of its own.
struct LabProcess {
    /// The executable of the same build, beside the test bundle.
    static func executable(_ name: String) throws -> URL {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent(name)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        for bundle in Bundle.allBundles {
            let candidate = bundle.bundleURL.deletingLastPathComponent().appendingPathComponent(name)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw NotBuilt(name: name)
    }

    struct NotBuilt: Error { var name: String }

    struct Outcome {
        var status: Int32
        var wasKilled: Bool
        var output: String
    }

    /// Runs to the end; a process still running after `killAfter` gets SIGKILL.
    static func run(
        _ executable: String, _ arguments: [String], killAfter: Duration? = nil
    ) throws -> Outcome {
        let process = Process()
        process.executableURL = try Self.executable(executable)
        process.arguments = arguments
        let pipe = Pipe()
        // Otherwise a process started meanwhile inherits the pipe and keeps it open.
        for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
            guard fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC) == 0 else { throw POSIXError(.EBADF) }
        }
        process.standardOutput = pipe
        try process.run()
        if let killAfter {
            let processID = process.processIdentifier
            let nanoseconds = Int(killAfter / .nanoseconds(1))
            DispatchQueue.global().asyncAfter(deadline: .now() + .nanoseconds(nanoseconds)) {
                kill(processID, SIGKILL)
            }
        }
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Outcome(
            status: process.terminationStatus, wasKilled: process.terminationReason == .uncaughtSignal,
            output: String(decoding: output, as: UTF8.self))
    }
}
