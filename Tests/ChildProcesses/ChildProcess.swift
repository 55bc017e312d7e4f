package import Foundation
import Synchronization

/// A process that a test starts with `posix_spawn(3)`.
///
/// It inherits the standard streams only, and begins with the default action of every signal and none blocked, as from a
/// shell. A thread reaps it as soon as it ends, because Swift Testing polls while there is a child that it did not start.
/// `Process` of Foundation does neither, and on Linux it crashes if more than about 1,300 descriptors are open.
package final class ChildProcess: Sendable {
    /// How a process ended.
    package enum End: Hashable, Sendable {
        case exit(Int32)
        case signal(Int32)
    }

    /// A standard stream of a process.
    package enum Stream {
        /// That of this process.
        case inherited
        /// `/dev/null`.
        case null
        case file(FileHandle)
        /// A pipe, whose end for the child is closed in this process.
        case pipe(Pipe)
    }

    /// The error number of a call that failed to start a process.
    package struct NotStarted: Error {
        package let executable: String
        package let errno: Int32
    }

    package let id: Int32
    private let state: State

    private final class State: Sendable {
        let end = Mutex<End?>(nil)
        let changed = NSCondition()
    }

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - executable: The path of the executable, or a name that is looked up in `PATH`.
    ///   - arguments: The arguments after the name.
    ///   - environment: All variables; nil for those of this process.
    ///   - directory: The working directory; nil for that of this process.
    ///   - input: Standard input.
    ///   - output: Standard output.
    ///   - errors: Standard error.
    /// - Throws: ``NotStarted``.
    package init(
        _ executable: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        directory: String? = nil, input: Stream = .inherited, output: Stream = .inherited, errors: Stream = .inherited
    ) throws {
        let variables = environment ?? ProcessInfo.processInfo.environment
        id = try withStrings([executable] + arguments) { arguments in
            try withStrings(variables.map { "\($0)=\($1)" }) { environment in
                try spawn(executable, arguments, environment, directory, [input, output, errors])
            }
        }
        for (number, stream) in [input, output, errors].enumerated() {
            guard case .pipe(let pipe) = stream else { continue }
            try (number == 0 ? pipe.fileHandleForReading : pipe.fileHandleForWriting).close()
        }
        let state = State()
        self.state = state
        Thread.detachNewThread { [id] in
            var status: Int32 = 0
            while waitpid(id, &status, 0) == -1, errno == EINTR {}
            let signal = status & 0x7f
            state.changed.withLock {
                state.end.withLock { $0 = signal == 0 ? .exit(status >> 8 & 0xff) : .signal(signal) }
                state.changed.broadcast()
            }
        }
    }

    package var isRunning: Bool { state.end.withLock { $0 == nil } }

    /// Sends a signal, unless the process has ended.
    package func send(_ signal: Int32) {
        state.end.withLock { end in
            if end == nil { kill(id, signal) }
        }
    }

    /// Waits for the end of the process, and kills it after a time.
    @discardableResult
    package func wait(killingAfter patience: Duration? = nil) -> End {
        let deadline = patience.map { Date(timeIntervalSinceNow: $0 / .seconds(1)) }
        return state.changed.withLock {
            while true {
                if let end = state.end.withLock({ $0 }) { return end }
                guard let deadline else {
                    state.changed.wait()
                    continue
                }
                if !state.changed.wait(until: deadline) {
                    send(SIGKILL)
                    state.changed.wait()
                }
            }
        }
    }
}

// MARK: Whole runs

extension ChildProcess {
    /// The end of a process, and what it wrote.
    package struct Outcome {
        package var end: End
        package var output: Data
        package var errors: Data
    }

    /// Runs a process to its end; what it wrote is kept in files, because a full pipe would block it.
    package static func run(
        _ executable: String, _ arguments: [String] = [], environment: [String: String]? = nil,
        directory: String? = nil, input: Data? = nil
    ) throws -> Outcome {
        let (output, errors) = (try unnamedFile(), try unnamedFile())
        let source = try input.map { try unnamedFile(containing: $0) }
        let process = try ChildProcess(
            executable, arguments, environment: environment, directory: directory,
            input: source.map { .file($0) } ?? .null, output: .file(output), errors: .file(errors))
        let end = process.wait()
        return Outcome(end: end, output: try content(of: output), errors: try content(of: errors))
    }

