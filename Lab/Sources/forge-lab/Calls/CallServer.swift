import ForgeFileSystem
import Foundation
import SystemPackage

/// Answers `forge-lab call`: every command line is a process of its own on one file system in memory.
final class CallServer: Sendable {
    private let fileSystem: InMemoryFileSystem
    private let path: String
    private let socket: LocalSocket

    /// Listens on a new socket.
    init(_ fileSystem: InMemoryFileSystem, socket path: String) throws(Errno) {
        self.fileSystem = fileSystem
        self.path = path
        socket = try LocalSocket(listeningAt: path)
    }

    /// Answers one client after the other, for as long as the process lives.
    func serve() {
        // A client that has gone is an error of the call that answers it, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        while true {
            do throws(Errno) {
                let client = try socket.nextClient()
                let bytes = try client.receiveAll(limit: CallRequest.maximumSize)
                guard let request = CallRequest(bytes) else { continue }
                try client.sendAll(answer(request).bytes)
            } catch .brokenPipe {
                // The client has gone without waiting for its answer.
            } catch {
                FileHandle.standardError.write(Data("calls: \(error)\n".utf8))
                return
            }
        }
    }

    /// Takes the socket's name away.
    func close() {
        unlink(path)
    }

    private func answer(_ request: CallRequest) -> CallResponse {
        var session = CallSession()
        return session.run(request, on: fileSystem)
    }
}
