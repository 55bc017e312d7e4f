package import ForgeCrashTesting

/// The content of a store that was opened after a crash, as a mark between calls.
package struct RecoveredContents: Hashable, Sendable {
    /// The depth of the crash.
    let depth: Int
    /// The contents that a later power cut may leave if no durable call follows; the found content is the last.
    let mayHold: [[String: StoreValue]]
    /// The contents that interrupted calls of `removeAll` began to remove; a later power cut may leave any part of
    /// them.
    var mayHoldPartOf: [[String: StoreValue]] = []
}

/// The possible contents of a store after a crash: all durable calls, then any number of the following calls, in order.
/// After a kill, all acknowledged calls.
package struct PossibleContents {
    /// The possible contents of the store.
    private var candidates: [[String: StoreValue]] = []
    /// The contents that a power cut may leave instead of `candidates`; more only after a kill.
    private var afterPowerCut: [[String: StoreValue]] = []
    private var partOf: [[String: StoreValue]] = []
    /// Whether a part has all values of a directory of the root or none.
    private let partsHaveWholeDirectories: Bool

    package init<Store: StoreUnderCrash>(after crash: Crash<StoreCall>, in _: Store.Type) {
        partsHaveWholeDirectories = Store.removesDirectoriesAtOnce
        let (base, begun) = Self.lastRun(crash.begun)
        let (acknowledgedBase, calls) = Self.lastRun(crash.acknowledged)
        let acknowledged = acknowledgedBase == base ? calls : []
        let durableCount = acknowledged.lastIndex(where: Store.isDurable).map { $0 + 1 } ?? 0
        let requiredCount = crash.kind == .processKill ? acknowledged.count : durableCount
        let start = base?.mayHold ?? [[:]]
        var contents = start.last ?? [:]
        if durableCount == 0 {
            afterPowerCut = start
            partOf = base?.mayHoldPartOf ?? []
        }
        if requiredCount == 0 { candidates = crash.kind == .processKill ? [contents] : start }
        for (place, call) in begun.enumerated() {
            if call == .removeAll, place >= acknowledged.count, !Store.removesAllAtOnce { partOf.append(contents) }
            call.apply(to: &contents)
            if place + 1 >= requiredCount { candidates.append(contents) }
            if place + 1 >= durableCount { afterPowerCut.append(contents) }
        }
    }

    /// The state at the start of the last run, and the calls of that run.
    private static func lastRun(_ calls: [StoreCall]) -> (RecoveredContents?, [StoreCall]) {
        for (place, call) in calls.enumerated().reversed() {
            if case .recovered(let recovered) = call { return (recovered, Array(calls[(place + 1)...])) }
        }
        return (nil, calls)
    }

    package func allow(_ found: [String: StoreValue]) -> Bool {
        candidates.contains(found) || partOf.contains { isPart(found, of: $0) }
    }

    private func isPart(_ found: [String: StoreValue], of contents: [String: StoreValue]) -> Bool {
        guard found.allSatisfy({ contents[$0.key] == $0.value }) else { return false }
        guard partsHaveWholeDirectories else { return true }
        func directory(_ name: String) -> Substring { name.prefix { $0 != "/" } }
        let kept = Set(found.keys.map(directory))
        return contents.keys.allSatisfy { found[$0] != nil || !kept.contains(directory($0)) }
    }

    /// The mark that records the found content.
    func recovered(_ found: [String: StoreValue], after crash: Crash<StoreCall>) -> RecoveredContents {
        guard crash.kind == .processKill else { return RecoveredContents(depth: crash.depth, mayHold: [found]) }
        // Contents after the found one are impossible.
        let end = afterPowerCut.lastIndex(of: found) ?? afterPowerCut.endIndex
        return RecoveredContents(
            depth: crash.depth, mayHold: afterPowerCut[..<end] + [found], mayHoldPartOf: partOf)
    }
}
