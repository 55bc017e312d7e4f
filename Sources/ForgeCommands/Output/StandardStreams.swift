import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

// Memory safety: A read receives a buffer with its size, and returns the number of bytes that it initialised. `poll(2)`
// receives one structure.
// The message of an interruption is written before the signal handler is installed, never freed, and only read
// afterwards. The handler calls nothing that is not async-signal-safe.

/// Standard output, written without a buffer, so that each failed write is an error of the command.
enum StandardOutput {
    /// Writes bytes unchanged.
    ///
    /// - Throws: ``CommandFailure`` with the error of the system; part of the bytes may be written then.
    static func write(_ data: Data) throws(CommandFailure) {
        try CommandFailure.naming("cannot write to standard output") {
            _ = try FileDescriptor.standardOutput.writeAll(data)
        }
    }

    /// Writes text and a line feed; control characters in the text are escaped.
    static func print(_ text: String, keeping kept: Set<Unicode.Scalar> = []) throws(CommandFailure) {
        try write(Data((text.escapingControls(except: kept) + "\n").utf8))
    }

    /// Writes lines in one call.
    static func print(_ lines: [String]) throws(CommandFailure) {
        try write(Data(lines.map { $0.escapingControls() + "\n" }.joined().utf8))
    }

    /// Writes a value as JSON on a line of its own.
    static func print(line value: some Encodable) throws {
        try write(Data(try JSONText.line(value).utf8))
    }

    /// Writes JSON text and a line feed; control characters become escapes of JSON, so that the value is unchanged.
    static func print(json text: String) throws(CommandFailure) {
        try write(Data((text.escapingControlsOfJSON() + "\n").utf8))
    }
}

/// Standard input, read without a buffer of the C library.
enum StandardInput {
    /// Reads all bytes.
    ///
    /// - Parameter limit: The maximum number of bytes.
    /// - Returns: The bytes up to the end of the input.
    /// - Throws: ``CommandFailure`` with the error of the system, or for more bytes than the limit.
    static func readToEnd(limit: Int) throws(CommandFailure) -> Data {
        try read(limit: limit) { _ in false }
    }

    /// Reads what is available, up to 64 KiB; returns nil at the end of the input.
    static func readChunk() throws(CommandFailure) -> Data? {
        let bytes = try CommandFailure.naming("cannot read standard input") {
            try FileDescriptor.standardInput.readChunk(upTo: 1 << 16)
        }
        return bytes.isEmpty ? nil : Data(bytes)
    }

    /// Reads one line, with the line feed that ends it, from a terminal in canonical mode.
    ///
    /// - Throws: ``CommandFailure`` if a read fails, or if the line may be incomplete: a terminal discards the bytes of
    ///   a line that exceed its buffer, without an error.
    static func readLine() throws(CommandFailure) -> Data {
        // A read returns at most one line, and less if the user has pressed control-D within it.
        var lengthBefore = 0
        return try read(limit: nil) { (line) throws(CommandFailure) in
            let isComplete = line.last == UInt8(ascii: "\n")
            let length = line.count - (isComplete ? 1 : 0)
            guard length - lengthBefore <= longestLine else {
                throw CommandFailure(
                    "a terminal passes no more than \(longestLine) bytes of a line for certain; use a pipe or a file")
            }
            lengthBefore = length
            return isComplete
        }
    }

    #if os(Linux)
    /// The maximum length in bytes, without the line feed, of a line that is certainly complete: `N_TTY` buffers 4,095
    /// bytes (`termios(3)`).
    private static let longestLine = 4094
    #else
    /// The maximum length in bytes, without the line feed, of a line that is certainly complete: Darwin's `MAX_CANON`
    /// is 1,024.
    private static let longestLine = 1022
    #endif

    /// Reads until `isComplete` returns true for the bytes read so far, or to the end of the input.
    private static func read(
        limit: Int?, until isComplete: (Data) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) -> Data {
        var data = Data()
        while let chunk = try readChunk() {
            data.append(chunk)
            if let limit, data.count > limit {
                throw CommandFailure("standard input is longer than \(readableSize(limit))")
            }
            if try isComplete(data) { return data }
        }
        return data
    }
}

/// Standard error; a message that cannot be written is dropped.
enum StandardError {
    static func write(_ text: String) {
        do {
            _ = try FileDescriptor.standardError.writeAll(text.utf8)
        } catch {
            // The exit status still reports the failure.
        }
    }
}

extension CommandFailure {
    /// Calls `body`; names what has failed in its error, with the message of the system.
    static func naming<Result>(
        _ failure: String, _ body: () throws -> Result
    ) throws(CommandFailure) -> Result {
        do {
            return try body()
        } catch {
            throw CommandFailure("\(failure): \((error as? Errno)?.text ?? "\(error)")")
        }
    }
}

extension Errno {
    /// The message and the symbol of the error number: `No space left on device (ENOSPC)`.
    var text: String { "\(description) (\(name))" }
}

