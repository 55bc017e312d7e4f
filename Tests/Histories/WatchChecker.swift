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
