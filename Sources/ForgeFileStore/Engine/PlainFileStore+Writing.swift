public import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

/// Writers of new files.
extension PlainFileStore {
    nonisolated(nonsending) public func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        return try await run(.save, key) { [self] _ in
            let durability = durability ?? self.durability
            let staged = try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let staged = try directory.stage(checked, durability)
                try staged.setAttributes(attributes.values)
                return staged
            }
            return FileWriter(staged, key: checked, condition, durability, store: self)
        }
    }
}

// MARK: Batches

extension PlainFileStore {
    /// The maximum number of files of a batch that are open at a time.
    private static let batchLimit = 64

    private struct Step {
        let key: RelativeKey
        let change: FileBatch.Change
        var attributes = CheckedAttributes.none

        init(_ key: String, _ change: FileBatch.Change) throws(FileStoreError) {
            self.key = try RelativeKey(checking: key, for: change.operation)
            self.change = change
            if case .save(_, _, let attributes) = change {
                self.attributes = try CheckedAttributes(attributes, of: key)
            }
        }
    }

    /// How far a batch is, between its attempts to take a turn.
    private final class BatchProgress: Sendable {
        private let done = Atomic(0)

        /// The number of changes that are made.
        var doneCount: Int { done.load(ordering: .relaxed) }

        func finishChange() { done.add(1, ordering: .relaxed) }
    }

    nonisolated(nonsending) public func apply(_ batch: FileBatch, durability: Durability?) async throws {
        let steps = try batch.changes.map { (key, change) throws(FileStoreError) -> Step in
            try Step(key, change)
        }
        guard let first = steps.first else { return }
        let durability = durability ?? self.durability
        let progress = BatchProgress()
        let pending = steps.map { _ in PendingFile() }
        try await run(first.change.operation, first.key.string, keeping: pending) { [self] cancellation in
            cancellation.expectLongWork()
            // The key and operation of an error are those of the step that failed.
            var current = first
            while progress.doneCount < steps.count {
                try cancellation.check()
                try attemptStoring(current.change.operation, current.key.string) {
                    (directory) throws(FileSystemError) in
                    let start = progress.doneCount
                    let end = min((start / Self.batchLimit + 1) * Self.batchLimit, steps.count)
                    do throws(FileSystemError) {
                        try apply(
                            steps, start..<end, pending, progress, in: directory, durability, cancellation, &current)
                    } catch {
                        if !error.isTakenTurn { for file in pending { file.discard() } }
                        throw error
                    }
                }
            }
            guard durability == .full else { return }
            try attemptStoring(current.change.operation, current.key.string) { (directory) throws(FileSystemError) in
                try directory.synchronizeParents(of: steps.lazy.map(\.key))
            }
        }
    }

    /// Makes the changes of a group of steps, all of whose files are written before the first of them is placed.
    private func apply(
        _ steps: [Step], _ group: Range<Int>, _ pending: [PendingFile], _ progress: BatchProgress,
        in directory: StoreDirectory, _ durability: Durability, _ cancellation: Cancellation, _ current: inout Step
    ) throws(FileSystemError) {
        var staged: [(step: Step, file: StagedFile)] = []
        for index in group {
            guard case .save(let data, _, _) = steps[index].change else { continue }
            let step = steps[index]
            current = step
            let (file, isFresh) = try pending[index].get(in: directory) { () throws(FileSystemError) in
                try directory.requireFreeTurn(of: step.key)
                // A change before it in the batch may be what meets the condition.
                return try directory.stage(step.key, durability) { (file) throws(FileSystemError) in
                    try file.write(data)
                    try file.setAttributes(step.attributes.values)
                }
            }
            if isFresh, durability != .none { try file.startWritingBack() }
            staged.append((step, file))
        }
        for (step, file) in staged {
            current = step
            try file.finish(durability)
        }
        for index in group {
            let step = steps[index]
            current = step
            switch step.change {
            case .delete: try directory.unlink(step.key, durability: .none)
            case .save(let data, let condition, _):
                _ = try store(
                    pending[index], at: step.key, condition, durability, cancellation, in: directory,
                    flushesNames: false
                ) { (file) throws(FileSystemError) in
                    try file.write(data)
                    try file.setAttributes(step.attributes.values)
                }
            }
            progress.finishChange()
        }
    }
}

extension FileBatch.Change {
    fileprivate var operation: FileStoreError.Operation {
        switch self {
        case .save: .save
        case .delete: .delete
        }
    }
}