    /// A new file without a name, with its offset at the start.
    package static func unnamedFile(containing content: Data = Data()) throws -> FileHandle {
        var template = Array((NSTemporaryDirectory() + "/forge-stream-XXXXXX").utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw NotStarted(executable: "mkstemp", errno: errno) }
        unlink(template)
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        if !content.isEmpty {
            try file.write(contentsOf: content)
            try file.seek(toOffset: 0)
        }
        return file
    }

    /// All of a file, from its start.
    package static func content(of file: FileHandle) throws -> Data {
        try file.seek(toOffset: 0)
        return try file.readToEnd() ?? Data()
    }
}

// MARK: The call

/// Calls `body` with strings as a null-terminated array of C strings.
private func withStrings<Result>(
    _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) throws -> Result
) rethrows -> Result {
    let pointers = strings.map { strdup($0) }
    defer { for pointer in pointers { free(pointer) } }
    return try body(pointers + [nil])
}

private func spawn(
    _ executable: String, _ arguments: [UnsafeMutablePointer<CChar>?], _ environment: [UnsafeMutablePointer<CChar>?],
    _ directory: String?, _ streams: [ChildProcess.Stream]
) throws -> Int32 {
    #if canImport(Darwin)
    var actions: posix_spawn_file_actions_t?
    var attributes: posix_spawnattr_t?
    #else
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    #endif
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
        posix_spawn_file_actions_destroy(&actions)
        posix_spawnattr_destroy(&attributes)
    }
    if let directory { addWorkingDirectory(directory, to: &actions) }
    for (number, stream) in streams.enumerated() {
        let target = Int32(number)
        switch stream {
        case .inherited: posix_spawn_file_actions_adddup2(&actions, target, target)
        case .null: posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_RDWR, 0)
        case .file(let file): posix_spawn_file_actions_adddup2(&actions, file.fileDescriptor, target)
        case .pipe(let pipe):
            let end = number == 0 ? pipe.fileHandleForReading : pipe.fileHandleForWriting
            posix_spawn_file_actions_adddup2(&actions, end.fileDescriptor, target)
        }
    }
    var (all, none) = (sigset_t(), sigset_t())
    sigfillset(&all)
    sigemptyset(&none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setsigmask(&attributes, &none)
    var flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK)
    #if canImport(Darwin)
    flags |= Int32(POSIX_SPAWN_CLOEXEC_DEFAULT)
    #else
    closeOthers(&actions)
    #endif
    posix_spawnattr_setflags(&attributes, Int16(flags))
    var id: pid_t = 0
    let error = posix_spawnp(&id, executable, &actions, &attributes, arguments, environment)
    guard error == 0 else { throw ChildProcess.NotStarted(executable: executable, errno: error) }
    return id
}

#if canImport(Darwin)
private func addWorkingDirectory(_ path: String, to actions: inout posix_spawn_file_actions_t?) {
    posix_spawn_file_actions_addchdir_np(&actions, path)
}
#else
private typealias Actions = UnsafeMutablePointer<posix_spawn_file_actions_t>

/// Functions that the C library declares for GNU sources only, which the module of Swift is not.
private let addDirectory = unsafeBitCast(
    dlsym(nil, "posix_spawn_file_actions_addchdir_np"),
    to: (@convention(c) (Actions, UnsafePointer<CChar>) -> Int32).self)
private let addCloseFrom = unsafeBitCast(
    dlsym(nil, "posix_spawn_file_actions_addclosefrom_np"), to: (@convention(c) (Actions, Int32) -> Int32).self)

private func addWorkingDirectory(_ path: String, to actions: inout posix_spawn_file_actions_t) {
    _ = addDirectory(&actions, path)
}

private func closeOthers(_ actions: inout posix_spawn_file_actions_t) { _ = addCloseFrom(&actions, 3) }
#endif
