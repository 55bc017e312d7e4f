import ArgumentParser
import ForgeFileSystem
import Foundation
import SystemPackage

/// Serves an in-memory file system to `forge-lab call`.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Answer `forge-lab call` from an in-memory file system, until killed.")

    @Option(help: "The path of the socket to create.") var socket: String
    @Option(help: "The size in bytes; unlimited if omitted.") var size: Int64?
    @Option(help: "The number of files; unlimited if omitted.") var inodes: Int?

    func run() throws {
        let server = try CallServer(InMemoryFileSystem(options: .served(size: size, inodes: inodes)), socket: socket)
        FileHandle.standardOutput.write(Data("listening on \(socket)\n".utf8))
        server.serve()
    }
}

/// Makes system calls on the served file system, in the syntax of pjdfstest's helper.
struct CallCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call", abstract: "Make system calls on a served file system.",
        discussion: """
            The words are those of pjdfstest's own helper: [-U umask] [-u uid] [-g gid[,gid...]] call argument ... \
            [: call argument ...]. Each call prints 0, what was asked for, or the name of an error, which ends the run.
            """)

    @Option(help: "The socket of `forge-lab serve` or `forge-lab mount`.") var socket: String
    @Option(
        help: """
            Where the same file system is mounted; relative paths then start from this process's working directory, \
            if it lies there.
            """)
    var mount: String?
    @Argument(parsing: .captureForPassthrough, help: "Identity, calls and their arguments.") var words: [String] = []

    func run() throws {
        let words = self.words.first == "--" ? Array(self.words.dropFirst()) : self.words
        let request = CallRequest(directory: Self.directory(below: mount), words: words.map { Array($0.utf8) })
        let server = try LocalSocket(connectingTo: socket)
        try server.sendAll(request.bytes)
        guard let response = CallResponse(try server.receiveAll(limit: CallRequest.maximumSize)) else {
            throw Errno.ioError
        }
        FileHandle.standardError.write(Data(response.diagnostics))
        FileHandle.standardOutput.write(Data(response.output))
        if response.status != 0 { throw ExitCode(Int32(response.status)) }
    }

    /// The inode of the working directory if it lies in the mounted file system, otherwise 0.
    private static func directory(below mount: String?) -> UInt64 {
        var root = stat()
        var own = stat()
        guard let mount, stat(mount, &root) == 0, stat(".", &own) == 0, root.st_dev == own.st_dev else { return 0 }
        return UInt64(own.st_ino)
    }
}

extension InMemoryFileSystem.Options {
    /// Options for a file system that other programs use: real time, and no limit on descriptors.
    static func served(size: Int64?, inodes: Int?) -> Self {
        var options = Self(quota: .init(sizeInBytes: size, inodeCount: inodes), maximumOpenFileCount: .max)
        options.clock = {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return FileTime(seconds: Int64(time.tv_sec), nanoseconds: Int32(time.tv_nsec))
        }
        return options
    }
}

/// The calls and their arguments in the syntax of pjdfstest's helper.
enum CallSyntax {
    enum Argument {
        case text
        case number
        case descriptor
    }

    struct Form {
        var arguments: [Argument]
        /// The number of trailing arguments that may be omitted.
        var optionalCount = 0
    }

