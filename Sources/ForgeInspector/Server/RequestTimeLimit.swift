#if Inspector
import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Closes a connection whose request is not complete after a time, or whose client has not read for that time what was
/// sent to it.
///
/// The server's own limit on idle connections covers the head of a request, but every byte of a body begins it anew.
final class RequestTimeLimit: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private let limit: TimeAmount
    private var body: Scheduled<Void>?
    private var answer: Scheduled<Void>?

    init(_ limit: TimeAmount) {
        self.limit = limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: body = body ?? closing(context)
        case .body: break
        case .end:
            body?.cancel()
            body = nil
        }
        context.fireChannelRead(data)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        answer?.cancel()
        answer = context.channel.isWritable ? nil : closing(context)
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        cancel()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancel() }

    private func cancel() {
        body?.cancel()
        answer?.cancel()
        (body, answer) = (nil, nil)
    }

    private func closing(_ context: ChannelHandlerContext) -> Scheduled<Void> {
        let channel = context.channel
        return context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
    }
}
#endif
