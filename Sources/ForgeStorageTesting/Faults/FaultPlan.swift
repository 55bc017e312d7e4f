public import ForgeFileSystem
import Synchronization
import SystemPackage

/// The rules of a ``FaultingFileSystem``, and a count of the faults that occurred.
///
/// ```swift
/// let plan = FaultPlan([.fail(.write, matching: "**/*.log", call: 3, with: .noSpace)])
/// let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
/// // … use it …
/// try plan.requireAllFired()
/// ```
///
/// Rules apply in order. Delays and corruptions of all matching rules combine; of the others, the first match decides.
/// The faults are deterministic: a rule's random choices depend on the seed and its position in the plan only.
public final class FaultPlan: Sendable {
    private let state: Mutex<State>

    private struct State: Sendable {
        var rules: [RunningRule] = []
        var isArmed = true
        var countedCalls: [CountedCall] = []
        var endlessCall: String?
        var callCount = 0
        let seed: UInt64
    }

    /// A call that was counted.
    struct CountedCall: Sendable {
        var operation: FileSystemOperation
        /// The bytes to read or to store.
        var byteCount: Int
    }

    /// The number of calls after which all rules are lifted; nil without a limit.
    let callLimit: Int?

    /// Creates a plan; `seed` determines rules with a probability.
    public convenience init(_ rules: [FaultRule] = [], seed: UInt64 = 0) {
        self.init(rules, seed: seed, callLimit: nil)
    }

    init(_ rules: [FaultRule], seed: UInt64 = 0, callLimit: Int?) {
        self.callLimit = callLimit
        var state = State(seed: seed)
        for rule in rules { state.rules.append(RunningRule(rule, seed: seed, index: state.rules.count)) }
        self.state = Mutex(state)
    }

    /// The rules in order, without lifted ones.
    public var rules: [FaultRule] {
        state.withLock { state in state.rules.filter { !$0.isLifted }.map(\.rule) }
    }

    /// Whether rules apply. Calls are not counted while they do not.
    public var isArmed: Bool {
        get { state.withLock { $0.isArmed } }
        set { state.withLock { $0.isArmed = newValue } }
    }

    /// The number of calls while the plan was armed, without stores into mappings, which cannot fail.
    public var callCount: Int { state.withLock { $0.callCount } }

    /// The counted calls, if there are no rules.
    var countedCalls: [CountedCall] { state.withLock { $0.countedCalls } }

    /// The call that exceeded the limit; nil if none did.
    var endlessCall: String? { state.withLock { $0.endlessCall } }

    /// The number of faults that occurred.
    public var firedCount: Int { state.withLock { state in state.rules.reduce(0) { $0 + $1.firedCount } } }

    /// Appends a rule.
    public func add(_ rule: FaultRule) {
        state.withLock { state in
            state.rules.append(RunningRule(rule, seed: state.seed, index: state.rules.count))
        }
    }

    /// Removes the rules with this name: a full or read-only device recovers, and corrupted data reads correctly again.
    /// ``requireAllFired()`` still reports such a rule if it never fired.
    public func lift(_ name: String) {
        state.withLock { state in
            for index in state.rules.indices where state.rules[index].rule.name == name {
                state.rules[index].isLifted = true
            }
        }
    }

    /// Throws unless every rule has fired: a test without faults proves nothing.
    ///
    /// - Throws: ``DeadFaultRules`` with the others, and the paths of the calls that they may have been meant for.
    public func requireAllFired() throws(DeadFaultRules) {
        let dead = state.withLock { state in state.rules.filter { $0.firedCount == 0 } }
        guard dead.isEmpty else {
            throw DeadFaultRules(rules: dead.map(\.rule), seenPaths: dead.map(\.seenPaths))
        }
    }

    // MARK: For the file system

    func decide(_ call: FaultCall) -> FaultDecision {
        state.withLock { state in
            var decision = FaultDecision()
            guard state.isArmed else { return decision }
            if call.operation != .store {
                state.callCount += 1
                if state.rules.isEmpty {
                    state.countedCalls.append(CountedCall(operation: call.operation, byteCount: call.byteCount))
                }
            }
            if let callLimit, state.callCount > callLimit, state.endlessCall == nil {
                state.endlessCall = "\(call.operation) " + call.paths.map(\.description).joined(separator: ", ")
                for index in state.rules.indices { state.rules[index].isLifted = true }
            }
            for index in state.rules.indices where !state.rules[index].isLifted {
                state.rules[index].consider(call, &decision)
            }
            return decision
        }
    }

    /// Records that a rule has corrupted a read.
    func corruptionFired(_ rule: Int) {
        state.withLock { $0.rules[rule].firedCount += 1 }
    }

    /// The sectors of a file whose content must be saved before each write.
    func staleSectors(_ call: FaultCall) -> [Int64] {
        state.withLock { state in
            state.rules.compactMap { running in
                guard case .corrupt(.staleSector(let sector)) = running.rule.action, !running.isLifted,
                    running.rule.target.matches(call)
                else { return nil }
                return sector
            }
        }
    }
}

/// Rules that never fired.
public struct DeadFaultRules: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rules.
    public let rules: [FaultRule]

    /// For each rule, the first paths, at most ``maximumPathCount``, of calls of its operations, whether it matches them
    /// or not.
    public let seenPaths: [[POSIXPath]]

    /// The number of different paths that are kept for a rule.
    public static let maximumPathCount = 8

    public var description: String {
        "never fired: "
            + zip(rules, seenPaths).map { rule, paths in
                guard !paths.isEmpty else { return "\(rule) (no such call)" }
                let end = paths.count < Self.maximumPathCount ? "" : ", …"
                return "\(rule) (calls on \(paths.map(\.description).joined(separator: ", "))\(end))"
            }.joined(separator: "; ")
    }
}

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
    /// The first different paths of calls of the rule's operations, until it fires.
    private(set) var seenPaths: [POSIXPath] = []
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
        notePaths(of: call)
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
            decision.corruptions.append((index, corruption))
        case .fail(let errno, let effect):
            strike(.fail(errno, effect), &decision)
        case .interrupt:
            strike(.fail(.interrupted, .none), &decision)
        case .shorten(let count):
            guard [.read, .write, .copyRange].contains(call.operation) else { return }
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

    private mutating func notePaths(of call: FaultCall) {
        guard firedCount == 0, rule.includes(call.operation) else { return }
        for path in call.paths where seenPaths.count < DeadFaultRules.maximumPathCount && !seenPaths.contains(path) {
            seenPaths.append(path)
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

/// The deterministic random number generator of the testing libraries (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }

    /// A number in 0..<1, made of 53 random bits.
    package mutating func nextFraction() -> Double {
        Double(next() >> 11) * 0x1p-53
    }
}
