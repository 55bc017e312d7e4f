import ForgeStorage
import Foundation
import Logging

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

    /// The state of a value, which an edit of it sends back; both names as in a query.
    func state(of key: String, in store: String) async throws -> String {
        let body = try await get("/api/value?store=\(store)&key=\(key)").body
        let value = try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
        guard let state = value?["state"] as? String else { throw NoPage() }
        return state
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

/// A connection to a server on this machine that sends what it is given, and blocks the calling thread.
final class RawConnection {
    struct Failed: Error {
        var errno: Int32
    }

    private let descriptor: Int32

    init(port: Int) throws {
        #if canImport(Darwin)
        descriptor = socket(AF_INET, SOCK_STREAM, 0)
        var isOn: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &isOn, socklen_t(MemoryLayout<Int32>.size))
        #else
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw Failed(errno: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                connect(descriptor, address, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            let number = errno
            close(descriptor)
            throw Failed(errno: number)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Sends bytes; returns false once the server has closed the connection.
    @discardableResult func send(_ bytes: [UInt8], isWaiting: Bool = true) -> Bool {
        #if canImport(Darwin)
        let flags = isWaiting ? 0 : Int32(MSG_DONTWAIT)
        #else
        let flags = Int32(MSG_NOSIGNAL) | (isWaiting ? 0 : Int32(MSG_DONTWAIT))
        #endif
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { sendBytes(descriptor, $0.baseAddress, $0.count, flags) }
            if count < 0 { return errno == EAGAIN }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Reads until the server closes the connection.
    func readAll() -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
    }
}

/// `send(2)`, which the method of the same name hides.
private func sendBytes(_ descriptor: Int32, _ start: UnsafeRawPointer?, _ count: Int, _ flags: Int32) -> Int {
    send(descriptor, start, count, flags)
}

/// Runs `body` on a thread of its own: the server of a test needs those of Dispatch.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Swift.Result<Result, any Error> { try body() })
        }
    }
}

/// A directory on disk for one test, removed when the object is released.
final class TemporaryStores: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "forge-inspector-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(at: url) } catch {}
    }

    /// A directory with a key-value store `settings`, whose `key` is "value".
    static func withOneKey() throws -> TemporaryStores {
        let stores = try TemporaryStores()
        let store = try stores.keyValueStore()
        try store.set(KVKey<String>("key"), value: "value")
        try store.close()
        return stores
    }

    func place(_ name: String) -> URL { url.appending(path: name) }

    var root: ConfinedDirectory { get throws { try ConfinedDirectory(POSIXPath(url)) } }

    func keyValueStore(
        _ name: String = "settings", sharing: FileKVStore.Sharing = .exclusive
    ) throws -> FileKVStore {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return try FileKVStore(at: place(name), options: .init(sharing: sharing, logger: logger))
    }
}
