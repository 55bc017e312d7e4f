import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

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
