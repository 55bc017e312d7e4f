import ServerTestSupport
import Synchronization

/// A proxy before the peer port of a member, through which the other members reach it.
///
/// While it blocks a sender, the bytes of its connections vanish in both directions, as in a network that drops
/// packets; these connections are cut when the block ends. A connection belongs to the member that its first request
/// names.
final class PeerProxy: Sendable {
    /// The connections that are blocked.
    enum Block: Hashable, Sendable {
        case none
        case all

        /// Those of the member with this identifier, the value of the header `X-Server-From`.
        case sender(String)
    }

    /// The present block, and the connections that any block has affected: their bytes stay lost.
    private final class State: Sendable {
        let block = Mutex((block: Block.none, blocked: Set<Int>()))

        func isBlocked(_ connection: Int, sender: String?) -> Bool {
            block.withLock { state in
                if state.block == .all || (sender != nil && state.block == sender.map(Block.sender)) {
                    state.blocked.insert(connection)
                }
                return state.blocked.contains(connection)
            }
        }
    }

    private let proxy: LoopbackProxy
    private let state: State

    var port: UInt16 { proxy.port }

    init(to target: UInt16) throws {
        let state = State()
        self.state = state
        proxy = try LoopbackProxy(to: target) { connection in
            let sender = SenderName()
            return { side, bytes in
                let name = sender.read(bytes, from: side)
                return state.isBlocked(connection, sender: name) ? .drop : .pass
            }
        }
    }

    /// Blocks connections from now on, and cuts those that were blocked before.
    func set(_ block: Block) {
        let blocked = state.block.withLock { state in
            state.block = block
            return state.blocked
        }
        proxy.cut { blocked.contains($0) }
    }
}

/// The member that the first request of a connection names.
private final class SenderName: Sendable {
    private let name = Mutex<String?>(nil)

    func read(_ bytes: ArraySlice<UInt8>, from side: LoopbackProxy.Side) -> String? {
        name.withLock { name in
            if side == .client, name == nil {
                let lines = String(decoding: bytes.prefix(4096), as: UTF8.self).split(separator: "\r\n")
                name = lines.first { $0.lowercased().hasPrefix("x-server-from: ") }.map { String($0.dropFirst(15)) }
            }
            return name
        }
    }
}
