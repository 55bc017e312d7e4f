import Foundation

@testable import ForgeInspector

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

    struct NoPage: Error {}

    let port: Int
    let token: String
    var origin: String { "http://127.0.0.1:\(port)" }

    init(_ url: URL) throws {
        guard let port = url.port, let token = url.fragment, url.host == "127.0.0.1" else { throw NoPage() }
        (self.port, self.token) = (port, token)
    }

    #if Inspector
    /// Runs `body` with a server of a directory.
    static func serving(
        _ directory: URL, _ options: InspectorOptions = InspectorOptions(), timeLimit: Duration = .seconds(30),
        _ body: (ServedPage) async throws -> Void
    ) async throws {
        let inspector = try Inspector(directory, options: options)
        let (urls, started) = AsyncStream.makeStream(of: URL.self)
        let server = Task { try await inspector.serve(port: 0, timeLimit: timeLimit) { started.yield($0) } }
        var iterator = urls.makeAsyncIterator()
        guard let url = await iterator.next() else { throw NoPage() }
        do {
            try await body(try ServedPage(url))
        } catch {
            server.cancel()
            _ = await server.result
            throw error
        }
        server.cancel()
        _ = await server.result
    }
    #endif

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
        return try await raw(Array(message.utf8))
    }

    /// Sends bytes and reads the answer until the server closes the connection.
    func raw(_ message: [UInt8]) async throws -> Answer {
        let bytes = try await onThread { [port] in
            let connection = try RawConnection(port: port)
            connection.send(message)
            return connection.readAll()
        }
        let text = String(decoding: bytes, as: UTF8.self)
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let head = parts[0].components(separatedBy: "\r\n")
        return Answer(
            status: Int(head[0].split(separator: " ").dropFirst().first ?? "") ?? 0,
            headers: Array(head.dropFirst()), body: parts.count > 1 ? parts[1] : "")
    }
}
