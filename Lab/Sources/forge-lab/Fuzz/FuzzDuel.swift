import ForgeFileSystem

/// Where two file systems came apart.
struct FuzzDifference: Sendable {
    /// The place of the call in the sequence.
    var index: Int
    var disk: String
    var memory: String
    /// How the calls up to there ended on the disk.
    var outcomes: [FuzzOutcome]
}

/// Two file systems side by side: every call is made on both, and what comes of it compared.
final class FuzzDuel<Disk: FuzzSide, Memory: FuzzSide> {
    let limits: FuzzLimits
    private var disk: FuzzPlayer<Disk>
    private var memory: FuzzPlayer<Memory>
    private let buffer: UnsafeMutableRawBufferPointer
    /// What came of all calls.
    private(set) var tally = FuzzTally()

    /// After how many calls the trees are compared.
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

    /// Starts over, makes the calls, and stops where something differs.
    func play(_ operations: [FuzzOperation]) throws -> FuzzDifference? {
        try play(operations.count, { operations[$0] }, learning: { _, _ in })
    }

    /// Starts over, makes as many calls as asked for, each made up when those before have ended, and stops where
    /// something differs.
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

    /// Leaves the directory as it was found.
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
    /// Makes a failing sequence as short as it can be, given where it fails; returns it and what differs then.
    func shrink(
        _ operations: [FuzzOperation], _ difference: FuzzDifference
    ) throws -> ([FuzzOperation], FuzzDifference) {
        let shortest = try FuzzShrinker { candidate in
            // What comes after the difference does not matter.
            try self.play(candidate).map { $0.index == candidate.count - 1 } ?? false
        }.shrink(Array(operations[...difference.index]))
        return (shortest, try play(shortest) ?? difference)
    }
}
