/// How a process ends without any warning.
public enum CrashKind: Hashable, Sendable, CaseIterable {
    /// The process is killed, and the system lives on: nothing that was written is lost, but nothing becomes durable
    /// either. Descriptors, locks and mappings are gone.
    case processKill

    /// The power fails: what was not synchronised may be lost, names of files too.
    case powerCut

    /// What a recovery has to expect after these crashes.
    init(_ levels: some Sequence<CrashStateID.Level>) {
        self = levels.allSatisfy { $0.kind == .processKill } ? .processKill : .powerCut
    }
}
