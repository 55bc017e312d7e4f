import ForgeStorageTesting
import Histories

/// Random histories of a linearizable store with random delays: every call takes effect at one moment between its begin
/// and its end. Defects can be planted.
struct SimulatedStore {
    enum Defect: CaseIterable {
        /// A read returns a value that an acknowledged write had replaced before the read began.
        case staleRead

        /// A write takes effect again after a later write was acknowledged, and a read shows it.
        case repeatedWrite

        /// An acknowledged write does not take effect, which a read shows.
        case lostWrite

        /// A batch takes effect in two parts, and a read between them shows one.
        case tornBatch
    }

    private static let names = ["a", "b", "c"]

    private(set) var history: [HistoryOperation] = []

    private var generator: SplitMix64
    private var entries: [String: HistoryObservation] = [:]
    private var seen: [String: HistoryObservation] = [:]
    private var revision: UInt64 = 0
    private var value = 0

    /// The moment of the last call's effect.
    private var now: Int64 = 0

    init(seed: UInt64) {
        generator = SplitMix64(seed: seed)
    }

    /// A history of random calls, with a defect in its middle.
    static func history(seed: UInt64, calls: Int, defect: Defect? = nil) -> [HistoryOperation] {
        var store = SimulatedStore(seed: seed)
        for _ in 0..<(calls / 2) { store.call() }
        if let defect { store.plant(defect) }
        for _ in 0..<(calls / 2) { store.call() }
        return store.history.shuffled(using: &store.generator)
    }

    private func entry(_ name: String) -> HistoryObservation { entries[name] ?? .absent }

    private mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

    /// Begins before the next moment and ends after it, by up to several moments.
    private mutating func span() -> (began: Int64, ended: Int64) {
        now += 10
        return (now - Int64(below(40)), now + Int64(below(40)))
    }

    private mutating func apply(_ written: [String: Int?]) {
        revision += 1
        for (name, value) in written { entries[name] = value.map { .value($0, revision: revision) } ?? .absent }
    }

    private mutating func next() -> Int {
        value += 1
        return value
    }

    private mutating func call() {
        let names = Self.names.shuffled(using: &generator)
        let name = names[0]
        let (began, ended) = span()
        switch below(10) {
        case 0..<3:
            seen[name] = entry(name)
            history.append(HistoryOperation(.read, from: began, to: ended, observed: [name: entry(name)]))
        case 3:
            let observed = names.map { ($0, entry($0) == .absent ? HistoryObservation.absent : .present) }
            history.append(
                HistoryOperation(.list, from: began, to: ended, observed: Dictionary(uniqueKeysWithValues: observed)))
        case 4..<6: write(.set, [:], [name: next()], began, ended)
        case 6: write(.remove, [:], [name: nil], began, ended)
        case 7: write(.createIfAbsent, [name: .absent], [name: next()], began, ended)
        case 8: write(.compareAndSet, [name: seen[name] ?? .absent], [name: next()], began, ended)
        default: write(.batch, [name: entry(name)], [name: next(), names[1]: next(), names[2]: nil], began, ended)
        }
    }

    /// A write, one in eight without an answer; then it takes effect at this moment, later or never.
    private mutating func write(
        _ kind: HistoryOperation.Kind, _ required: [String: HistoryObservation], _ written: [String: Int?],
        _ began: Int64, _ ended: Int64
    ) {
        let holds = required.allSatisfy { entry($0.key) == $0.value }
        var operation = HistoryOperation(
            kind, holds ? .done : .conflict, from: began, to: ended, required: required, written: written)
        if below(8) == 0 { operation.outcome = .unknown }
        if !holds, operation.outcome == .conflict, below(2) == 0 {
            operation.observed = required.reduce(into: [:]) { $0[$1.key] = entry($1.key) }
        }
        if holds, operation.outcome == .done || below(2) == 0 { apply(written) }
        history.append(operation)
    }

    /// A call that no other call overlaps.
    private mutating func alone(
        _ kind: HistoryOperation.Kind, observed: [String: HistoryObservation] = [:], written: [String: Int?] = [:]
    ) {
        now += 1000
        history.append(HistoryOperation(kind, from: now - 1, to: now + 1, observed: observed, written: written))
        now += 1000
    }

    private mutating func plant(_ defect: Defect) {
        let (first, second, third) = (next(), next(), next())
        switch defect {
        case .staleRead:
            apply(["a": first])
            alone(.set, written: ["a": first])
            let old = entry("a")
            apply(["a": second])
            alone(.set, written: ["a": second])
            alone(.read, observed: ["a": old])
        case .repeatedWrite:
            apply(["a": first])
            alone(.set, written: ["a": first])
            apply(["a": second])
            alone(.set, written: ["a": second])
            apply(["a": first])
            alone(.read, observed: ["a": entry("a")])
        case .lostWrite:
            apply(["a": first])
            alone(.set, written: ["a": first])
            alone(.set, written: ["a": second])
            alone(.read, observed: ["a": entry("a")])
        case .tornBatch:
            apply(["b": third])
            alone(.set, written: ["b": third])
            let old = entry("b")
            let began = now
            apply(["a": first])
            alone(.read, observed: ["a": entry("a")])
            alone(.read, observed: ["b": old])
            apply(["b": second])
            history.append(HistoryOperation(.batch, from: began, to: now, written: ["a": first, "b": second]))
            now += 1000
        }
    }
}
