#if os(Linux)
import ArgumentParser
import Dispatch
import ForgeFileSystem
import Foundation
import Glibc
import SystemPackage

/// Mounts an in-memory file system, so that any program can be tested on it.
struct MountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount", abstract: "Mount an in-memory file system until it is unmounted or this process ends.")

    @Argument(help: "The directory to mount at.") var directory: String
    @Option(help: "Also answer `forge-lab call` on this socket, from the same tree.") var socket: String?
    @Flag(
        help: "Let the kernel check permissions first; otherwise FIFOs, which it opens itself, are not checked.")
    var kernelPermissions = false
    @Option(help: "A new file that receives every kernel request and its outcome.") var trace: String?
    @Option(help: "The size in bytes; unlimited if omitted.") var size: Int64?
    @Option(help: "The number of files; unlimited if omitted.") var inodes: Int?

    func run() throws {
        let tree = InMemoryFileSystem(options: .served(size: size, inodes: inodes))
        let server = try FUSEServer(tree.process(umask: []))
        let traceFile = try trace.map { try TraceFile(path: $0) }
        if let traceFile { server.trace = { traceFile.append($0) } }
        let device = try FUSEDevice()
        let calls = try socket.map { try CallServer(tree, socket: $0) }
        let mount = try KernelMount(device, at: directory, kernelChecksPermissions: kernelPermissions)
        let signals = [SIGINT, SIGTERM].map { end(on: $0, mount, device) }
        if let calls { Thread.detachNewThread { calls.serve() } }
        FileHandle.standardOutput.write(Data("mounted at \(directory)\n".utf8))
        try device.serve(server)
        calls?.close()
        signals.forEach { $0.cancel() }
    }

    /// Unmounts on a signal, on another thread, because the kernel may send requests to the server meanwhile. Processes
    /// with open files get `ENOTCONN` afterwards.
    private func end(on signal: CInt, _ mount: KernelMount, _ device: FUSEDevice) -> any DispatchSourceSignal {
        Glibc.signal(signal, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: signal, queue: .global())
        source.setEventHandler {
            do {
                do {
                    try KernelMount.unmount(mount.directory, isLazy: false)
                } catch .resourceBusy {
                    try KernelMount.unmount(mount.directory, isLazy: true)
                }
            } catch {
                FileHandle.standardError.write(Data("cannot unmount \(mount.directory): \(error)\n".utf8))
            }
            device.endServing()
        }
        // A signal before the source listens would be lost, because it is ignored already.
        let isListening = DispatchSemaphore(value: 0)
        source.setRegistrationHandler { isListening.signal() }
        source.resume()
        isListening.wait()
        return source
    }
}

/// Unmounts a file system of `forge-lab mount`, also after its process was killed.
struct UnmountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount", abstract: "Unmount a file system; the process that served it ends.")

    @Argument(help: "The directory where it is mounted.") var directory: String
    @Flag(help: "Detach at once, and unmount when the file system is no longer in use.") var lazy = false

    func run() throws {
        try KernelMount.unmount(directory, isLazy: lazy)
    }
}

/// A directory at which the kernel shows a server's file system.
struct KernelMount {
    let directory: String

    private static let noSetUserID: UInt = 2
    private static let noDevices: UInt = 4
    private static let detach: CInt = 2

    /// Mounts.
    ///
    /// - Parameters:
    ///   - device: The device of the server.
    ///   - directory: The mount point.
    ///   - kernelChecksPermissions: Whether the kernel checks permissions before the server does. Otherwise the server
    ///     checks them on `open`, `create` and `access`, but the kernel opens a FIFO and resolves `..` without such a
    ///     request (`fuse_permission` of Linux checks a mode only for executing), so that only the kernel's own check
    ///     protects a FIFO.
    /// - Throws: The error number; nothing is mounted.
    init(_ device: FUSEDevice, at directory: String, kernelChecksPermissions: Bool) throws(Errno) {
        self.directory = directory
        let options =
            "fd=\(device.descriptor),rootmode=40000,user_id=0,group_id=0,allow_other"
            + (kernelChecksPermissions ? ",default_permissions" : "")
        let result = options.withCString { options in
            mount("forge", directory, "fuse.forge", Self.noSetUserID | Self.noDevices, options)
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }

    /// Unmounts.
    ///
    /// - Parameters:
    ///   - directory: The mount point.
    ///   - isLazy: Whether to detach the mount point at once and unmount when the file system is no longer in use;
    ///     otherwise a file system in use fails with `EBUSY`.
    /// - Throws: The error number; the file system stays mounted.
    static func unmount(_ directory: String, isLazy: Bool) throws(Errno) {
        guard umount2(directory, isLazy ? detach : 0) == 0 else { throw Errno(rawValue: errno) }
    }
}

/// The supplementary groups of other processes, which FUSE requests do not contain.
enum SupplementaryGroups {
    /// The groups that `/proc` lists for a process; empty if it has ended or is in another process namespace.
    static func of(processID: UInt32) -> [GroupID] {
        guard processID != 0 else { return [] }
        let descriptor = open("/proc/\(processID)/status", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var text: [UInt8] = []
        while true {
            let part = [UInt8](unsafeUninitializedCapacity: 8192) { buffer, count in
                count = max(0, Glibc.read(descriptor, buffer.baseAddress, 8192))
            }
            guard !part.isEmpty else { break }
            text += part
        }
        return parse(text)
    }

    /// The numbers of the line that starts with `Groups:` (`proc(5)`).
    static func parse(_ status: [UInt8]) -> [GroupID] {
        let label = Array("Groups:".utf8)
        for line in status.split(separator: UInt8(ascii: "\n")) where line.starts(with: label) {
            return String(decoding: line.dropFirst(label.count), as: UTF8.self)
                .split(whereSeparator: \.isWhitespace).compactMap { UInt32($0).map { GroupID(rawValue: $0) } }
        }
        return []
    }
}

/// A log file of the kernel's requests.
final class TraceFile {
    private let fileSystem = SystemFileSystem()
    private let descriptor: Descriptor

    /// Creates a file, which must not be in the mounted file system.
    init(path: String) throws(FileSystemError) {
        descriptor = try fileSystem.open(
            POSIXPath(path), .writeOnly, options: [.create, .exclusiveCreate, .append],
            permissions: [.ownerReadWrite])
    }

    deinit { fileSystem.discard(descriptor) }

    /// Appends a line immediately, before the request is answered. A line that cannot be written goes to standard
    /// error, with the reason.
    func append(_ line: String) {
        do throws(FileSystemError) {
            try fileSystem.writeBytes(Array("\(line)\n".utf8), to: descriptor)
        } catch {
            FileHandle.standardError.write(Data("\(error): \(line)\n".utf8))
        }
    }
}
#endif
