import Foundation

/// The requests of a page to its server, each over a connection of its own, with headers as given.
struct ServedPage: Sendable {
    struct Answer {
        var status: Int
        var headers: [String]
        var body: String

        func header(_ name: String) -> String? {
            headers.first { $0.lowercased().hasPrefix(name + ":") }
                .map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
        }
    }

    struct Failed: Error {
        var errno: Int32
    }

    let port: Int
    let token: String
    var origin: String { "http://127.0.0.1:\(port)" }

    init(_ url: URL) throws {
        guard let port = url.port, let token = url.fragment, url.host == "127.0.0.1" else { throw Failed(errno: 0) }
        (self.port, self.token) = (port, token)
    }

    func get(_ path: String) async throws -> Answer { try await request("GET", path) }

    func post(_ path: String, _ body: String) async throws -> Answer {
        try await request("POST", path, origin: origin, body: body)
    }

    /// Sends a request; `authorization` and `host` are right unless given, an inner nil omits the header.
    func request(
        _ method: String, _ path: String, authorization: String?? = nil, host: String? = nil, origin: String? = nil,
        body: String? = nil
    ) async throws -> Answer {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: \(host ?? "127.0.0.1:\(port)")", "Connection: close"]
        if let authorization = authorization ?? "Bearer \(token)" { lines.append("Authorization: \(authorization)") }
        if let origin { lines.append("Origin: \(origin)") }
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        let message = lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
        // Not on a thread of Dispatch, which the server of the test needs.
        let text = try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { [self] in
                continuation.resume(with: Result<String, any Error> { try exchange(message) })
            }
        }
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let head = parts[0].components(separatedBy: "\r\n")
        return Answer(
            status: Int(head[0].split(separator: " ").dropFirst().first ?? "") ?? 0,
            headers: Array(head.dropFirst()), body: parts.count > 1 ? parts[1] : "")
    }

    private func exchange(_ request: String) throws -> String {
        #if canImport(Darwin)
        let descriptor = Darwin.socket(AF_INET, SOCK_STREAM, 0)
        #else
        let descriptor = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw Failed(errno: errno) }
        let socket = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failed(errno: errno) }
        try socket.write(contentsOf: Data(request.utf8))
        var data = Data()
        while let chunk = try socket.read(upToCount: 1 << 16), !chunk.isEmpty { data.append(chunk) }
        return String(decoding: data, as: UTF8.self)
    }
}
