import ArgumentParser
import ForgeFileSystem
import Foundation
import SystemPackage

/// Keeps a file system in memory for `forge-lab call`.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Answer `forge-lab call` from a file system in memory, until killed.")

    @Option(help: "The socket to listen on; nothing may be there.") var socket: String
    @Option(help: "How many bytes there are; no limit if left out.") var size: Int64?
    @Option(help: "How many files there may be; no limit if left out.") var inodes: Int?

    func run() throws {
        let server = try CallServer(InMemoryFileSystem(options: .served(size: size, inodes: inodes)), socket: socket)
        FileHandle.standardOutput.write(Data("listening on \(socket)\n".utf8))
        server.serve()
    }
}

/// Makes system calls on the served file system, in the words of the helper that pjdfstest calls.
struct CallCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call", abstract: "Make system calls on a file system that is served.",
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

    /// The inode of the working directory, if that lies in the file system that is mounted here.
    private static func directory(below mount: String?) -> UInt64 {
        var root = stat()
        var own = stat()
        guard let mount, stat(mount, &root) == 0, stat(".", &own) == 0, root.st_dev == own.st_dev else { return 0 }
        return UInt64(own.st_ino)
    }
}
