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
