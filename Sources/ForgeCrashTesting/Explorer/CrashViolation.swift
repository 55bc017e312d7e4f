/// A state from which a program did not recover as promised.
public struct CrashViolation: Sendable, CustomStringConvertible {
    /// The identifier of the state, for ``CrashExplorer/replay(_:)``.
    public let id: CrashStateID

    /// The error of the recovery, as text.
    public let reason: String

    /// The crashes that lead to the state, in order: of the program, of its recovery and so on.
    public let crashes: [String]

    /// The losses of the last power cut, one line each: the line of the log, the call with its path, and what is missing;
    /// empty for a kill.
    public let losses: [String]

    /// The changes of the run that crashed last, and those of killed runs before it, as numbered lines: the last 40.
    public let log: [String]

    public var description: String {
        "\(id): \(reason), after \(crashes.joined(separator: ", then "))" + losses.map { "\n    \($0)" }.joined()
            + "\n  the log of changes:" + log.map { "\n    \($0)" }.joined()
    }
}

extension CrashState {
    /// The differences from the state before the crash.
    func losses(in space: StateSpace, _ log: CrashLog) -> [String] {
        var lines: [String] = []
        for (change, isMade) in zip(space.undecided, tree.names) where !isMade {
            let half = change.number < 0 ? " (the removal of the old name)" : ""
            lines.append("\(log.line(abs(change.number)))\(half): not done")
        }
        for (file, choice) in zip(tree.undecided, choices) {
            let inode = file.choices.number
            let last = file.choices.last
            let size = file.choices.sizes[choice.size]
            if choice.size != last.size {
                let lost = Int64(size)..<Int64.max
                lines.append(
                    "\(log.lastChange(of: inode, in: lost)): \(log.path(inode)) has \(size) of "
                        + "\(file.choices.sizes[last.size]) bytes")
            }
            if choice.attributes != last.attributes { lines.append("\(log.path(inode)): older attributes") }
            for (place, block) in file.choices.blocks.enumerated() where place < file.choices.visibleBlocks[choice.size]
            {
                guard choice.blocks[place] != last.blocks[place] else { continue }
                let part = block.versions[choice.blocks[place]].part
                let kind =
                    switch (part.lowerBound, part.upperBound) {
                    case (0, BlockHistory.size): "has an older version"
                    case (0, let end): "is torn after \(end) bytes"
                    default: "is torn, bytes \(part.lowerBound)..<\(part.upperBound) are new"
                    }
                let start = Int64(block.number) * Int64(BlockHistory.size)
                let change = log.lastChange(of: inode, in: start..<start + Int64(BlockHistory.size))
                lines.append("\(change): block \(block.number) of \(log.path(inode)) \(kind)")
            }
        }
        return lines
    }
}
