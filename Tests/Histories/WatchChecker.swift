package import ForgeKVStore
import Synchronization

/// Compares the changes that watches have reported with etcd's guarantees: ordered, unique, reliable and atomic.
///
/// https://etcd.io/docs/v3.4/learning/api_guarantees/
package struct WatchChecker: Sendable {
    private let history: [HistoryOperation]
    private var revisions: HistoryRevisions

    /// The revisions of each value, from the answers and from all watches, and what contradicts them.
    package private(set) var violations: [String] = []

    package init(_ history: [HistoryOperation]) {
        self.history = history
        revisions = HistoryRevisions(history)
    }

    /// Checks the watches of one history.
    package mutating func check(_ watches: [[WatchRecorder.Event]]) {
        let before = revisions.violations.count
        let written = Set(history.flatMap { $0.written.compactMap { WrittenValue($0.key, $0.value) } })
        for change in watches.joined().compactMap(WatchSegment.Change.init) {
            guard let value = change.value, let revision = change.stored, value.name != "mark" else { continue }
            revisions.note(value, revision)
            if !written.contains(value) { violations.append("a watch shows \(value), which no call has written") }
        }
        violations += revisions.violations.dropFirst(before)
        for events in watches {
            for segment in events.split(separator: .resync) { check(WatchSegment(segment)) }
        }
    }

    /// Checks the changes between two resyncs.
    private mutating func check(_ segment: WatchSegment) {
        violations += segment.orderViolations
        guard let first = segment.revisions.first, let last = segment.revisions.last else { return }
        // Other watches or reads have seen these revisions; inside the segment they must not be missing.
        for (value, revision) in revisions.revisions where revision > first && revision < last {
            if segment.index(of: value) == nil {
                violations.append("a watch from \(first) to \(last) lacks \(value) of revision \(revision)")
            }
        }
        for operation in history where operation.kind == .batch {
            let values = operation.written.compactMap { WrittenValue($0.key, $0.value) }
            let found = values.compactMap { segment.index(of: $0) }
            guard !found.isEmpty else { continue }
            let known = Set(found.map { segment.revisions[$0] })
            let isWhole = found.count == values.count && known.count == 1
            if !isWhole { violations.append("a watch shows a part of a batch: \(operation)") }
        }
    }
}

extension WrittenValue {
    fileprivate init?(_ name: String, _ value: Int?) {
        guard let value else { return nil }
        self.init(name: name, value: value)
    }
}

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

/// The changes of a watch between two resyncs.
struct WatchSegment {
    struct Change {
        var name: String
        var value: WrittenValue?

        /// The revision that stored the value; nil for a removal.
        var stored: UInt64?

        /// The revision from which a watch continues.
        var reported: UInt64?

        init?(_ event: WatchRecorder.Event) {
            guard case .changed(let name, let entry, let reported) = event else { return nil }
            self.name = name
            self.reported = reported
            guard case .value(let value, let revision) = entry else { return }
            self.value = WrittenValue(name: name, value: value)
            stored = revision
        }
    }

    private let changes: [Change]
    private let indices: [WrittenValue: Int]

    /// The revision of each change.
    let revisions: [UInt64]

    init(_ events: ArraySlice<WatchRecorder.Event>) {
        changes = events.compactMap(Change.init)
        indices = Dictionary(
            changes.enumerated().compactMap { index, change in change.value.map { ($0, index) } },
            uniquingKeysWith: { first, _ in first })
        revisions = changes.map { $0.stored ?? $0.reported ?? 0 }
    }

    /// The index of the change that stored a value.
    func index(of value: WrittenValue) -> Int? { indices[value] }

    /// Changes out of order, changes of a revision apart from each other, and changes that came twice.
    var orderViolations: [String] {
        var violations: [String] = []
        for (left, right) in zip(changes, changes.dropFirst()) {
            let (stored, reported) = (left.stored ?? 0, left.reported ?? 0)
            // A change inside a transaction reports the revision before it.
            if let next = right.stored ?? right.reported.map({ $0 + 1 }), next < stored {
                violations.append("a watch goes back from revision \(stored) to \(next): \(right.name)")
            }
            if let next = right.reported, next < reported {
                violations.append("a watch's position goes back from \(reported) to \(next): \(right.name)")
            }
        }
        var seen: Set<[String]> = []
        for change in changes {
            let revision = change.stored ?? change.reported ?? 0
            if !seen.insert([change.name, "\(revision)", change.stored == nil ? "removed" : "set"]).inserted {
                violations.append("a watch shows \(change.name) twice at revision \(revision)")
            }
        }
        return violations
    }
}
