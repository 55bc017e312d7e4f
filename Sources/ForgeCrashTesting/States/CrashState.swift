import ForgeFileSystem

/// One possible state after a crash.
struct CrashState: Sendable {
    var tree: CrashedTree
    var choices: [FileChoice]

    var hash: UInt64 { tree.hash(choices) }
    var image: DiskImage { tree.image(choices) }
}

extension StateSpace {
    /// The state for a choice of names and files; files without a choice are as synchronised.
    func state(_ names: [Bool], _ files: [UInt64: FileChoice]) -> CrashState? {
        tree(names).map { state($0, files) }
    }

    func state(_ tree: CrashedTree, _ files: [UInt64: FileChoice]) -> CrashState {
        CrashState(tree: tree, choices: tree.undecided.map { files[$0.choices.number] ?? $0.choices.first })
    }

    /// The state without losses.
    var live: CrashState? { state(namesIfAllKept, files.mapValues(\.last)) }

    /// The state with the greatest loss.
    var durable: CrashState? { state(namesIfAllLost, [:]) }
}