/// The descriptors 0, 1 and 2, which a caller may have closed.
public enum StandardDescriptors {
    /// Opens each closed standard descriptor, in a mode in which its use fails with `EBADF`.
    ///
    /// Otherwise the first file that the process opens would get the free number, and output would be written into a
    /// store. The C library does the same for set-user-ID programs (glibc, `csu/check_fds.c`). Call it before any
    /// descriptor is opened: the executor of asynchronous code opens some.
    public static func reserve() {
        let modes: [(CInt, FileDescriptor.AccessMode)] = [(0, .writeOnly), (1, .readOnly), (2, .readOnly)]
        for (number, mode) in modes where fcntl(number, F_GETFD) == -1 {
            do {
                // The lowest free number is this one, because lower ones are open.
                _ = try FileDescriptor.open("/dev/null", mode)
            } catch {
                StandardError.write("Error: cannot open /dev/null: \(error)\n")
                exit(1)
            }
        }
    }

    /// Makes a write to a pipe without a reader fail with `EPIPE` instead of ending the process.
    public static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
    }
}

extension FileDescriptor {
    /// The bytes of one read, at most `limit`; empty at the end of the file.
    func readChunk(upTo limit: Int) throws -> [UInt8] {
        try unsafe [UInt8](unsafeUninitializedCapacity: limit) { bytes, count in
            count = try unsafe read(into: UnsafeMutableRawBufferPointer(bytes))
        }
    }

    /// Waits until a read has something to return.
    ///
    /// - Throws: ``CommandFailure`` if interrupted.
    func waitForInput() throws(CommandFailure) {
        var request = pollfd(fd: rawValue, events: Int16(POLLIN), revents: 0)
        var ready: CInt
        repeat {
            try Interruption.check()
            // With a limit, because another thread may receive the signal, which interrupts no call of this one.
            ready = unsafe poll(&request, 1, 50)
        } while ready == 0 || ready == -1 && errno == EINTR
    }
}

/// The reaction to control-C: the process ends at once, or, after ``deferInterruption()``, at the next ``check()`` of the
/// command.
public enum Interruption {
    /// Whether the next control-C only requests the end.
    private static let isAwaited = Atomic(false)
    /// Whether the end was requested.
    private static let isRequested = Atomic(false)

    /// The line that the signal handler writes; made before the handler is installed.
    nonisolated(unsafe) private static let message: UnsafeMutableBufferPointer<UInt8> = {
        let text = "Error: interrupted"
        let line =
            ErrorMessage.isJSON
            ? ErrorMessage.json(text, code: ExitStatus.interrupted.rawValue) : ErrorMessage.text(text)
        let bytes = Array(line.utf8)
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = unsafe buffer.initialize(from: bytes)
        return unsafe buffer
    }()

    /// Handles `SIGINT`, `SIGTERM` and `SIGHUP`, except those that the caller ignores, as shells do with `SIGINT` for
    /// processes in the background.
    public static func install() {
        // A signal handler must not initialise static properties.
        _ = unsafe message
        _ = isAwaited.load(ordering: .relaxed)
        _ = isRequested.load(ordering: .relaxed)
        for number in [SIGINT, SIGTERM, SIGHUP] {
            var earlier = sigaction()
            unsafe sigaction(number, nil, &earlier)
            if !earlier.isIgnoring { signal(number) { Interruption.handle($0) } }
        }
    }

    /// The signal handler: it only uses loads, stores, `signal(2)`, `raise(3)`, `write(2)` and `_exit(2)`, which are
    /// async-signal-safe.
    private static func handle(_ number: CInt) {
        // The second signal ends the process at once.
        if isAwaited.exchange(false, ordering: .relaxed) {
            isRequested.store(true, ordering: .relaxed)
            return
        }
        guard number == SIGINT else {
            signal(number, SIG_DFL)
            raise(number)
            return
        }
        _ = unsafe write(STDERR_FILENO, message.baseAddress, message.count)
        _exit(ExitStatus.interrupted.rawValue)
    }

    /// Makes the first signal only request the end, with the status of control-C; from now on the command calls
    /// ``check()`` often.
    static func deferInterruption() {
        isAwaited.store(true, ordering: .relaxed)
    }

    /// Undoes ``deferInterruption()``: the next signal ends the process at once.
    ///
    /// - Throws: ``CommandFailure`` if a signal has requested the end already.
    static func endAtOnce() throws(CommandFailure) {
        isAwaited.store(false, ordering: .relaxed)
        try check()
    }

    /// Runs `body` in a task, and cancels the task after control-C, which ends a wait for a server.
    ///
    /// - Throws: ``CommandFailure`` if interrupted, or the error of `body`.
    static func cancelling(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let work = Task(operation: body)
        let watch = Task {
            while !isRequested.load(ordering: .relaxed) { try await Task.sleep(for: .milliseconds(20)) }
            work.cancel()
        }
        defer { watch.cancel() }
        do {
            try await work.value
        } catch {
            try check()
            throw error
        }
    }

    /// Throws if the end was requested by control-C.
    static func check() throws(CommandFailure) {
        if isRequested.load(ordering: .relaxed) { throw CommandFailure("interrupted", .interrupted) }
    }
}

extension sigaction {
    fileprivate var isIgnoring: Bool {
        #if os(Linux)
        unsafe unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self) == 1
        #else
        unsafe unsafeBitCast(__sigaction_u.__sa_handler, to: Int.self) == 1
        #endif
    }
}
