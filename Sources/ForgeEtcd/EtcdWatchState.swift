#if Etcd
import ForgeKVStore

/// The position of a watch: the changes reported so far, and the revision from which the next connection asks.
struct EtcdWatchState: Sendable {
    /// The result of a message.
    enum Output: Hashable, Sendable {
        case changes([KVChange])

        /// The server has ended the watch; a new connection continues.
        case interrupted

        /// The server has ended the watch because of the token or the user's rights.
        case notPermitted(String)
    }

    private let names: EtcdNames

    /// Whether the server reports every event from a revision, and notices after the events that they cover.
    let replays: Bool
    private var needsResync: Bool

    /// The first revision that was not reported; nil to begin with the present one.
    private(set) var next: UInt64?

    /// The changes of a transaction whose last event has not arrived.
    private var unfinished: [KVChange] = []

    /// The cluster of the last connection.
    private var clusterID: String?

    /// The number of connections in a row whose revision was before the position.
    private var lowRevisions = 0

    /// The maximum of that number that lagging members explain. Above it the cluster has lost its history.
    private static let lowRevisionLimit = 3

    /// The revision up to which every change was reported.
    var reported: UInt64? { next.map { $0 - 1 } }

    /// Creates the state of a watch.
    ///
    /// - Parameters:
    ///   - names: The names of the store.
    ///   - revision: The last revision that the consumer knows; nil for none.
    ///   - replays: Whether the server reports every event from a revision; if not, every connection begins with
    ///     the present revision and a `.resync`.
    init(_ names: EtcdNames, after revision: UInt64?, replays: Bool) {
        self.names = names
        self.replays = replays
        let revision = replays ? revision : nil
        next = revision.map { $0 == .max ? $0 : $0 + 1 }
        needsResync = revision == nil
    }

    mutating func receive(_ message: EtcdWatchResponse) -> Output {
        if message.canceled == true {
            if let compacted = message.compact_revision?.value, compacted > 0 {
                next = nil
                needsResync = true
                return .interrupted
            }
            guard let reason = message.cancel_reason, !reason.isEmpty else { return .interrupted }
            return .notPermitted(reason)
        }
        if message.created == true {
            // The connection repeats the transaction.
            unfinished = []
            guard isContinuing(message.header) else { return .interrupted }
        }
        let events = message.events ?? []
        // Nothing of a message that is not valid is reported.
        guard events.allSatisfy({ 1..<UInt64(Int64.max) ~= $0.kv.entry.revision }) else { return .interrupted }
        var changes: [KVChange] = []
        if message.created == true, needsResync {
            needsResync = false
            changes.append(.resync)
            if next == nil { next = message.header?.revision.map { UInt64(clamping: $0.value) + 1 } }
        }
        for (index, event) in events.enumerated() {
            let revision = event.kv.entry.revision
            let following = index + 1 < events.count ? events[index + 1].kv.entry.revision : nil
            // A watch resumes at a revision: one that ends inside a transaction repeats the whole transaction.
            let isLast = following.map { $0 != revision } ?? (message.fragment != true)
            let seen = isLast ? revision : revision - 1
            next = max(next ?? 0, seen + 1)
            if let name = names.name(of: event.kv.key) {
                unfinished.append(
                    .changed(name: name, entry: event.type == "DELETE" ? nil : event.kv.entry, revision: seen))
            }
            guard isLast else { continue }
            changes += unfinished
            unfinished = []
        }
        // A progress notice. Those of older servers may come before the events that they cover.
        if replays, message.created != true, message.events?.isEmpty ?? true, let seen = message.header?.revision {
            next = max(next ?? 0, UInt64(clamping: seen.value) + 1)
        }
        return .changes(changes)
    }

    /// Whether a new connection is to the same history as the last one; if not, the next one begins with a resync.
    private mutating func isContinuing(_ header: EtcdHeader?) -> Bool {
        defer { clusterID = header?.cluster_id ?? clusterID }
        guard let next, let header else { return true }
        if let old = clusterID, let new = header.cluster_id, old != new {
            (self.next, needsResync, lowRevisions) = (nil, true, 0)
            return false
        }
        guard let present = header.revision, UInt64(clamping: present.value) < next - 1 else {
            lowRevisions = 0
            return true
        }
        lowRevisions += 1
        if lowRevisions > Self.lowRevisionLimit { (self.next, needsResync, lowRevisions) = (nil, true, 0) }
        return false
    }

    /// The connection has ended.
    mutating func interrupt() {
        guard !replays else { return }
        next = nil
        needsResync = true
    }
}
#endif
