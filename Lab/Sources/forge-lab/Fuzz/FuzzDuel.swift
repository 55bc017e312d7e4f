import ForgeFileSystem
import Foundation
import SystemPackage

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

/// Shrinks a failing sequence of calls and simplifies its calls.
struct FuzzShrinker {
    /// Whether a sequence still fails.
    let fails: ([FuzzOperation]) throws -> Bool

    /// A failing sequence that succeeds if any run of calls is removed or any call is simplified further.
    func shrink(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        while true {
            let shorter = try leavingOut(current)
            let plainer = try simplifying(shorter)
            if plainer == current { return current }
            current = plainer
        }
    }

    /// Removes runs of half the length, a quarter and so on down to single calls (delta debugging).
    private func leavingOut(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        var length = max(1, current.count / 2)
        while true {
            var start = 0
            var isShorter = false
            while start < current.count {
                var candidate = current
                candidate.removeSubrange(start..<min(start + length, current.count))
                if try !candidate.isEmpty && fails(candidate) {
                    current = candidate
                    isShorter = true
                } else {
                    start += length
                }
            }
            if length > 1 {
                length /= 2
            } else if !isShorter {
                return current
            }
        }
    }

    private func simplifying(_ operations: [FuzzOperation]) throws -> [FuzzOperation] {
        var current = operations
        for index in current.indices {
            var isPlainer = true
            while isPlainer {
                isPlainer = false
                for plainer in current[index].plainer {
                    var candidate = current
                    candidate[index] = plainer
                    guard try fails(candidate) else { continue }
                    current = candidate
                    isPlainer = true
                    break
                }
            }
        }
        return current
    }
}

/// Probes the rules of the host. Created before the process is confined.
struct FuzzProbe {
    private let guardsSharedDirectories: Bool
    private let guardsHardLinks: Bool

    init() {
        func isOn(_ name: String) -> Bool? {
            FileManager.default.contents(atPath: "/proc/sys/fs/\(name)")
                .map { !String(decoding: $0, as: UTF8.self).hasPrefix("0") }
        }
        guardsSharedDirectories = isOn("protected_symlinks") ?? true || isOn("protected_regular") ?? true
        guardsHardLinks = isOn("protected_hardlinks") ?? false
    }

    func limits(of disk: DiskSide) throws -> FuzzLimits {
        var limits = FuzzLimits()
        limits.isConfined = !disk.isLockedIn
        limits.playsUsers = disk.isLockedIn && guardsHardLinks
        limits.avoidsSharedStickyDirectories = guardsSharedDirectories
        if !disk.isLockedIn {
            limits.owners = [disk.identity.user.rawValue, 0]
            limits.groups = [disk.identity.group.rawValue, 0] + disk.identity.groups.map(\.rawValue)
        }
        let fileSystem = disk.fileSystem
        let probe: POSIXPath = "probe"
        let file = try fileSystem.open(probe, .readWrite, options: [.create])
        try fileSystem.writeBytes([1], to: file)
        let past = FileTime(seconds: 1)
        try fileSystem.setTimes(accessed: past, modified: past, of: .descriptor(file))
        _ = try fileSystem.readContents(of: file)
        limits.comparesAccess = try fileSystem.status(probe).accessed != past
        limits.changesLinkModes = succeeds {
            try fileSystem.setPermissions(.ownerReadWrite, of: .path(probe, followsSymbolicLinks: false))
        }
        if let maximum = limits.maximumFileSize {
            let isUsual =
                succeeds { try fileSystem.truncate(.descriptor(file), to: maximum) }
                && !succeeds { try fileSystem.truncate(.descriptor(file), to: maximum + 1) }
            if !isUsual { limits.maximumFileSize = nil }
        }
        try fileSystem.close(file)
        try fileSystem.unlink(probe)
        limits.opensDevices = try opensDevices(fileSystem, probe)
        return limits
    }

    /// Whether opening a node without a device reports the missing device; a mount may refuse all nodes (`nodev`).
    private func opensDevices(_ fileSystem: SystemFileSystem, _ probe: POSIXPath) throws -> Bool {
        do throws(FileSystemError) {
            try fileSystem.createNode(
                probe, at: .workingDirectory, type: .characterSpecial, permissions: .ownerReadWrite, deviceNumber: 0)
        } catch {
            return false
        }
        var answer: Errno?
        do throws(FileSystemError) {
            try fileSystem.close(try fileSystem.open(probe, .readOnly, options: [.nonBlocking]))
        } catch {
            answer = error.errno
        }
        try fileSystem.unlink(probe)
        return answer == .noSuchAddressOrDevice
    }

    private func succeeds(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            return false
        }
    }
}
