import ForgeFileSystem

/// One possible state after a crash.
struct CrashState: Sendable {
    var tree: CrashedTree
    var choices: [FileChoice]

    var hash: UInt64 { tree.hash(choices) }
    var image: DiskImage { tree.image(choices) }

    /// The identifier of the state among those of the same moment.
    func level(effectCount: Int) -> CrashStateID.Level {
        .powerCut(
            CrashStateID.PowerCut(
                effectCount: effectCount, names: tree.names,
                files: zip(tree.undecided, choices).map { ($0.choices.number, $1) }.map(CrashStateID.File.init)))
    }
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

    /// The state with this identifier; nil if it does not exist here.
    func state(_ cut: CrashStateID.PowerCut) -> CrashState? {
        guard cut.names.count == undecided.count else { return nil }
        var chosen: [UInt64: FileChoice] = [:]
        for file in cut.files {
            guard let choices = files[file.inode], choices.sizes.indices.contains(file.choice.size),
                choices.attributes.indices.contains(file.choice.attributes),
                choices.blocks.count == file.choice.blocks.count,
                zip(choices.blocks, file.choice.blocks).allSatisfy({ $0.versions.indices.contains($1) })
            else { return nil }
            chosen[file.inode] = file.choice
        }
        return state(cut.names, chosen)
    }
}
