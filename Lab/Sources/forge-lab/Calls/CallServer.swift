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

/// The request of `forge-lab call`: its command line and its working directory.
struct CallRequest: Equatable {
    /// The inode number of the working directory, 0 if that lies in another file system.
    var directory: UInt64
    var words: [[UInt8]]
}

/// The output to print and the exit status.
struct CallResponse: Equatable {
    var status: UInt8 = 0
    var output: [UInt8] = []
    var diagnostics: [UInt8] = []
}

/// The encoding: integers in native byte order, each string after its length.
extension CallRequest {
    /// A longer request is not a command line.
    static let maximumSize = 4 << 20

    var bytes: [UInt8] {
        var writer = CallWriter()
        writer.append(directory)
        writer.append(UInt64(words.count))
        for word in words { writer.append(word) }
        return writer.bytes
    }

    init?(_ bytes: [UInt8]) {
        var reader = CallReader(bytes: bytes)
        guard let directory = reader.number(), let count = reader.number(), count <= UInt64(bytes.count) else {
            return nil
        }
        self.init(directory: directory, words: [])
        for _ in 0..<count {
            guard let word = reader.string() else { return nil }
            words.append(word)
        }
        guard reader.isAtEnd else { return nil }
    }
}

extension CallResponse {
    var bytes: [UInt8] {
        var writer = CallWriter()
        writer.append(UInt64(status))
        writer.append(output)
        writer.append(diagnostics)
        return writer.bytes
    }

    init?(_ bytes: [UInt8]) {
        var reader = CallReader(bytes: bytes)
        guard let status = reader.number().flatMap({ UInt8(exactly: $0) }), let output = reader.string(),
            let diagnostics = reader.string(), reader.isAtEnd
        else { return nil }
        self.init(status: status, output: output, diagnostics: diagnostics)
    }
}

private struct CallWriter {
    var bytes: [UInt8] = []

    mutating func append(_ number: UInt64) { withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) } }

    mutating func append(_ string: [UInt8]) {
        append(UInt64(string.count))
        bytes += string
    }
}

private struct CallReader {
    let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func number() -> UInt64? {
        guard bytes.count - position >= 8 else { return nil }
        defer { position += 8 }
        return bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: position, as: UInt64.self) }
    }

    mutating func string() -> [UInt8]? {
        guard let count = number().flatMap({ Int(exactly: $0) }), count <= bytes.count - position else { return nil }
        defer { position += count }
        return Array(bytes[position..<position + count])
    }
}

/// A stream socket of the local domain (`unix(7)`).
final class LocalSocket: Sendable {
    private let descriptor: CInt

    private init(taking descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Connects to a server.
    convenience init(connectingTo path: String) throws(Errno) {
        self.init(taking: try Self.make())
        try Self.withAddress(path) { address, size in connect(descriptor, address, size) }
    }

    /// Listens at a path, which must not exist.
    convenience init(listeningAt path: String) throws(Errno) {
        self.init(taking: try Self.make())
        try Self.withAddress(path) { address, size in bind(descriptor, address, size) }
        guard listen(descriptor, 64) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Waits for and accepts the next client.
    func nextClient() throws(Errno) -> LocalSocket {
        while true {
            let client = accept(descriptor, nil, nil)
            if client >= 0 { return LocalSocket(taking: client) }
            guard errno == EINTR || errno == ECONNABORTED else { throw Errno(rawValue: errno) }
        }
    }

    /// Sends all bytes and shuts down the sending side.
    func sendAll(_ bytes: [UInt8]) throws(Errno) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
                return send(descriptor, rest.baseAddress, rest.count, 0)
            }
            guard count >= 0 || errno == EINTR else { throw Errno(rawValue: errno) }
            sent += max(0, count)
        }
        _ = shutdown(descriptor, Self.endOfWriting)
    }

    /// Receives until the peer shuts down its sending side.
    func receiveAll(limit: Int) throws(Errno) -> [UInt8] {
        var received: [UInt8] = []
        while received.count <= limit {
            let part = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
                count = max(0, recv(descriptor, buffer.baseAddress, 65_536, 0))
            }
            guard !part.isEmpty else { return received }
            received += part
        }
        throw .messageTooLong
    }

    private static let endOfWriting = CInt(1)

    private static func make() throws(Errno) -> CInt {
        #if os(Linux)
        let kind = CInt(SOCK_STREAM.rawValue)
        #else
        let kind = SOCK_STREAM
        #endif
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        return descriptor
    }

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt
    ) throws(Errno) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard bytes.count < capacity else { throw .fileNameTooLong }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let result = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else { throw Errno(rawValue: errno) }
    }
}
