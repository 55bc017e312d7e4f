#if Inspector
import HTTPTypes
import NIOCore
import NIOHTTPTypes

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
