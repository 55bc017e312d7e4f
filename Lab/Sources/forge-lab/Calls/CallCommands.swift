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
