import ForgeFileSystem
import Foundation

/// Saves in two steps: the content is written under a temporary name, and the file is renamed to its key later.
extension FileStoreEngine {
    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        let durability = durability ?? self.durability
        return try await offload { [self] _ in
            try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let staged = try stage(checked, data, attributes, in: directory, durability)
                try staged.synchronize(durability)
                return StoredFile(
                    key: key,
                    try directory.place(
                        staged, condition.renameMode, expecting: condition.expectedRevision, durability: durability))
            }
        }
    }

    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        return try await offload { [self] _ in
            let durability = durability ?? self.durability
            let staged = try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let staged = try directory.stage(checked, durability)
                try staged.withFile { (file) throws(FileSystemError) in
                    try fileSystem.setFileAttributes(attributes.values, of: file)
                }
                return staged
            }
            return FileWriter(staged, key: checked, condition, durability, engine: self)
        }
    }

    private func stage(
        _ key: RelativeKey, _ data: Data, _ attributes: CheckedAttributes, in directory: StoreDirectory,
        _ durability: Durability
    ) throws(FileSystemError) -> StagedFile {
        let staged = try directory.stage(key, durability)
        do throws(FileSystemError) {
            try staged.withFile { (file) throws(FileSystemError) in
                try withBytes(of: data) { (bytes) throws(FileSystemError) in
                    try fileSystem.writeFully(file, from: bytes)
                }
                try fileSystem.setFileAttributes(attributes.values, of: file)
            }
            try staged.finishContent(durability)
        } catch {
            staged.discard()
            throw error
        }
        return staged
    }
}

// MARK: Batches

extension FileStoreEngine {
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

    func apply(_ batch: FileBatch, durability: Durability?) async throws {
        let steps = try batch.changes.map { (key, change) throws(FileStoreError) -> Step in
            try Step(key, change)
        }
        guard let first = steps.first else { return }
        let durability = durability ?? self.durability
        try await offload { [self] cancellation in
            // The key and operation of an error are those of the step that failed.
            var current = first
            for start in stride(from: 0, to: steps.count, by: Self.batchLimit) {
                try cancellation.check()
                let group = steps[start..<min(start + Self.batchLimit, steps.count)]
                try attemptStoring(current.change.operation, current.key.string) {
                    (directory) throws(FileSystemError) in
                    try apply(group, in: directory, durability, &current)
                }
            }
            guard durability == .full else { return }
            try attemptStoring(current.change.operation, current.key.string) { (directory) throws(FileSystemError) in
                try directory.synchronizeParents(of: steps.lazy.map(\.key))
            }
        }
    }

    private func apply(
        _ steps: ArraySlice<Step>, in directory: StoreDirectory, _ durability: Durability, _ current: inout Step
    ) throws(FileSystemError) {
        // Files that are not placed are removed by their `deinit`.
        var staged: [(step: Step, file: StagedFile)] = []
        for step in steps {
            guard case .save(let data, _, _) = step.change else { continue }
            current = step
            staged.append((step, try stage(step.key, data, step.attributes, in: directory, durability)))
        }
        for (step, file) in staged {
            current = step
            try file.synchronize(durability)
        }
        staged.reverse()
        for step in steps {
            current = step
            switch step.change {
            case .delete: try directory.unlink(step.key, durability: .none)
            case .save(_, let condition, _):
                try directory.place(
                    staged.removeLast().file, condition.renameMode, expecting: condition.expectedRevision,
                    durability: durability, flushesNames: false)
            }
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
