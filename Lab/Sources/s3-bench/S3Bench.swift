import AsyncHTTPClient
import Crypto
import ForgeFileStore
import ForgeS3
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

#if canImport(Glibc)
import Glibc
#endif

/// Measures a store in S3 beside plain requests to the same server, which is a process of its own on loopback.
///
/// usage: s3-bench [SIZE-IN-MIB]
@main
struct S3Bench {
    private static let partSize = 8 << 20
    private static let partCount = 4

    static func main() async throws {
        guard CommandLine.arguments.dropFirst().first != "serve" else {
            try await BenchServer().serve()
            return
        }
        let size = (CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1024) << 20
        let server = Process()
        server.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        server.arguments = ["serve"]
        let output = Pipe()
        server.standardOutput = output
        try server.run()
        defer { server.terminate() }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) else { exit(1) }
        var configuration = S3FileStore.Configuration(
            bucket: "b", region: "us-east-1",
            credentials: .values(ForgeS3.S3Credentials(accessKeyID: "id", secretAccessKey: "secret")),
            endpoint: "http://127.0.0.1:\(port)")
        configuration.checksHierarchy = false
        configuration.partSizeInBytes = partSize
        configuration.transferCount = partCount
        let (store, raw) = (try S3FileStore(configuration), RawRequests(port: port))
        print("operation                    store        raw    ratio   memory growth")
        try await small(store, raw)
        try await large(store, raw, size: size)
        await store.close()
        try await raw.close()
    }

    /// Saves and loads of 4 KB, one after the other.
    private static func small(_ store: S3FileStore, _ raw: RawRequests) async throws {
        let content = Data(BenchServer.pattern().prefix(4096))
        let bytes = ByteBuffer(bytes: content)
        let count = 1_000
        var times: [[Duration]] = [[], [], [], []]
        for round in 0..<8 {
            let found = [
                try await time { for _ in 0..<count { try await store.save(content, to: "small", overwrite: true) } },
                try await time { for _ in 0..<count { try await raw.send("PUT", "raw", bytes) } },
                try await time { for _ in 0..<count { _ = try await store.load("small") } },
                try await time {
                    for _ in 0..<count {
                        _ = Data(
                            (try await raw.send("GET", "raw", headers: [("Range", "bytes=0-8388607")]))
                                .readableBytesView)
                    }
                },
            ]
            // The first round opens the connections.
            if round > 0 { for (index, time) in found.enumerated() { times[index].append(time) } }
        }
        for (name, index) in [("put of 4 KB", 0), ("get of 4 KB", 2)] {
            let (own, other) = (median(times[index]) / count, median(times[index + 1]) / count)
            row(name, "\(microseconds(own)) µs", "\(microseconds(other)) µs", own / other, nil)
        }
    }

    /// Transfers of a file in parts.
    private static func large(_ store: S3FileStore, _ raw: RawRequests, size: Int) async throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "s3-bench-\(UUID().uuidString)")
        guard FileManager.default.createFile(atPath: url.path, contents: nil) else { exit(1) }
        defer { do { try FileManager.default.removeItem(at: url) } catch { print(error) } }
        let file = try FileHandle(forUpdating: url)
        let pattern = Data(BenchServer.pattern())
        for _ in 0..<size / pattern.count { try file.write(contentsOf: pattern) }
        var (up, down, rawUp, rawDown): ([Duration], [Duration], [Duration], [Duration]) = ([], [], [], [])
        var (upMemory, downMemory) = (0, 0)
        for _ in 0..<3 {
            var before = resetPeak()
            up.append(try await time { try await store.copy(from: url, to: "large") })
            upMemory = max(upMemory, peak() - before)
            before = resetPeak()
            down.append(
                try await time {
                    var count = 0
                    for try await part in store.contents(of: "large") { count += part.count }
                    guard count == size else { exit(1) }
                })
            downMemory = max(downMemory, peak() - before)
            rawUp.append(
                try await time {
                    try await raw.upload(file, size: size, to: "raw-large", partSize: partSize, count: partCount)
                })
            rawDown.append(
                try await time {
                    try await raw.download("raw-large", size: size, partSize: partSize, count: partCount)
                })
        }
        for (name, own, other, memory) in [
            ("up", up, rawUp, upMemory), ("down", down, rawDown, downMemory),
        ] {
            let rates = [own, other].map { Double(size >> 20) / (median($0) / .seconds(1)) }
            row(
                "\(size >> 20) MiB \(name)", "\(Int(rates[0])) MiB/s", "\(Int(rates[1])) MiB/s", rates[0] / rates[1],
                memory)
        }
    }

    // MARK: Measurements

    private static func time(_ body: () async throws -> Void) async throws -> Duration {
        let start = ContinuousClock.now
        try await body()
        return ContinuousClock.now - start
    }

    private static func median(_ times: [Duration]) -> Duration { times.sorted()[times.count / 2] }

    private static func microseconds(_ time: Duration) -> Int { Int(time / .microseconds(1)) }

    private static func row(_ name: String, _ own: String, _ other: String, _ ratio: Double, _ memory: Int?) {
        let columns = [name.padding(toLength: 22, withPad: " ", startingAt: 0)] + [own, other].map { pad($0, 11) }
        let number = String(Int((ratio * 100).rounded()))
        let text = "\(number.dropLast(2).isEmpty ? "0" : number.dropLast(2)).\(String("0\(number)".suffix(2)))"
        print(columns.joined(), pad(text, 8), memory.map { pad("\($0) MiB", 8) } ?? "")
    }

    private static func pad(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    /// Resets the peak of the resident memory (proc(5), `clear_refs`), after freed memory has gone back to
    /// the system; returns the resident memory in MiB.
    private static func resetPeak() -> Int {
        #if canImport(Glibc)
        // The module has no malloc.h.
        typealias Trim = @convention(c) (Int) -> Int32
        if let symbol = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(symbol, to: Trim.self)(0) }
        #endif
        do { try Data("5".utf8).write(to: URL(filePath: "/proc/self/clear_refs")) } catch { print(error) }
        return peak()
    }

    /// The largest resident memory of the process since the last call of `resetPeak`, in MiB.
    private static func peak() -> Int {
        do {
            let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
            let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
            return (line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0) >> 10
        } catch {
            return 0
        }
    }
}

