public import ForgeFileSystem
public import Foundation
import Synchronization
import SystemPackage

/// A staged file that a call keeps between its attempts to place it.
final class PendingFile: Sendable {
    private let file = Mutex<StagedFile?>(nil)

    /// The file that was staged in a directory; staged now unless it was before.
    func get(
        in directory: StoreDirectory, _ stage: () throws(FileSystemError) -> StagedFile
    ) throws(FileSystemError) -> (StagedFile, isFresh: Bool) {
        try file.withLock { (file) throws(FileSystemError) in
            if let file, file.store === directory { return (file, false) }
            file?.discard()
            file = nil
            let new = try stage()
            file = new
            return (new, true)
        }
    }

    /// Removes the file. To be called on a thread that may block.
    func discard() {
        file.withLock { $0.take() }?.discard()
    }
}

/// Saves in two steps: the content is written under a temporary name, and the file is renamed to its key later.
extension PlainFileStore {
    @discardableResult
    public func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        let durability = durability ?? self.durability
        let pending = PendingFile()
        return try await run(.save, key, keeping: [pending]) { [self] cancellation in
            cancellation.expectWork(ofSize: Int64(data.count))
            return try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let status = try store(pending, at: checked, condition, durability, cancellation, in: directory) {
                    (file) throws(FileSystemError) in try write(data, attributes, to: file)
                }
                return StoredFile(key: key, status)
            }
        }
    }

    /// Stages a file, unless an earlier attempt did, and places it.
    ///
    /// - Throws: The file is kept only if the error is that of a taken turn.
    func store(
        _ pending: PendingFile, at key: RelativeKey, _ condition: SaveCondition, _ durability: Durability,
        _ cancellation: Cancellation, in directory: StoreDirectory, flushesNames: Bool = true,
        content: (StagedFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> FileStatus {
        var attempts = 0
        while true {
            do throws(FileSystemError) {
                let (file, isFresh) = try pending.get(in: directory) { () throws(FileSystemError) in
                    try stage(key, condition, durability, in: directory, content: content)
                }
                try file.finish(durability)
                guard !cancellation.isCancelled else { throw .cancelledWork }
                return try directory.place(
                    file, condition.renameMode, expecting: condition.expectedRevision, durability: durability,
                    flushesNames: flushesNames, isFresh: isFresh)
            } catch {
                guard !error.isTakenTurn else { throw error }
                pending.discard()
                // Another program removes the directory; of two that do so, one makes progress each time.
                attempts += 1
                guard error.errno == .noSuchFileOrDirectory, key.isNested, attempts <= 1000 else { throw error }
            }
        }
    }

    private func stage(
        _ key: RelativeKey, _ condition: SaveCondition?, _ durability: Durability, in directory: StoreDirectory,
        content: (StagedFile) throws(FileSystemError) -> Void
    ) throws(FileSystemError) -> StagedFile {
        let file = try directory.stage(key, durability, condition?.renameMode)
        do throws(FileSystemError) {
            try content(file)
        } catch {
            file.discard()
            throw error
        }
        return file
    }

    private func write(
        _ data: Data, _ attributes: CheckedAttributes, to staged: StagedFile
    ) throws(FileSystemError) {
        try staged.withFile { (file) throws(FileSystemError) in
            try withBytes(of: data) { (bytes) throws(FileSystemError) in
                try disk.writeFully(file, from: bytes)
            }
            try disk.setFileAttributes(attributes.values, of: file)
        }
    }

    public func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        let checked = try RelativeKey(checking: key, for: .save)
        let attributes = try CheckedAttributes(attributes, of: key)
        return try await run(.save, key) { [self] _ in
            let durability = durability ?? self.durability
            let staged = try attemptStoring(.save, key) { (directory) throws(FileSystemError) in
                let staged = try directory.stage(checked, durability)
                try staged.withFile { (file) throws(FileSystemError) in
                    try disk.setFileAttributes(attributes.values, of: file)
                }
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

    public func apply(_ batch: FileBatch, durability: Durability?) async throws {
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
                // A change before it in the batch may be what meets the condition.
                try stage(step.key, nil, durability, in: directory) { (file) throws(FileSystemError) in
                    try write(data, step.attributes, to: file)
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
                ) { (file) throws(FileSystemError) in try write(data, step.attributes, to: file) }
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

/// The valid attributes of a new file.
struct CheckedAttributes: Sendable {
    static let none = CheckedAttributes()

    let values: [String: [UInt8]]

    private init() { values = [:] }

    /// Validates the attributes of a save.
    init(_ attributes: [String: String], of key: String) throws(FileStoreError) {
        // Sorted, so that every run reports the same problem.
        let sorted = attributes.sorted { $0.key < $1.key }
        for (name, _) in sorted where !FileAttributes.isName(name) {
            throw FileStoreError(.invalidAttribute(.name(name)), .save, key: key)
        }
        let sizes = sorted.map { (name: $0.key, size: $0.key.utf8.count + $0.value.utf8.count) }
        if let largest = sizes.max(by: { $0.size < $1.size }),
            sizes.count > FileAttributes.maximumCount
                || sizes.reduce(0, { $0 + $1.size }) > FileAttributes.maximumSizeInBytes
        {
            throw FileStoreError(.invalidAttribute(.tooLarge(largest.name)), .save, key: key)
        }
        values = attributes.mapValues { Array($0.utf8) }
    }

    /// The attributes of an open file.
    ///
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/undecodable`` if a value is not UTF-8.
    static func read(from file: borrowing OpenFile, key: String) throws(FileStoreError) -> [String: String] {
        let values: [String: [UInt8]]
        do throws(FileSystemError) {
            values = try file.attributes()
        } catch {
            throw FileStoreError(error, .load, key: key)
        }
        var attributes: [String: String] = [:]
        for (name, value) in values {
            guard let text = String(validating: value, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .load, key: key)
            }
            attributes[name] = text
        }
        return attributes
    }
}
