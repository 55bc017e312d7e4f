/// A state from which a program did not recover as promised.
public struct CrashViolation: Sendable, CustomStringConvertible {
    /// The identifier of the state, for ``CrashExplorer/replay(_:)``.
    public let id: CrashStateID

    /// The error of the recovery, as text.
    public let reason: String

    /// The losses of the power cut, one line each; empty for a kill.
    public let losses: [String]

    public var description: String {
        "\(id): \(reason)" + losses.map { "\n    \($0)" }.joined()
    }
}

extension CrashState {
    /// The differences from the state before the crash.
    func losses(in space: StateSpace) -> [String] {
        var lines: [String] = []
        for (change, isMade) in zip(space.undecided, tree.names) where !isMade {
            lines.append("not done: \(change.text)")
        }
        for (file, choice) in zip(tree.undecided, choices) {
            let last = file.choices.last
            let size = file.choices.sizes[choice.size]
            if choice.size != last.size {
                lines.append("inode \(file.choices.number): \(size) of \(file.choices.sizes[last.size]) bytes")
            }
            if choice.attributes != last.attributes { lines.append("inode \(file.choices.number): old attributes") }
            for (place, block) in file.choices.blocks.enumerated() where place < file.choices.visibleBlocks[choice.size]
            {
                guard choice.blocks[place] != last.blocks[place] else { continue }
                let part = block.versions[choice.blocks[place]].part
                let kind =
                    switch (part.lowerBound, part.upperBound) {
                    case (0, BlockHistory.size): "an older version"
                    case (0, let end): "torn after \(end) bytes"
                    default: "torn, bytes \(part.lowerBound)..<\(part.upperBound) new"
                    }
                lines.append("inode \(file.choices.number), block \(block.number): \(kind)")
            }
        }
        return lines
    }
}
