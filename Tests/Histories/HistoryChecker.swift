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

/// The search for the order in which the calls of one partition took effect.
struct HistorySearch {
    enum Verdict: Hashable {
        case linearizable
        case violation(String)
        case undecided(String)
    }

    /// A call whose names and values are numbers.
    private struct Call {
        var outcome: HistoryOperation.Outcome
        var observed: [(name: Int, state: State)] = []
        var required: [(name: Int, state: State)] = []
        var written: [(name: Int, value: Int)] = []
        var firstRevision: UInt64?
        var lastRevision: UInt64?

        /// The call before it, in the order of their begins, that can be exchanged with it.
        var twin: Int?
    }

    private enum State: Hashable {
        case absent
        case present
        case value(Int)
    }

    /// An answer, and the calls that may take effect before it: those that had begun and not ended.
    private struct Answer {
        var call: Int
        var pending: [Int]
    }

    /// The calls that have taken effect, and the resulting states of the names.
    private struct Configuration: Hashable {
        /// The number of answers that are explained.
        var answers = 0

        /// The calls that have taken effect and will be answered, in ascending order.
        var linearized: [Int] = []

        var values: [Int]
    }

    /// Calls without an answer that have taken effect, with the largest revision so far.
    private struct Extra {
        var calls: Set<Int> = []
        var revision: UInt64 = 0

        /// Whether every continuation of `other` is one of this: calls without an answer need not take effect.
        func covers(_ other: Extra) -> Bool { revision <= other.revision && calls.isSubset(of: other.calls) }
    }

    private typealias Node = (configuration: Configuration, extra: Extra)

    private static let absent = 0

    /// Every value that no call saw or required: such values cannot be told apart.
    private static let unseen = -1

    private let history: [HistoryOperation]
    private var calls: [Call] = []
    private var answers: [Answer] = []

    /// The index of each call's answer.
    private var positions: [Int] = []

    /// The answered calls that saw or required each value.
    private var sightings: [Int: [Int]] = [:]

    private var nameCount = 0

    /// The number of configurations that were reached.
    private(set) var configurations = 0

    init(_ partition: [HistoryOperation], _ revisions: HistoryRevisions) {
        history = partition.sorted { ($0.began, $0.ended) < ($1.began, $1.ended) }
        compile(revisions)
        findAnswers()
    }

    /// Searches depth first.
    mutating func run(maximumConfigurations: Int, timeLimit: Duration) -> Verdict {
        let end = ContinuousClock.now + timeLimit
        var stack: [Node] = []
        var reached: [Configuration: [Extra]] = [:]
        var (furthest, steps) = (0, 0)
        configurations = 0
        func push(_ node: Node) {
            let known = reached[node.configuration, default: []]
            guard !known.contains(where: { $0.covers(node.extra) }) else { return }
            reached[node.configuration] = known.filter { !node.extra.covers($0) } + [node.extra]
            configurations += 1
            stack.append(node)
        }
        push((Configuration(values: Array(repeating: Self.absent, count: nameCount)), Extra()))
        while let node = stack.popLast() {
            guard node.configuration.answers < answers.count else { return .linearizable }
            furthest = max(furthest, node.configuration.answers)
            let answer = answers[node.configuration.answers]
            if let index = node.configuration.linearized.firstIndex(of: answer.call) {
                var next = node
                next.configuration.answers += 1
                next.configuration.linearized.remove(at: index)
                push(next)
            } else {
                // The answered call itself comes last and so is tried first.
                for call in answer.pending where call != answer.call {
                    guard var next = applying(call, to: node) else { continue }
                    if calls[call].outcome == .unknown {
                        next.extra.calls.insert(call)
                    } else {
                        let linearized = next.configuration.linearized
                        let index = linearized.firstIndex { $0 > call } ?? linearized.endIndex
                        next.configuration.linearized.insert(call, at: index)
                    }
                    push(next)
                }
                if var next = applying(answer.call, to: node) {
                    next.configuration.answers += 1
                    push(next)
                }
            }
            guard configurations <= maximumConfigurations else {
                return .undecided("more than \(maximumConfigurations) configurations; \(text(of: furthest))")
            }
            steps += 1
            if steps % 256 == 0, ContinuousClock.now > end {
                return .undecided("not decided in \(timeLimit); \(text(of: furthest))")
            }
        }
        return .violation("no order explains the answer of \(text(of: furthest))")
    }

