import Synchronization

/// The value that each task has stored under a name of its own, which no other task writes.
final class OwnValues: Sendable {
    private struct Values {
        var acknowledged: Int?

        /// Values of writes with unknown outcomes, which may take effect at any later moment. Nil stands for a removal.
        var unknown: Set<Int?> = []

        func contain(_ value: Int?) -> Bool { value == acknowledged || unknown.contains(value) }
    }

    private let values = Mutex<[Int: Values]>([:])

    var tasks: [Int] { values.withLock { Array($0.keys) } }

    /// Reports a value that the task has not stored.
    func check(_ task: Int, _ value: Int?, _ run: StressRun) {
        let isRight = values.withLock { $0[task, default: Values()].contain(value) }
        if !isRight { run.report("own/\(task) is \(value.map(String.init) ?? "absent")") }
    }

    /// Makes a write and notes its value, or with nil its removal.
    func note(
        _ task: Int, _ value: Int?, isUnknown: (any Error) -> Bool, _ write: () async throws -> Void
    ) async throws {
        do {
            try await write()
            values.withLock { $0[task, default: Values()].acknowledged = value }
        } catch {
            if isUnknown(error) { values.withLock { _ = $0[task, default: Values()].unknown.insert(value) } }
            throw error
        }
    }
}
