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

#if os(Linux)
import ForgeFileSystem
import Testing

@testable import forge_lab

/// The kernel's side of `/dev/fuse`.
final class Kernel {
    enum Field {
        case u32(UInt32)
        case u64(UInt64)
        case name(String)
        case bytes([UInt8])

        fileprivate var bytes: [UInt8] {
            switch self {
            case .u32(let value): withUnsafeBytes(of: value) { Array($0) }
            case .u64(let value): withUnsafeBytes(of: value) { Array($0) }
            case .name(let name): Array(name.utf8) + [0]
            case .bytes(let bytes): bytes
            }
        }
    }

    struct Reply {
        var error: Int32
        var unique: UInt64
        var body: [UInt8]

        func u32(_ offset: Int) -> UInt32 {
            body.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
        }

        func u64(_ offset: Int) -> UInt64 {
            body.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        }
    }

    let fileSystem: InMemoryFileSystem
    let server: FUSEServer
    private(set) var lastUnique: UInt64 = 0

    init() throws {
        fileSystem = InMemoryFileSystem(options: .init(umask: []))
        server = try FUSEServer(fileSystem)
    }

    /// The one answer to a request.
    func ask(_ operation: FUSEProtocol.Operation, _ fields: [Field], node: UInt64 = 1) throws -> Reply {
        let replies = answers(operation.rawValue, fields, node: node)
        return try #require(replies.first)
    }

    func ask(_ operation: FUSEProtocol.Operation, _ fields: Field...) throws -> Reply { try ask(operation, fields) }

    func answers(_ operation: FUSEProtocol.Operation, _ fields: [Field], node: UInt64 = 1) -> [Reply] {
        answers(operation.rawValue, fields, node: node)
    }

    func answers(_ operation: UInt32, _ fields: [Field], node: UInt64) -> [Reply] {
        lastUnique += 2
        let body = fields.flatMap(\.bytes)
        let count = UInt32(FUSEProtocol.requestHeaderSize + body.count)
        let header: [Field] = [
            .u32(count), .u32(operation), .u64(lastUnique), .u64(node), .u32(0), .u32(0), .u32(0), .u32(0),
        ]
        let request = header.flatMap(\.bytes) + body
        return request.withUnsafeBytes { server.answer($0) }.map { reply in
            reply.bytes.withUnsafeBytes { bytes in
                #expect(Int(bytes.load(as: UInt32.self)) == bytes.count)
                return Reply(
                    error: bytes.loadUnaligned(fromByteOffset: 4, as: Int32.self),
                    unique: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self), body: Array(bytes[16...]))
            }
        }
    }
}
#endif