    /// The configuration after a call; nil if the call does not fit.
    private func applying(_ index: Int, to node: Node) -> Node? {
        let call = calls[index]
        let values = node.configuration.values
        let holds = { (name: Int, state: State) -> Bool in
            switch state {
            case .absent: values[name] == Self.absent
            case .present: values[name] != Self.absent
            case .value(let value): values[name] == value
            }
        }
        guard !node.configuration.linearized.contains(index), !node.extra.calls.contains(index) else { return nil }
        // Of calls that can be exchanged, those that began first take effect first.
        if let twin = call.twin, !node.extra.calls.contains(twin) { return nil }
        guard call.observed.allSatisfy(holds) else { return nil }
        let isPermitted = call.required.allSatisfy(holds)
        if call.outcome == .conflict { return isPermitted ? nil : node }
        guard isPermitted, call.firstRevision.map({ $0 > node.extra.revision }) ?? true else { return nil }
        var next = node
        for (name, value) in call.written {
            // A value does not come back, so all calls that saw it come before.
            let sightings = sightings[values[name], default: []]
            guard sightings.allSatisfy({ $0 == index || hasTakenEffect($0, node.configuration) }) else { return nil }
            next.configuration.values[name] = value
        }
        next.extra.revision = call.lastRevision ?? next.extra.revision
        return next
    }

    /// Whether a call that is answered has taken effect.
    private func hasTakenEffect(_ call: Int, _ configuration: Configuration) -> Bool {
        positions[call] < configuration.answers || configuration.linearized.contains(call)
    }

    private mutating func compile(_ revisions: HistoryRevisions) {
        var names: [String: Int] = [:]
        var numbers: [WrittenValue: Int] = [:]
        for name in history.flatMap(\.names) where names[name] == nil { names[name] = names.count }
        nameCount = names.count
        let state = { (name: String, observation: HistoryObservation) -> State in
            switch observation {
            case .absent: return .absent
            case .present: return .present
            case .value(let value, _):
                let value = WrittenValue(name: name, value: value)
                let number = numbers[value] ?? numbers.count + 1
                numbers[value] = number
                return .value(number)
            }
        }
        let states = { (observations: [String: HistoryObservation]) in
            observations.sorted { $0.key < $1.key }.map { (name: names[$0.key] ?? 0, state: state($0.key, $0.value)) }
        }
        calls = history.map { operation in
            Call(outcome: operation.outcome, observed: states(operation.observed), required: states(operation.required))
        }
        var twins: [Twin: Int] = [:]
        for (index, operation) in history.enumerated() {
            calls[index].written = operation.written.sorted { $0.key < $1.key }.map { name, value in
                let number = value.map { numbers[WrittenValue(name: name, value: $0)] ?? Self.unseen }
                return (names[name] ?? 0, number ?? Self.absent)
            }
            for case .value(let value) in (calls[index].observed + calls[index].required).map(\.state)
            where operation.outcome == .done { sightings[value, default: []].append(index) }
            let known = revisions.known(of: operation)
            (calls[index].firstRevision, calls[index].lastRevision) = (known.first, known.last)
            guard operation.outcome == .unknown, known.isEmpty else { continue }
            calls[index].twin = twins.updateValue(index, forKey: Twin(calls[index]))
        }
    }

    /// The requirements and writes of a call without an answer. Calls with equal ones are interchangeable.
    private struct Twin: Hashable {
        private var required: [Int: State]
        private var written: [Int: Int]

        init(_ call: Call) {
            required = Dictionary(uniqueKeysWithValues: call.required.map { ($0.name, $0.state) })
            written = Dictionary(uniqueKeysWithValues: call.written.map { ($0.name, $0.value) })
        }
    }

    private mutating func findAnswers() {
        positions = Array(repeating: .max, count: history.count)
        var begun = 0
        var pending: [Int] = []
        let ended = history.indices.filter { history[$0].outcome != .unknown }
        for call in ended.sorted(by: { (history[$0].ended, $0) < (history[$1].ended, $1) }) {
            // Moments that are equal do not order calls.
            while begun < history.count, history[begun].began <= history[call].ended {
                pending.append(begun)
                begun += 1
            }
            positions[call] = answers.count
            answers.append(Answer(call: call, pending: pending))
            pending.removeAll { $0 == call }
        }
    }

    /// The answer that no configuration explains, and the calls around it.
    private func text(of answer: Int) -> String {
        guard answer < answers.count else { return "the last call" }
        let before = answers[..<answer].suffix(12).map { "\(history[$0.call])" }
        let beside = answers[answer].pending.filter { $0 != answers[answer].call }.map { "\(history[$0])" }
        return (["\(history[answers[answer].call])"] + ["  before it:"] + before + ["  beside it:"] + beside)
            .joined(separator: "\n    ")
    }
}
