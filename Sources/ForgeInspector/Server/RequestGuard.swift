#if Inspector
import Crypto
import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import NIOHTTPTypes

/// Decides before anything is read whether a request comes from the page of this server.
///
/// `Host` must be this server's, which a name that an attacker lets resolve to 127.0.0.1 is not (DNS rebinding).
/// `Origin` must be this server's if a browser sends it, and a write must have it, so no other page can write (CSRF).
/// All but the three files of the page needs the token, which no other user of the machine knows.
struct RequestGuard: Sendable {
    let token: AccessToken
    let port: Int

    private var hosts: [String] { ["127.0.0.1:\(port)", "localhost:\(port)"] }

    /// The status of the refusal of a request; nil if it is permitted. A public request is for a file of the page.
    func refusal(of request: HTTPRequest, isPublic: Bool) -> HTTPResponse.Status? {
        guard let host = request.authority, hosts.contains(host) else { return .forbidden }
        // The first is the authority. A second one stays in the fields (RFC 9112, section 3.2).
        if let name = HTTPField.Name("Host"), request.headerFields[name] != nil { return .badRequest }
        // A second header would be joined to the first, and equal neither.
        let origin = request.headerFields[.origin]
        if let origin, origin != "http://\(host)" { return .forbidden }
        guard !isPublic else { return request.method == .get ? nil : .methodNotAllowed }
        guard token.matches(request.headerFields[.authorization]) else { return .unauthorized }
        guard request.method != .get else { return nil }
        guard request.method == .post else { return .methodNotAllowed }
        return origin == nil ? .forbidden : nil
    }
}

/// The secret that a page sends with every request: 256 random bits in base64url.
///
/// It is in the fragment of the page's URL only, which browsers send to no server and in no `Referer`.
struct AccessToken: Sendable {
    let text: String

    /// A new random token.
    init() {
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        text = Self.base64URL(bytes)
    }

    /// Whether an `Authorization` header contains the token; takes the same time for every header.
    func matches(_ authorization: String?) -> Bool {
        guard let authorization, authorization.hasPrefix("Bearer ") else { return false }
        // Digests of equal length: neither the position of a difference nor the length shows in the time.
        let given = SHA256.hash(data: Array(authorization.utf8.dropFirst("Bearer ".utf8.count)))
        let own = SHA256.hash(data: Array(text.utf8))
        return zip(given, own).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func base64URL(_ bytes: [UInt8]) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var (text, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for byte in bytes {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> count & 63)])
            }
            bits &= (1 << count) - 1
        }
        if count > 0 { text.append(alphabet[Int(bits << (6 - count) & 63)]) }
        return String(decoding: text, as: UTF8.self)
    }
}

/// Closes a connection whose request is not complete after a time, or whose client has not read for that time what was
/// sent to it, and after a shorter time a new one without the head of a request: those would keep others waiting.
///
/// The server's own limit on idle connections covers the heads of later requests, but every byte of a body begins it
/// anew.
final class RequestTimeLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private let limit: TimeAmount
    private let headLimit: TimeAmount
    private var head: Scheduled<Void>?
    private var body: Scheduled<Void>?
    private var answer: Scheduled<Void>?

    init(_ limit: TimeAmount, head: TimeAmount) {
        (self.limit, headLimit) = (limit, head)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { head = closing(context, in: headLimit) }
    }

    func channelActive(context: ChannelHandlerContext) {
        head = head ?? closing(context, in: headLimit)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head:
            head?.cancel()
            body = body ?? closing(context, in: limit)
        case .body: break
        case .end:
            body?.cancel()
            body = nil
        }
        context.fireChannelRead(data)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        answer?.cancel()
        answer = context.channel.isWritable ? nil : closing(context, in: limit)
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        cancel()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancel() }

    private func cancel() {
        for timer in [head, body, answer] { timer?.cancel() }
        (head, body, answer) = (nil, nil, nil)
    }

    private func closing(_ context: ChannelHandlerContext, in limit: TimeAmount) -> Scheduled<Void> {
        let channel = context.channel
        return context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
    }
}
#endif
