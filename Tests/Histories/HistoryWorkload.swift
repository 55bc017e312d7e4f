package import ForgeKVStore

/// Concurrent clients that read and write a few names together, then go on to fresh names.
///
/// A call whose outcome is unknown stays open for the rest of its names' history, so the names are used for a short
/// time.
package struct HistoryWorkload: Sendable {
    /// The number of calls after which fresh names are used.
    private static let callsPerGroup = 40

    private static let groupsAtOnce = 2
    private static let names = ["a", "b", "c"]

    private let recorder: HistoryRecorder

    package init(_ recorder: HistoryRecorder) {
        self.recorder = recorder
    }

    /// Runs one client for each store, until `isOver`.
    package func run(_ stores: [any AsyncKVStoring], until isOver: @escaping @Sendable () -> Bool) async {
        await withDiscardingTaskGroup { group in
            for store in stores {
                group.addTask {
                    var client = Client(store: RecordedStore(store, recorder))
                    while !isOver(), !Task.isCancelled {
                        let succeeded = await client.call(Self.group(of: recorder.nextIndex()))
                        // Without a pause, calls that fail at once would fill the history.
                        if !succeeded { do { try await Task.sleep(for: .milliseconds(30)) } catch { return } }
                    }
                }
            }
        }
    }

    /// Reads every name once, so that the history shows every write that was lost. Returns what was found, and nil for
    /// a name that could not be read in this time.
    package func readAll(
        _ store: any AsyncKVStoring, within limit: Duration
    ) async -> [String: HistoryObservation?] {
        let names = Set(recorder.operations.flatMap(\.names)).sorted()
        let end = ContinuousClock.now + limit
        let store = RecordedStore(store, recorder)
        return await withTaskGroup(of: [(String, HistoryObservation?)].self) { group in
            let share = 8
            for first in 0..<share {
                group.addTask {
                    var found: [(String, HistoryObservation?)] = []
                    for index in stride(from: first, to: names.count, by: share) {
                        var observation = await store.read(names[index])
                        while observation == nil, ContinuousClock.now < end {
                            observation = await store.read(names[index])
                        }
                        found.append((names[index], observation))
                    }
                    return found
                }
            }
            return await group.reduce(into: [:]) { all, part in
                for (name, observation) in part { all.updateValue(observation, forKey: name) }
            }
        }
    }

    private static func group(of index: Int) -> String {
        let block = index / (callsPerGroup * groupsAtOnce)
        return "g\(block * groupsAtOnce + Int.random(in: 0..<groupsAtOnce))/"
    }

    /// One client, and what it has seen last.
    private struct Client {
        let store: RecordedStore
        var group = ""
        var seen: [String: HistoryObservation] = [:]

        /// Makes a random call. Returns whether it was answered.
        mutating func call(_ group: String) async -> Bool {
            if group != self.group { (self.group, seen) = (group, [:]) }
            let names = HistoryWorkload.names.map { group + $0 }.shuffled()
            let name = names[0]
            switch Int.random(in: 0..<100) {
            case 0..<20: return await isAnswered(store.set(name))
            case 20..<26: return await isAnswered(store.remove(name))
            case 26..<34: return await isAnswered(store.createIfAbsent(name))
            case 34..<50:
                guard let seen = seen[name] else { return await read(name) }
                return await isAnswered(store.compareAndSet(name, seen))
            case 50..<60: return await isAnswered(store.update(name))
            case 60..<72:
                let removed = Bool.random() ? [names[2]] : []
                let required = Bool.random() ? seen.filter { $0.key == name } : [:]
                return await isAnswered(store.batch(setting: [name, names[1]], removing: removed, requiring: required))
            case 72..<78: return await store.list(prefix: group, names: names)
            default: return await read(name)
            }
        }

        private mutating func read(_ name: String) async -> Bool {
            guard let observation = await store.read(name) else { return false }
            seen[name] = observation
            return true
        }

        private func isAnswered(_ outcome: HistoryOperation.Outcome?) -> Bool {
            outcome == .done || outcome == .conflict
        }
    }
}
