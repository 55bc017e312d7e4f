#if os(Linux)
import ForgeFileSystem
import Foundation
import SystemPackage

/// An in-memory file system that a lab process has mounted at a new directory.
final class MountedFileSystem: Sendable {
    let path: String
    let process: Process

    /// Whether this process may mount through `/dev/fuse`; prints a notice if not.
    static let isPossible: Bool = {
        let descriptor = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        if descriptor >= 0 { close(descriptor) }
        let isPossible = descriptor >= 0 && geteuid() == 0
        if !isPossible {
            print("NOT RUN: the tests on a mounted file system: they take /dev/fuse and root")
        }
        return isPossible
    }()

    /// Whether a program of this name exists; prints a notice if not.
    static func has(_ program: String) -> Bool {
        let places = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":") ?? []
        let found = places.contains { FileManager.default.isExecutableFile(atPath: "\($0)/\(program)") }
        if !found { print("NOT RUN: the test with \(program), which is not installed") }
        return found
    }

    struct NotMounted: Error { var told: String }

    init(_ arguments: [String] = []) throws {
        path =
            FileManager.default.temporaryDirectory.resolvingSymlinksInPath().path + "/forge-mount-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        process = Process()
        process.executableURL = try LabProcess.executable("forge-lab")
        process.arguments = ["mount", path] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let told = String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self)
        guard told.hasPrefix("mounted") else { throw NotMounted(told: told) }
    }

    /// Mounts a file system while `body` runs, and removes it afterwards.
    static func with(_ arguments: [String] = [], _ body: (MountedFileSystem) throws -> Void) throws {
        let place = try MountedFileSystem(arguments)
        defer {
            place.process.terminate()
            place.process.waitUntilExit()
        }
        try body(place)
        let unmounted = try LabProcess.run("forge-lab", ["unmount", place.path])
        place.process.waitUntilExit()
        guard unmounted.status == 0, place.process.terminationStatus == 0, !place.isMounted else {
            throw NotMounted(told: "not unmounted: \(unmounted)")
        }
        try place.remove()
    }

    /// Whether a file system is mounted at the directory.
    var isMounted: Bool {
        do {
            return try String(contentsOfFile: "/proc/self/mounts", encoding: .utf8).contains(" \(path) ")
        } catch {
            return true
        }
    }

    /// The requested permissions that a new file actually gets.
    func granted() throws -> FilePermissions {
        let fileSystem = SystemFileSystem()
        let probe = POSIXPath(path + "/\(UUID().uuidString)")
        try fileSystem.close(
            try fileSystem.open(probe, .writeOnly, options: [.create], permissions: FilePermissions(rawValue: 0o777)))
        defer { unlink(String(probe)) }
        return try fileSystem.status(probe).permissions
    }

    /// Removes the directory, which must be unmounted and empty.
    func remove() throws {
        guard rmdir(path) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Runs a script in the file system, for at most a minute.
    func shell(_ script: String) throws -> LabProcess.Outcome {
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        shell.arguments = ["timeout", "60", "sh", "-c", script]
        shell.currentDirectoryURL = URL(fileURLWithPath: path)
        let pipe = Pipe()
        shell.standardOutput = pipe
        shell.standardError = pipe
        try shell.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        shell.waitUntilExit()
        return LabProcess.Outcome(
            status: shell.terminationStatus, wasKilled: shell.terminationReason == .uncaughtSignal,
            output: String(decoding: output, as: UTF8.self))
    }
}
#endif
