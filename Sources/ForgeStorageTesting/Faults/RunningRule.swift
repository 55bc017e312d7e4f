import ForgeFileSystem
import SystemPackage

/// The faults that apply to a call.
struct FaultDecision: Sendable {
    enum Verdict: Sendable {
        case fail(Errno, FaultEffect)
        case shorten(Int)
        case crash(FaultEffect)
        case failSynchronization(Errno, SynchronizationAudience)
    }

    var delay = Duration.zero
    var verdict: Verdict?
    /// The corruptions, and the rules that cause them.
    var corruptions: [(rule: Int, FileCorruption)] = []
    /// The notes for the log.
    var notes: [String] = []
}

/// A rule and its counters.
struct RunningRule: Sendable {
    let rule: FaultRule
    let index: Int
    var firedCount = 0
    var isLifted = false
    private var matchCount = 0
    private var generator: SplitMix64
    private var isReadOnly = false
    private var bytesLeft: Int?
    private var failedInodes: Set<UInt64> = []

    init(_ rule: FaultRule, seed: UInt64, index: Int) {
        self.rule = rule
        self.index = index
        var seeds = SplitMix64(seed: seed)
        var own = seeds.next()
        for _ in 0..<index { own = seeds.next() }
        generator = SplitMix64(seed: own)
    }

    /// Counts a matching call, and applies the rule to it unless an earlier rule has decided.
    mutating func consider(_ call: FaultCall, _ decision: inout FaultDecision) {
        if isReadOnly {
            // Stores into existing mappings succeed until the page is written back.
            if call.mutates, call.operation != .store, rule.target.matches(call) {
                strike(.fail(.readOnlyFileSystem, .none), &decision)
            }
            return
        }
        guard rule.concerns(call) else { return }
        matchCount += 1
        let isFilling = bytesLeft != nil
        guard isFilling || rule.occurrence.includes(matchCount, &generator) else { return }
        if call.operation == .store, !rule.action.strikesStores { return }
        switch rule.action {
        case .delay(let duration):
            decision.delay += duration
            note(&decision)
        case .corrupt(let corruption):
            guard call.operation == .read else { return }
            decision.corruptions.append((index, corruption))
        case .fail(let errno, let effect):
            strike(.fail(errno, effect), &decision)
        case .interrupt:
            strike(.fail(.interrupted, .none), &decision)
        case .shorten(let count):
            guard call.operation == .read || call.operation == .write else { return }
            strike(.shorten(max(0, count)), &decision)
        case .fillUp(let count, let errno):
            fillUp(call, count, errno, &decision)
        case .becomeReadOnly:
            isReadOnly = true
            guard call.mutates else { return note(&decision) }
            strike(.fail(.readOnlyFileSystem, .none), &decision)
        case .crash(let effect):
            strike(.crash(effect), &decision)
        case .failSynchronization(let errno, let audience):
            guard let inode = call.inode, !failedInodes.contains(inode),
                call.operation == .synchronize || audience != .unreported
            else { return }
            if strike(.failSynchronization(errno, audience), &decision) { failedInodes.insert(inode) }
        case .lieAboutSynchronization:
            guard call.operation == .synchronize else { return }
            strike(.failSynchronization(.ioError, .unreported), &decision)
        }
    }

    private mutating func fillUp(
        _ call: FaultCall, _ count: Int, _ errno: Errno, _ decision: inout FaultDecision
    ) {
        guard decision.verdict == nil else { return }
        let left = bytesLeft ?? max(0, count)
        bytesLeft = left
        switch call.operation {
        case .write where call.storedByteCount <= left, .allocate where call.storedByteCount <= left:
            bytesLeft = left - call.storedByteCount
        case .write where left > 0:
            bytesLeft = 0
            strike(.shorten(left), &decision)
        case .write, .allocate:
            strike(.fail(errno, .none), &decision)
        default:
            if left == 0, call.createsName { strike(.fail(errno, .none), &decision) }
        }
    }

    @discardableResult
    private mutating func strike(_ verdict: FaultDecision.Verdict, _ decision: inout FaultDecision) -> Bool {
        guard decision.verdict == nil else { return false }
        decision.verdict = verdict
        note(&decision)
        return true
    }

    private mutating func note(_ decision: inout FaultDecision) {
        firedCount += 1
        decision.notes.append(rule.name ?? rule.action.description)
    }
}