/// The plainest correct requests of the same client, with the same signatures.
struct RawRequests: Sendable {
    struct Refused: Error { var status: UInt }

    let client: HTTPClient
    let port: Int
    private let signer = S3Signer(
        credentials: S3Credentials(accessKeyID: "id", secretAccessKey: "secret"), region: "us-east-1")

    init(port: Int) {
        self.port = port
        var settings = HTTPClient.Configuration()
        settings.httpVersion = .http1Only
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
    }

    func close() async throws { try await client.shutdown() }

    @discardableResult
    func send(
        _ method: String, _ key: String, query: [(String, String)] = [], headers: [(String, String)] = [],
        _ body: ByteBuffer = ByteBuffer(), limit: Int = 16 << 20
    ) async throws -> ByteBuffer {
        let hash = body.withUnsafeReadableBytes { bytes in
            var hash = SHA256()
            hash.update(bufferPointer: bytes)
            return S3Encoding.hexadecimal(hash.finalize())
        }
        var wire = S3Wire(
            method: method, scheme: "http", host: "127.0.0.1:\(port)", path: "/b/\(S3Encoding.path(key))", query: query,
            headers: headers)
        signer.sign(&wire, payload: hash, at: Date())
        var request = HTTPClientRequest(url: wire.url)
        request.method = HTTPMethod(rawValue: method)
        request.headers.add(contentsOf: wire.headers)
        if body.readableBytes > 0 { request.body = .bytes(body) }
        let response = try await client.execute(request, timeout: .seconds(60))
        guard 200..<300 ~= response.status.code else { throw Refused(status: response.status.code) }
        return try await response.body.collect(upTo: limit)
    }

    /// Sends a file in parts, several at the same time.
    func upload(_ file: FileHandle, size: Int, to key: String, partSize: Int, count: Int) async throws {
        try await send("POST", key, query: [("uploads", "")])
        let descriptor = file.fileDescriptor
        try await Self.parallel(size, partSize, count) { range in
            var bytes = ByteBufferAllocator().buffer(capacity: range.count)
            try bytes.writeWithUnsafeMutableBytes(minimumWritableBytes: range.count) { buffer in
                let count = pread(descriptor, buffer.baseAddress, range.count, off_t(range.lowerBound))
                guard count == range.count else { throw CocoaError(.fileReadUnknown) }
                return count
            }
            let number = range.lowerBound / partSize + 1
            try await send("PUT", key, query: [("partNumber", "\(number)"), ("uploadId", "u")], bytes)
        }
        try await send("POST", key, query: [("uploadId", "u")], ByteBuffer(string: "<CompleteMultipartUpload/>"))
    }

