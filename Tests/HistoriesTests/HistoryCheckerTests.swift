import Histories
import Testing

@Suite("The checker of histories")
struct HistoryCheckerTests {
    private let checker = HistoryChecker()

    private func check(_ history: HistoryOperation...) -> HistoryChecker.Report { checker.check(history) }

    private func read(_ name: String, _ value: Int?, _ began: Int64, _ ended: Int64) -> HistoryOperation {
        HistoryOperation(
            .read, from: began, to: ended, observed: [name: value.map { .value($0, revision: nil) } ?? .absent])
    }

    private func set(
        _ name: String, _ value: Int, _ began: Int64, _ ended: Int64, _ outcome: HistoryOperation.Outcome = .done
    ) -> HistoryOperation {
        HistoryOperation(.set, outcome, from: began, to: ended, written: [name: value])
    }

    private func swap(
        _ old: Int?, _ new: Int, _ began: Int64, _ ended: Int64, _ outcome: HistoryOperation.Outcome = .done
    ) -> HistoryOperation {
        HistoryOperation(
            .compareAndSet, outcome, from: began, to: ended,
            required: ["a": old.map { .value($0, revision: nil) } ?? .absent], written: ["a": new])
    }

    @Test("a read during a write may see the old value or the new one, in the order of reads")
    func concurrentRead() {
        #expect(check(set("a", 1, 0, 10), read("a", nil, 1, 2), read("a", 1, 3, 4)).isLinearizable)
        #expect(!check(set("a", 1, 0, 10), read("a", 1, 1, 2), read("a", nil, 3, 4)).isLinearizable)
    }

    @Test("a stale read is found")
    func staleRead() {
        #expect(!check(set("a", 1, 0, 1), set("a", 2, 2, 3), read("a", 1, 4, 5)).isLinearizable)
        #expect(check(set("a", 1, 0, 1), set("a", 2, 2, 4), read("a", 1, 4, 5)).isLinearizable)
    }

    @Test("a lost update is found: two clients replace the same value")
    func lostUpdate() {
        #expect(!check(set("a", 1, 0, 1), swap(1, 2, 2, 5), swap(1, 3, 2, 5)).isLinearizable)
        #expect(check(set("a", 1, 0, 1), swap(1, 2, 2, 5), swap(1, 3, 2, 5, .conflict)).isLinearizable)
    }

