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
#endif
