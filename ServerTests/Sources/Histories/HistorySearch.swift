/// The search for the order in which the calls of one partition took effect.
struct HistorySearch {
    enum Verdict: Hashable {
        case linearizable
        case violation(String)
        case undecided(String)
    }

    /// A call with names and values as numbers.
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

    /// The calls that have taken effect, and what the names have then.
    private struct Configuration: Hashable {
        /// The number of answers that are explained.
        var answers = 0

        /// The calls that have taken effect and not ended, in ascending order.
        var linearized: [Int] = []

        var values: [Int]

        /// The largest revision so far; the fields above determine it.
        var revision: UInt64 = 0
    }

    private static let absent = 0

    /// Every value that no call saw or required: such values cannot be told apart.
    private static let unseen = -1

    private let history: [HistoryOperation]
    private var calls: [Call] = []
    private var answers: [Answer] = []
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
        let first = Configuration(values: Array(repeating: Self.absent, count: nameCount))
        var stack = [first]
        var reached: Set = [first]
        var (furthest, steps) = (0, 0)
        defer { configurations = reached.count }
        while let configuration = stack.popLast() {
            guard configuration.answers < answers.count else { return .linearizable }
            furthest = max(furthest, configuration.answers)
            let answer = answers[configuration.answers]
            if let index = configuration.linearized.firstIndex(of: answer.call) {
                var next = configuration
                next.answers += 1
                next.linearized.remove(at: index)
                if reached.insert(next).inserted { stack.append(next) }
            } else {
                // The answered call itself comes last and so is tried first.
                for call in answer.pending where call != answer.call {
                    guard var next = applying(call, to: configuration) else { continue }
                    let index = next.linearized.firstIndex { $0 > call } ?? next.linearized.endIndex
                    next.linearized.insert(call, at: index)
                    if reached.insert(next).inserted { stack.append(next) }
                }
                if var next = applying(answer.call, to: configuration) {
                    next.answers += 1
                    if reached.insert(next).inserted { stack.append(next) }
                }
            }
            guard reached.count <= maximumConfigurations else {
                return .undecided("more than \(maximumConfigurations) configurations; \(text(of: furthest))")
            }
            steps += 1
            if steps % 256 == 0, ContinuousClock.now > end {
                return .undecided("not decided in \(timeLimit), \(reached.count) configurations; \(text(of: furthest))")
            }
        }
        return .violation("no order explains the answer of \(text(of: furthest))")
    }

    /// The configuration after a call; nil if the call does not fit.
    private func applying(_ index: Int, to configuration: Configuration) -> Configuration? {
        let call = calls[index]
        let holds = { (name: Int, state: State) -> Bool in
            switch state {
            case .absent: configuration.values[name] == Self.absent
            case .present: configuration.values[name] != Self.absent
            case .value(let value): configuration.values[name] == value
            }
        }
        guard !configuration.linearized.contains(index) else { return nil }
        // Of calls that can be exchanged, those that began first take effect first.
        if let twin = call.twin, !configuration.linearized.contains(twin) { return nil }
        guard call.observed.allSatisfy(holds) else { return nil }
        let isPermitted = call.required.allSatisfy(holds)
        if call.outcome == .conflict { return isPermitted ? nil : configuration }
        guard isPermitted, call.firstRevision.map({ $0 > configuration.revision }) ?? true else { return nil }
        var next = configuration
        for (name, value) in call.written { next.values[name] = value }
        next.revision = call.lastRevision ?? next.revision
        return next
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
            let known = revisions.known(of: operation)
            (calls[index].firstRevision, calls[index].lastRevision) = (known.first, known.last)
            guard operation.outcome == .unknown, known.isEmpty else { continue }
            calls[index].twin = twins.updateValue(index, forKey: Twin(calls[index]))
        }
    }

    /// What calls without an answer must have in common to be exchanged: what they require and write.
    private struct Twin: Hashable {
        private var required: [Int: State]
        private var written: [Int: Int]

        init(_ call: Call) {
            required = Dictionary(uniqueKeysWithValues: call.required.map { ($0.name, $0.state) })
            written = Dictionary(uniqueKeysWithValues: call.written.map { ($0.name, $0.value) })
        }
    }

    private mutating func findAnswers() {
        var begun = 0
        var pending: [Int] = []
        let ended = history.indices.filter { history[$0].outcome != .unknown }
        for call in ended.sorted(by: { (history[$0].ended, $0) < (history[$1].ended, $1) }) {
            // Moments that are equal do not order calls.
            while begun < history.count, history[begun].began <= history[call].ended {
                pending.append(begun)
                begun += 1
            }
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
