/// Decides whether a history is linearizable: whether every call can take effect at one moment between its begin and
/// its end, so that all answers are those of one sequence of calls.
///
/// The search is that of Wing and Gong with Lowe's improvements ("Testing for linearizability", 2016): configurations
/// are memoised, and a call is linearized only when the answer of some call needs it. Names that no call connects are
/// checked apart.
package struct HistoryChecker: Sendable {
    /// The limits of the search of one partition. A search that exceeds one has not decided anything.
    package var maximumConfigurations = 1_000_000
    package var timeLimit = Duration.seconds(30)

    package init() {}

    package struct Report: Sendable {
        package var partitions = 0
        package var violations: [String] = []
        package var undecided: [String] = []

        /// The number of configurations of the largest search.
        package var largestSearch = 0

        package var isLinearizable: Bool { violations.isEmpty && undecided.isEmpty }
    }

    package func check(_ history: [HistoryOperation]) -> Report {
        var report = Report()
        let revisions = HistoryRevisions(history)
        report.violations = revisions.violations
        for partition in Self.partitions(history) {
            report.partitions += 1
            var search = HistorySearch(partition, revisions)
            let verdict = search.run(maximumConfigurations: maximumConfigurations, timeLimit: timeLimit)
            report.largestSearch = max(report.largestSearch, search.configurations)
            switch verdict {
            case .linearizable: break
            case .violation(let text): report.violations.append(text)
            case .undecided(let text): report.undecided.append(text)
            }
        }
        return report
    }

    /// The calls of each connected set of names.
    static func partitions(_ history: [HistoryOperation]) -> [[HistoryOperation]] {
        var parents: [String: String] = [:]
        func root(_ name: String) -> String {
            var name = name
            while let parent = parents[name], parent != name {
                parents[name] = parents[parent]
                name = parent
            }
            return name
        }
        for operation in history {
            var first: String?
            for name in operation.names {
                if parents[name] == nil { parents[name] = name }
                if let first { parents[root(name)] = root(first) } else { first = name }
            }
        }
        var partitions: [String: [HistoryOperation]] = [:]
        for operation in history {
            guard let name = operation.names.first else { continue }
            partitions[root(name), default: []].append(operation)
        }
        return partitions.sorted { $0.key < $1.key }.map(\.value)
    }
}
