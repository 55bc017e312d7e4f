import ForgeFileSystem
import Synchronization
import SystemPackage

/// What is to go wrong, and what has: the rules of a ``FaultingFileSystem``.
///
/// ```swift
/// let plan = FaultPlan([.fail(.write, matching: "**/*.log", call: 3, with: .noSpace)])
/// let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
/// // … use it …
/// try plan.requireAllFired()
/// ```
///
/// Rules are looked at in their order. Delays and corruptions of all that strike a call add up; of the others the first
/// that strikes it decides. The same calls in the same order meet the same faults in every run: chance follows from the
/// seed and from the place of a rule in the plan, not from the other rules.
public final class FaultPlan: Sendable {
    private let state: Mutex<State>

    private struct State: Sendable {
        var rules: [RunningRule] = []
        var isArmed = true
        var callCount = 0
        let seed: UInt64
    }

    /// A plan; the seed counts for rules with a probability.
    public init(_ rules: [FaultRule] = [], seed: UInt64 = 0) {
        var state = State(seed: seed)
        for rule in rules { state.rules.append(RunningRule(rule, seed: seed, index: state.rules.count)) }
        self.state = Mutex(state)
    }

    /// The rules, in their order; those lifted are gone.
    public var rules: [FaultRule] {
        state.withLock { state in state.rules.filter { !$0.isLifted }.map(\.rule) }
    }

    /// Whether rules strike. While they do not, calls are not counted either.
    public var isArmed: Bool {
        get { state.withLock { $0.isArmed } }
        set { state.withLock { $0.isArmed = newValue } }
    }

    /// How many calls have come by while the plan was armed; stores into mappings, which cannot fail, are none.
    public var callCount: Int { state.withLock { $0.callCount } }

    /// How often rules have struck.
    public var firedCount: Int { state.withLock { state in state.rules.reduce(0) { $0 + $1.firedCount } } }

    /// Adds a rule behind the others.
    public func add(_ rule: FaultRule) {
        state.withLock { state in
            state.rules.append(RunningRule(rule, seed: state.seed, index: state.rules.count))
        }
    }

    /// Takes the rules of this name out of the plan: a device that was full or read-only is not any more, and what was
    /// corrupted reads right again. That such a rule never struck is still an error.
    public func lift(_ name: String) {
        state.withLock { state in
            for index in state.rules.indices where state.rules[index].rule.name == name {
                state.rules[index].isLifted = true
            }
        }
    }

    /// Throws unless every rule has struck at least once: a test whose faults never happen proves nothing.
    ///
    /// - Throws: ``DeadFaultRules`` with those that have not.
    public func requireAllFired() throws(DeadFaultRules) {
        let dead = state.withLock { state in state.rules.filter { $0.firedCount == 0 }.map(\.rule) }
        guard dead.isEmpty else { throw DeadFaultRules(rules: dead) }
    }

    // MARK: For the file system

    func decide(_ call: FaultCall) -> FaultDecision {
        state.withLock { state in
            var decision = FaultDecision()
            guard state.isArmed else { return decision }
            if call.operation != .store { state.callCount += 1 }
            for index in state.rules.indices where !state.rules[index].isLifted {
                state.rules[index].consider(call, &decision)
            }
            return decision
        }
    }

    /// Notes that a rule has changed what was read.
    func corruptionFired(_ rule: Int) {
        state.withLock { $0.rules[rule].firedCount += 1 }
    }

    /// The sectors of a file whose state before each write has to be kept.
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

/// Rules of a plan that never struck.
public struct DeadFaultRules: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rules.
    public let rules: [FaultRule]

    public var description: String {
        "never fired: " + rules.map(\.description).joined(separator: "; ")
    }
}
