/// How a process ends without warning.
public enum CrashKind: Hashable, Sendable, CaseIterable {
    /// The process is killed and the system continues: written data is kept but not made durable. Descriptors, locks
    /// and mappings are gone.
    case processKill

    /// The power fails: changes that were not synchronised may be lost, including names of files.
    case powerCut

    /// The kind that a recovery must expect after these crashes.
    init(_ levels: some Sequence<CrashLevel>) {
        self = levels.allSatisfy { $0.kind == .processKill } ? .processKill : .powerCut
    }
}