    /// Loads a file in parts, several at the same time; the bytes are dropped.
    func download(_ key: String, size: Int, partSize: Int, count: Int) async throws {
        try await Self.parallel(size, partSize, count) { range in
            let part = try await send(
                "GET", key, headers: [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")])
            guard part.readableBytes == range.count else { throw CocoaError(.fileReadUnknown) }
        }
    }

    private static func parallel(
        _ size: Int, _ partSize: Int, _ count: Int, _ body: @escaping @Sendable (Range<Int>) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, start) in stride(from: 0, to: size, by: partSize).enumerated() {
                if index >= count { try await group.next() }
                group.addTask { try await body(start..<min(start + partSize, size)) }
            }
            try await group.waitForAll()
        }
    }
}

/// A server with the requests of S3 that the measurements need. It keeps sizes and metadata, discards bodies, and
/// serves bytes of one pattern, so that it takes little of the machine.
final class BenchServer: Sendable {
    /// The bytes of every object: repeated.
    static let period = 1 << 20

    static func pattern() -> [UInt8] { (0..<period).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }

    struct Object: Sendable {
        var size = 0
        var metadata: [(String, String)] = []
    }

    private let objects = Mutex<[String: Object]>([:])
    let bytes = ByteBuffer(bytes: pattern())

    /// Serves until the process ends; prints the port.
    func serve() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(self))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        print(channel.localAddress?.port ?? 0)
        fflush(nil)
        try await channel.closeFuture.get()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let server: BenchServer
        private var head: HTTPRequestHead?
        private var count = 0

        init(_ server: BenchServer) {
            self.server = server
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, count) = (head, 0)
            case .body(let bytes): count += bytes.readableBytes
            case .end:
                guard let head else { return }
                answer(head, context)
            }
        }

        private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
            let parts = head.uri.split(separator: "?", maxSplits: 1)
            let (path, query) = (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
            switch head.method {
            case .PUT, .POST:
                server.store(path, query, head, count)
                let text = query.hasPrefix("uploads") ? "<R><UploadId>u</UploadId></R>" : "<R><ETag>e</ETag></R>"
                send(.ok, [("ETag", "\"e\"")], head.method == .POST ? ByteBuffer(string: text) : ByteBuffer(), context)
            case .GET where path.split(separator: "/").count == 1:
                send(.ok, [], ByteBuffer(string: "<ListBucketResult/>"), context)
            case .GET: get(path, head, context)
            default: send(.noContent, [], ByteBuffer(), context)
            }
        }

        private func get(_ path: String, _ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
            guard let object = server.objects.withLock({ $0[path] }), let range = head.headers.first(name: "Range")
            else {
                send(.notFound, [], ByteBuffer(), context)
                return
            }
            let bounds = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
            let (start, end) = (bounds[0], min(bounds[1] + 1, object.size))
            var headers = HTTPHeaders(object.metadata + [("ETag", "\"e\""), ("Content-Length", "\(end - start)")])
            headers.add(name: "Content-Range", value: "bytes \(start)-\(end - 1)/\(object.size)")
            let answer = HTTPResponseHead(version: .http1_1, status: .partialContent, headers: headers)
            context.write(wrapOutboundOut(.head(answer)), promise: nil)
            var offset = start
            while offset < end {
                let position = offset % BenchServer.period
                let length = min(BenchServer.period - position, end - offset)
                if let slice = server.bytes.getSlice(at: position, length: length) {
                    context.write(wrapOutboundOut(.body(.byteBuffer(slice))), promise: nil)
                }
                offset += length
            }
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }

        private func send(
            _ status: HTTPResponseStatus, _ headers: [(String, String)], _ body: ByteBuffer,
            _ context: ChannelHandlerContext
        ) {
            let headers = HTTPHeaders(headers + [("Content-Length", "\(body.readableBytes)")])
            let answer = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
            context.write(wrapOutboundOut(.head(answer)), promise: nil)
            if body.readableBytes > 0 { context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        }
    }

    private func store(_ path: String, _ query: String, _ head: HTTPRequestHead, _ count: Int) {
        objects.withLock { objects in
            if query.isEmpty || query.hasPrefix("uploads") { objects[path] = Object() }
            let metadata = head.headers.filter { $0.name.lowercased().hasPrefix("x-amz-meta-") }
            if !metadata.isEmpty { objects[path]?.metadata = metadata.map { ($0.name, $0.value) } }
            if head.method == .PUT { objects[path]?.size += count }
        }
    }
}
