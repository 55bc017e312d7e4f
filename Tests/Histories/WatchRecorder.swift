package import ForgeKVStore
import Synchronization

/// The changes of a store as one consumer sees them, and the content that follows from them.
package final class WatchRecorder: Sendable {
    package enum Event: Hashable, Sendable {
        case resync

        /// A name has a new value, or became absent; `revision` is that of ``KVChange``.
        case changed(name: String, entry: HistoryObservation, revision: UInt64?)
    }

    private struct State {
        var events: [Event] = []
        var content: [String: HistoryObservation] = [:]
        var mark = 0
        var failures = 0

        /// Moves the mark out of the content.
        mutating func noteMark() {
            if case .value(let value, _)? = content.removeValue(forKey: WatchRecorder.mark.name) {
                mark = max(mark, value)
            }
        }
    }

    /// The name whose values mark the end of the writes before.
    private static let mark = KVKey<Int>("mark")

    private let state = Mutex(State())

    package init() {}

    package var events: [Event] { state.withLock { $0.events } }

    /// The number of errors, after each of which the watch continued.
    package var failures: Int { state.withLock { $0.failures } }

    /// The present names, without the mark.
    package var content: [String: HistoryObservation] { state.withLock { $0.content } }

    /// Whether the watch is connected.
    package var hasBegun: Bool { state.withLock { !$0.events.isEmpty } }

    /// Follows the changes, or those after a revision, until the task is cancelled.
    package func follow(_ store: any AsyncKVStoring, from revision: UInt64? = nil) async {
        var iterator = store.changes(prefix: "", from: revision).makeAsyncIterator()
        while !Task.isCancelled {
            do throws(KVStoreError) {
                guard let change = try await iterator.next() else { return }
                try await receive(change, store)
            } catch {
                state.withLock { $0.failures += 1 }
            }
        }
    }

    /// Writes a new mark. Returns its value.
    package static func setMark(_ value: Int, _ store: any AsyncKVStoring) async throws {
        try await store.set(mark, value: value)
    }

    /// Whether all changes before a mark have been seen.
    package func hasSeen(mark value: Int) -> Bool { state.withLock { $0.mark >= value } }

    private func receive(_ change: KVChange, _ store: any AsyncKVStoring) async throws(KVStoreError) {
        switch change {
        case .resync:
            state.withLock { $0.events.append(.resync) }
            let listed = await list(store)
            state.withLock { state in
                state.content = listed
                state.noteMark()
            }
        case .changed(let name, let entry, let revision):
            let observation = try entry.map { entry throws(KVStoreError) in
                HistoryObservation.value(try entry.value(of: KVKey(name)), revision: entry.revision)
            }
            state.withLock { state in
                state.events.append(.changed(name: name, entry: observation ?? .absent, revision: revision))
                state.content[name] = observation
                state.noteMark()
            }
        }
    }

    /// The present content; repeated until it can be read.
    private func list(_ store: any AsyncKVStoring) async -> [String: HistoryObservation] {
        while !Task.isCancelled {
            do throws(KVStoreError) {
                var content: [String: HistoryObservation] = [:]
                for name in try await store.keys() {
                    guard let found = try await store.versioned(KVKey<Int>(name)) else { continue }
                    content[name] = .value(found.value, revision: found.revision)
                }
                return content
            } catch {
                state.withLock { $0.failures += 1 }
            }
        }
        return [:]
    }
}
