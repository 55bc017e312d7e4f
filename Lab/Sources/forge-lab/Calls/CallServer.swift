import ForgeFileSystem
import Foundation
import SystemPackage

/// Answers `forge-lab call`; each command line runs as a process of its own on one in-memory file system.
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

    /// Answers one client after another, until the process ends.
    func serve() {
        // Writing to a closed socket then fails with an error instead of ending the process.
        signal(SIGPIPE, SIG_IGN)
        while true {
            do throws(Errno) {
                let client = try socket.nextClient()
                let bytes = try client.receiveAll(limit: CallRequest.maximumSize)
                guard let request = CallRequest(bytes) else { continue }
                try client.sendAll(answer(request).bytes)
            } catch .brokenPipe {
                // The client disconnected before the response.
            } catch {
                FileHandle.standardError.write(Data("calls: \(error)\n".utf8))
                return
            }
        }
    }

    /// Removes the socket's path.
    func close() {
        unlink(path)
    }

    private func answer(_ request: CallRequest) -> CallResponse {
        var session = CallSession()
        return session.run(request, on: fileSystem)
    }
}
