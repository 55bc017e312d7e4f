import ForgeFileSystem
import Synchronization

/// Writes the content of a mirror to its copy, behind the mirror: the device delays no change in memory.
///
/// While one write runs, the names that change are collected; the next write stores their values as they are then. If
/// the names are too many, or a write has failed, the next write compares the whole content with the copy.
final class MirrorCopyWriter: Sendable {
    private struct State {
        var position: MirrorState.Position

        /// The names whose values were changed since the last write began; nil if any may differ from the copy.
        var names: Set<KeyName>? = []

        /// Whether the position or a value has changed since the last write began.
        var isBehind = false
        var task: Task<Void, Never>?
        var failure: (any Error)?
    }

    private enum Work: Sendable {
        case changes([MirroredChange])
        case all(KVSnapshot)
    }

    /// The largest number of collected names.
    static let limit = 10_000

    private let copy: MirrorCopy
    private let memory: InMemoryKVStore

    /// Held for every change in memory, so that a write takes values and position of one instant.
    private let state: Mutex<State>

    /// Creates the writer of a copy whose content the memory has.
    init(_ copy: MirrorCopy, of memory: InMemoryKVStore, at position: MirrorState.Position) {
        self.copy = copy
        self.memory = memory
        state = Mutex(State(position: position))
    }

    /// Why the last write failed.
    var failure: (any Error)? { state.withLock { $0.failure } }

    /// Whether no write runs.
    var isIdle: Bool { state.withLock { $0.task == nil } }

    /// Calls `change`, which gives `names`, or with nil any names, the values of a position in memory, and schedules
    /// their write to the copy.
    func record(_ names: [KeyName]?, _ position: MirrorState.Position, _ change: () -> Void) {
        state.withLock { state in
            change()
            guard names != [] || position != state.position else { return }
            (state.position, state.isBehind) = (position, true)
            if let names { state.names?.formUnion(names) }
            if names == nil || state.names?.count ?? 0 > Self.limit { state.names = nil }
            if state.task == nil { state.task = Task { await write() } }
        }
    }

    /// Writes until the copy has everything, or a write has failed and nothing has changed since it began: then the next
    /// change begins another.
    private func write() async {
        while true {
            do {
                guard let (work, position) = try takeWork() else { return }
                try await BlockingLane.general.run { [copy] in
                    switch work {
                    case .changes(let changes): try copy.write(changes, position)
                    case .all(let content): try copy.replace(by: content, position)
                    }
                }
                state.withLock { $0.failure = nil }
            } catch {
                state.withLock { ($0.names, $0.failure) = (nil, error) }
            }
        }
    }

    /// Takes the pending changes. Returns nil, and marks the task as ended, if there are none.
    private func takeWork() throws -> (Work, MirrorState.Position)? {
        try state.withLock { state in
            guard state.isBehind else {
                state.task = nil
                return nil
            }
            let names = state.names
            (state.names, state.isBehind) = ([], false)
            guard let names else { return (.all(try memory.snapshot()), state.position) }
            let changes = names.map { MirroredChange(name: $0, entry: memory.cell(of: $0).map { KVEntry($0) }) }
            return (.changes(changes), state.position)
        }
    }

    /// Waits for the writes, tries a failed one once more, and closes the copy durably.
    func close() async throws {
        while let task = state.withLock({ $0.task }) { await task.value }
        try await BlockingLane.general.run { [self] in
            let rest = Result {
                if failure != nil { try copy.replace(by: memory.snapshot(), state.withLock { $0.position }) }
            }
            try copy.close()
            try rest.get()
        }
    }
}