    static let forms: [String: Form] = [
        "open": Form(arguments: [.text, .text, .number], optionalCount: 1),
        "openat": Form(arguments: [.descriptor, .text, .text, .number], optionalCount: 1),
        "create": Form(arguments: [.text, .number]),
        "unlink": Form(arguments: [.text]),
        "unlinkat": Form(arguments: [.descriptor, .text, .text]),
        "mkdir": Form(arguments: [.text, .number]),
        "mkdirat": Form(arguments: [.descriptor, .text, .number]),
        "rmdir": Form(arguments: [.text]),
        "link": Form(arguments: [.text, .text]),
        "linkat": Form(arguments: [.descriptor, .text, .descriptor, .text, .text]),
        "symlink": Form(arguments: [.text, .text]),
        "symlinkat": Form(arguments: [.text, .descriptor, .text]),
        "readlink": Form(arguments: [.text]),
        "rename": Form(arguments: [.text, .text]),
        "renameat": Form(arguments: [.descriptor, .text, .descriptor, .text]),
        "mkfifo": Form(arguments: [.text, .number]),
        "mkfifoat": Form(arguments: [.descriptor, .text, .number]),
        "mknod": Form(arguments: [.text, .text, .number, .number, .number]),
        "mknodat": Form(arguments: [.descriptor, .text, .text, .number, .number, .number]),
        "bind": Form(arguments: [.text]),
        "bindat": Form(arguments: [.descriptor, .text]),
        "connect": Form(arguments: [.text]),
        "connectat": Form(arguments: [.descriptor, .text]),
        "chmod": Form(arguments: [.text, .number]),
        "fchmod": Form(arguments: [.descriptor, .number]),
        "lchmod": Form(arguments: [.text, .number]),
        "fchmodat": Form(arguments: [.descriptor, .text, .number, .text]),
        "chown": Form(arguments: [.text, .number, .number]),
        "fchown": Form(arguments: [.descriptor, .number, .number]),
        "lchown": Form(arguments: [.text, .number, .number]),
        "fchownat": Form(arguments: [.descriptor, .text, .number, .number, .text]),
        "truncate": Form(arguments: [.text, .number]),
        "ftruncate": Form(arguments: [.descriptor, .number]),
        "posix_fallocate": Form(arguments: [.descriptor, .number, .number]),
        "stat": Form(arguments: [.text, .text]),
        "fstat": Form(arguments: [.descriptor, .text]),
        "lstat": Form(arguments: [.text, .text]),
        "fstatat": Form(arguments: [.descriptor, .text, .text, .text]),
        "pathconf": Form(arguments: [.text, .text]),
        "fpathconf": Form(arguments: [.descriptor, .text]),
        "access": Form(arguments: [.text, .number]),
        "pread": Form(arguments: [.descriptor, .number, .number]),
        "pwrite": Form(arguments: [.descriptor, .text, .number]),
        "write": Form(arguments: [.descriptor, .text]),
        "utimensat": Form(arguments: [.descriptor, .text, .number, .text, .number, .text, .text]),
    ]

    /// A number as `strtoll(3)` reads it with base 0: decimal, `0x` hexadecimal or `0` octal; blanks may follow.
    static func number(_ word: [UInt8]) -> Int64? {
        var text = Substring(decoding: word, as: UTF8.self)
        text = text.drop { $0.isWhitespace }
        let isNegative = text.first == "-"
        if isNegative || text.first == "+" { text = text.dropFirst() }
        while text.last?.isWhitespace == true { text = text.dropLast() }
        let magnitude: UInt64?
        if text.isEmpty {
            magnitude = 0
        } else if text.hasPrefix("0x") || text.hasPrefix("0X") {
            magnitude = UInt64(text.dropFirst(2), radix: 16)
        } else {
            magnitude = UInt64(text, radix: text.hasPrefix("0") ? 8 : 10)
        }
        guard let magnitude else { return nil }
        if isNegative { return magnitude > UInt64(Int64.max) ? .min : -Int64(magnitude) }
        return Int64(clamping: magnitude)
    }
}

/// The parsed arguments of one call, in order.
struct CallArguments {
    enum Value {
        case text([UInt8])
        /// An invalid pointer.
        case fault
        case number(Int64)
        case descriptor(Descriptor)
    }

    private(set) var values: [Value] = []

    init(_ values: [Value]) { self.values = values }

    var count: Int { values.count }

    func number(_ index: Int) -> Int64 {
        guard case .number(let number) = values[index] else { return 0 }
        return number
    }

    func descriptor(_ index: Int) -> Descriptor {
        guard case .descriptor(let descriptor) = values[index] else { return .workingDirectory }
        return descriptor
    }

    func path(_ index: Int) throws(Errno) -> POSIXPath { POSIXPath(try bytes(index)) }

    func text(_ index: Int) throws(Errno) -> String { String(decoding: try bytes(index), as: UTF8.self) }

    func bytes(_ index: Int) throws(Errno) -> [UInt8] {
        guard case .text(let bytes) = values[index] else { throw .badAddress }
        return bytes
    }

    func permissions(_ index: Int) -> FilePermissions {
        FilePermissions(rawValue: CInterop.Mode(truncatingIfNeeded: number(index) & 0o7777))
    }

    /// A user or group; -1 leaves it unchanged.
    func user(_ index: Int) -> UserID? {
        let number = UInt32(truncatingIfNeeded: number(index))
        return number == .max ? nil : UserID(rawValue: number)
    }

    func group(_ index: Int) -> GroupID? {
        let number = UInt32(truncatingIfNeeded: number(index))
        return number == .max ? nil : GroupID(rawValue: number)
    }
}
