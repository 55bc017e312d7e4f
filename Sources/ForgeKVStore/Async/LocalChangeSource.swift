import Synchronization

/// The changes of a local store for one consumer.
///
/// Undelivered names are kept once each; beyond ``limit`` they become a `.resync`.
final class LocalChangeSource: AsyncKVChangeSource {
    fileprivate struct State {
        var needsResync = true
        var names: [KeyName] = []
        var known: Set<KeyName> = []
        var waiting: CheckedContinuation<Void, Never>?

        mutating func report(_ changed: [String]?, prefix: String) -> CheckedContinuation<Void, Never>? {
            if let changed {
                for name in changed where !needsResync && name.utf8.starts(with: prefix.utf8) {
                    let name = KeyName(name)
                    if known.insert(name).inserted { names.append(name) }
                }
            } else {
                needsResync = true
            }
            if needsResync || names.count > LocalChangeSource.limit {
                (needsResync, names, known) = (true, [], [])
            }
            return isIdle ? nil : takeWaiting()
        }

        var isIdle: Bool { !needsResync && names.isEmpty }

        mutating func takeWaiting() -> CheckedContinuation<Void, Never>? {
            defer { waiting = nil }
            return waiting
        }
    }

    /// The largest number of undelivered names.
    static let limit = 10_000

    private let base: any KVTransactionalStoring
    private let state: SharedState
    private let observation: KVObservation?

    /// Apart from the source, so that the observer does not keep the source alive.
    private final class SharedState: Sendable {
        let value = Mutex(State())
    }

    init(_ base: any KVTransactionalStoring, prefix: String) {
        self.base = base
        let state = SharedState()
        self.state = state
        observation = base.observable?.observeChanges { names in
            state.value.withLock { $0.report(names, prefix: prefix) }?.resume()
        }
    }

    func next() async throws(AsyncKVStoreError) -> AsyncKVChange? {
        guard observation != nil else {
            throw AsyncKVStoreError(.refused, .changes, detail: "the store does not report changes")
        }
        while !Task.isCancelled {
            switch state.value.withLock({ $0.next() }) {
            case .resync: return .resync
            case .name(let name):
                do {
                    return .changed(name: name.string, entry: try base.entry(named: name.string), revision: nil)
                } catch {
                    state.value.withLock { $0.needsResync = true }
                    throw AsyncKVStoreError(error, .changes, key: name.string)
                }
            case nil: await wait()
            }
        }
        return nil
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDone = state.value.withLock { state in
                    guard state.isIdle, !Task.isCancelled else { return true }
                    precondition(state.waiting == nil, "a sequence of changes has a single consumer")
                    state.waiting = continuation
                    return false
                }
                if isDone { continuation.resume() }
            }
        } onCancel: {
            state.value.withLock { $0.takeWaiting() }?.resume()
        }
    }
}

extension LocalChangeSource.State {
    fileprivate enum Pending {
        case resync
        case name(KeyName)
    }

    fileprivate mutating func next() -> Pending? {
        if needsResync {
            (needsResync, names, known) = (false, [], [])
            return .resync
        }
        guard !names.isEmpty else { return nil }
        // Removed before it is read, so that a change during the reading is reported again.
        let name = names.removeFirst()
        known.remove(name)
        return .name(name)
    }
}
