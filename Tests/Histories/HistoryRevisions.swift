/// A value that a write stored under a name.
package struct WrittenValue: Hashable, Sendable {
    package var name: String
    package var value: Int

    package init(name: String, value: Int) {
        self.name = name
        self.value = value
    }
}

/// The revisions of the values, as the answers of a history show them.
package struct HistoryRevisions: Sendable {
    package private(set) var revisions: [WrittenValue: UInt64] = [:]

    /// Values with two revisions, which were stored twice, and revisions that do not follow the order of the writes.
    package private(set) var violations: [String] = []

    package init(_ history: [HistoryOperation]) {
        for operation in history {
            for (name, observation) in Array(operation.observed) + Array(operation.required) {
                guard case .value(let value, let revision?) = observation else { continue }
                note(WrittenValue(name: name, value: value), revision)
            }
        }
        checkWrittenOnce(history)
        checkOrder(history)
    }

    /// Adds a revision that a watch shows.
    package mutating func note(_ value: WrittenValue, _ revision: UInt64) {
        if let known = revisions.updateValue(revision, forKey: value), known != revision {
            violations.append("\(value.name)=\(value.value) was stored twice, as revisions \(known) and \(revision)")
        }
    }

    /// The known revisions of a call's values, in ascending order.
    package func known(of operation: HistoryOperation) -> [UInt64] {
        operation.written.compactMap { name, value in
            value.flatMap { revisions[WrittenValue(name: name, value: $0)] }
        }.sorted()
    }

    /// The history's part of the contract: a value identifies its write.
    private mutating func checkWrittenOnce(_ history: [HistoryOperation]) {
        var written: Set<WrittenValue> = []
        for operation in history {
            for case (let name, let value?) in operation.written
            where !written.insert(WrittenValue(name: name, value: value)).inserted {
                violations.append("two calls write \(name)=\(value): \(operation)")
            }
        }
    }

    /// A revision is greater than those of all writes that were acknowledged before.
    private mutating func checkOrder(_ history: [HistoryOperation]) {
        let writes = history.filter { !$0.written.isEmpty && $0.outcome != .conflict }
        let ended = writes.filter { $0.outcome == .done }.sorted { $0.ended < $1.ended }
        var (count, largest) = (0, UInt64(0))
        for write in writes.sorted(by: { $0.began < $1.began }) {
            while count < ended.count, ended[count].ended < write.began {
                largest = max(largest, known(of: ended[count]).last ?? 0)
                count += 1
            }
            if let revision = known(of: write).first, revision <= largest {
                violations.append("after revision \(largest) was acknowledged, revision \(revision) was: \(write)")
            }
        }
    }
}