    @Test("a write that takes effect twice is found, by a value or by its two revisions")
    func doubleApply() {
        #expect(
            !check(set("a", 1, 0, 1), set("a", 2, 2, 3), read("a", 2, 4, 5), read("a", 1, 6, 7)).isLinearizable)
        let reads = [(UInt64(5), Int64(2)), (6, 4)].map { revision, began in
            HistoryOperation(.read, from: began, to: began + 1, observed: ["a": .value(1, revision: revision)])
        }
        #expect(check(set("a", 1, 0, 1), reads[0]).isLinearizable)
        #expect(!check(set("a", 1, 0, 1), reads[0], reads[1]).isLinearizable)
    }

    @Test("a write that was visible does not vanish")
    func vanished() {
        #expect(
            !check(set("a", 1, 0, 1), set("a", 2, 2, 20, .unknown), read("a", 2, 3, 4), read("a", 1, 5, 6))
                .isLinearizable)
    }

    @Test("a write without an answer takes effect at any later moment, or never, but not before it began")
    func unknownOutcome() {
        let write = set("a", 1, 10, 11, .unknown)
        #expect(check(write, read("a", nil, 20, 21)).isLinearizable)
        #expect(check(write, read("a", nil, 20, 21), read("a", 1, 30, 31)).isLinearizable)
        #expect(!check(write, read("a", 1, 5, 6)).isLinearizable)
        #expect(!check(write, read("a", 1, 20, 21), set("a", 2, 22, 23), read("a", 1, 24, 25)).isLinearizable)
        // Its requirement must hold when it takes effect.
        #expect(check(set("a", 1, 0, 1), swap(1, 2, 2, 3, .unknown), read("a", 2, 4, 5)).isLinearizable)
        #expect(
            !check(
                set("a", 1, 0, 1), set("a", 3, 2, 3), swap(1, 2, 4, 5, .unknown), read("a", 2, 6, 7)
            ).isLinearizable)
    }

    @Test("a write that failed without an effect is not seen")
    func failedWrite() { #expect(!check(read("a", 1, 0, 1)).isLinearizable) }

    @Test("a refused compare-and-set needs another value, and shows the present one")
    func refused() {
        #expect(!check(set("a", 1, 0, 1), swap(1, 2, 2, 3, .conflict)).isLinearizable)
        for (value, isRight) in [(1, true), (7, false)] {
            var refused = swap(nil, 2, 2, 3, .conflict)
            refused.observed = ["a": .value(value, revision: nil)]
            #expect(check(set("a", 1, 0, 1), refused).isLinearizable == isRight)
        }
    }

    @Test("a reordered batch is found: one reader sees its second write, a later one lacks its first")
    func reorderedBatch() {
        let batch = HistoryOperation(.batch, from: 0, to: 10, written: ["a": 1, "b": 2])
        #expect(check(batch, read("b", 2, 1, 2), read("a", 1, 3, 4)).isLinearizable)
        #expect(!check(batch, read("b", 2, 1, 2), read("a", nil, 3, 4)).isLinearizable)
    }

    @Test("a list shows one moment")
    func list() {
        let list = HistoryOperation(.list, from: 4, to: 5, observed: ["a": .absent, "b": .present])
        #expect(check(set("a", 1, 3, 9), set("b", 2, 0, 1), list).isLinearizable)
        #expect(!check(set("a", 1, 0, 1), set("b", 2, 2, 3), list).isLinearizable)
    }

    @Test("revisions increase with the acknowledged writes, over all names")
    func revisions() {
        let reads = [("a", 1, UInt64(9)), ("b", 2, 8)].map { name, value, revision in
            HistoryOperation(.read, from: 20, to: 21, observed: [name: .value(value, revision: revision)])
        }
        #expect(!check(set("a", 1, 0, 1), set("b", 2, 2, 3), reads[0], reads[1]).isLinearizable)
        #expect(check(set("a", 1, 0, 5), set("b", 2, 2, 3), reads[0], reads[1]).isLinearizable)
    }

    @Test("names that no call connects are checked apart, connected ones together")
    func partitions() {
        #expect(check(set("a", 1, 0, 1), set("b", 2, 0, 1), read("a", 1, 2, 3)).partitions == 2)
        let batch = HistoryOperation(.batch, from: 4, to: 5, written: ["a": 3, "b": 4])
        #expect(check(set("a", 1, 0, 1), set("b", 2, 0, 1), set("c", 5, 0, 1), batch).partitions == 2)
    }

    @Test("a search that exceeds a limit has not decided")
    func limits() {
        let history = SimulatedStore.history(seed: 1, calls: 200)
        var checker = HistoryChecker()
        checker.maximumConfigurations = 10
        #expect(checker.check(history).undecided.count == 1)
        #expect(!checker.check(history).isLinearizable)
        checker = HistoryChecker()
        checker.timeLimit = .zero
        #expect(!checker.check(SimulatedStore.history(seed: 1, calls: 2000)).isLinearizable)
    }

    @Test("forty writes without an answer do not make the search explode")
    func manyUnknown() {
        var history = (1...40).map { set("a", $0, Int64($0), 100, .unknown) }
        history += (0..<20).map { read("a", 50 + $0, 300 + Int64($0) * 10, 301 + Int64($0) * 10) }
        history += (0..<20).map { set("a", 50 + $0, 200 + Int64($0) * 10 - 9, 600) }
        var list = HistoryOperation(.list, from: 160, to: 161, observed: ["a": .present])
        history.append(list)
        list = HistoryOperation(.list, from: 170, to: 171, observed: ["a": .absent])
        let report = HistoryChecker().check(history)
        #expect(report.isLinearizable)
        #expect(report.largestSearch < 10_000)
        // A value that was present must not become absent without a removal.
        let vanished = HistoryChecker().check(history + [list])
        #expect(vanished.undecided.isEmpty)
        #expect(!vanished.isLinearizable)
    }

    @Test("histories of a simulated store are accepted, with random delays and lost answers")
    func simulated() {
        let count = 300
        var largest = 0
        for seed in 0..<UInt64(count) {
            let report = checker.check(SimulatedStore.history(seed: seed, calls: 80))
            largest = max(largest, report.largestSearch)
            #expect(report.isLinearizable, "seed \(seed): \((report.violations + report.undecided).joined())")
        }
        print("histories: \(count) of \(count) accepted, the largest search \(largest)")
    }

    @Test("every planted defect is found", arguments: SimulatedStore.Defect.allCases)
    func planted(_ defect: SimulatedStore.Defect) {
        let count = 150
        var (found, largest) = (0, 0)
        for seed in 0..<UInt64(count) {
            let report = checker.check(SimulatedStore.history(seed: seed, calls: 80, defect: defect))
            largest = max(largest, report.largestSearch)
            #expect(report.undecided.isEmpty, "seed \(seed)")
            if report.violations.isEmpty { Issue.record("seed \(seed)") } else { found += 1 }
        }
        print("histories: \(defect): \(found) of \(count) found, the largest search \(largest)")
    }
}
