import ForgeFileSystem

/// The first difference between two file systems.
struct FuzzDifference: Sendable {
    /// The index of the call in the sequence.
    var index: Int
    var disk: String
    var memory: String
    /// The outcomes of all calls up to `index` on disk.
    var outcomes: [FuzzOutcome]
}

/// Two file systems side by side: makes every call on both and compares the outcomes.
final class FuzzDuel<Disk: FuzzSide, Memory: FuzzSide> {
    let limits: FuzzLimits
    private var disk: FuzzPlayer<Disk>
    private var memory: FuzzPlayer<Memory>
    private let buffer: UnsafeMutableRawBufferPointer
    /// The outcomes of all calls.
    private(set) var tally = FuzzTally()

    /// The number of calls between two comparisons of the trees.
    private static var callsPerComparison: Int { 50 }

    init(_ disk: Disk, _ memory: Memory, limits: FuzzLimits) {
        self.limits = limits
        // More than the longest read.
        buffer = .allocate(byteCount: 1 << 17, alignment: 16)
        self.disk = FuzzPlayer(disk, limits: limits, buffer: buffer)
        self.memory = FuzzPlayer(memory, limits: limits, buffer: buffer)
    }

    deinit {
        buffer.deallocate()
    }

    /// Resets both sides, makes the calls, and stops at the first difference.
    func play(_ operations: [FuzzOperation]) throws -> FuzzDifference? {
        try play(operations.count, { operations[$0] }, learning: { _, _ in })
    }

    /// Resets both sides, makes `count` calls, each generated after the previous one ended, and stops at the first
    /// difference.
    func play(
        _ count: Int, _ operation: (Int) -> FuzzOperation, learning: (FuzzOperation, FuzzOutcome) -> Void
    ) throws -> FuzzDifference? {
        try disk.reset()
        try memory.reset()
        var outcomes: [FuzzOutcome] = []
        outcomes.reserveCapacity(count)
        for index in 0..<count {
            let operation = operation(index)
            guard !limits.isConfined || operation.staysInside else {
                throw FuzzFailure("a path could lead out of the directory")
            }
            let onDisk = try disk.perform(operation)
            let inMemory = try memory.perform(operation)
            outcomes.append(onDisk)
            tally.count(operation, onDisk)
            if onDisk != inMemory {
                return FuzzDifference(index: index, disk: "\(onDisk)", memory: "\(inMemory)", outcomes: outcomes)
            }
            learning(operation, onDisk)
            guard index + 1 == count || (index + 1).isMultiple(of: Self.callsPerComparison) else { continue }
            let diskTree = try tree(of: disk.side)
            let memoryTree = try tree(of: memory.side)
            if diskTree != memoryTree {
                let (onDisk, inMemory) = diskTree.difference(from: memoryTree)
                return FuzzDifference(index: index, disk: onDisk, memory: inMemory, outcomes: outcomes)
            }
        }
        return nil
    }

    /// Restores the directory to its initial state.
    func finish() throws {
        try disk.reset()
    }

    private func tree(of side: some FuzzSide) throws -> FuzzTree {
        try side.observing { fileSystem, home in
            try FuzzTree(of: home, in: fileSystem, limits: limits, buffer: buffer)
        }
    }
}

extension FuzzDuel {
    /// Shrinks a failing sequence, given the index of its failure; returns it with its difference.
    func shrink(
        _ operations: [FuzzOperation], _ difference: FuzzDifference
    ) throws -> ([FuzzOperation], FuzzDifference) {
        let shortest = try FuzzShrinker { candidate in
            // Calls after the difference are irrelevant.
            try self.play(candidate).map { $0.index == candidate.count - 1 } ?? false
        }.shrink(Array(operations[...difference.index]))
        return (shortest, try play(shortest) ?? difference)
    }
}
