import ForgeKVStore

/// Calls a handler with the names of each set of changes of a store, or nil if any may have changed, until it is
/// released.
final class Observation: Sendable {
    private let task: Task<Void, Never>

    init(_ store: some KVStoring, _ handler: @escaping @Sendable ([String]?) -> Void) {
        let changes = store.subscribe(to: .prefix("")) ?? KVChanges { nil }
        task = Task {
            var iterator = changes.makeAsyncIterator()
            do {
                while let set = try await iterator.nextSet() {
                    let names = set.changes.map { change in
                        guard case .changed(let name, _, _) = change else { return nil as String? }
                        return name
                    }
                    handler(names.contains(nil) ? nil : names.compactMap(\.self))
                }
            } catch {
                handler(nil)
            }
        }
    }

    deinit { task.cancel() }
}

/// The changes of a key with its decoded value.
struct KeyChanges<Value: Codable & Sendable>: AsyncSequence, Sendable {
    struct Element: Sendable {
        /// The value; nil if the key is absent or its value is not of the type.
        var value: Value?
        var revision: UInt64?
    }

    typealias Failure = Never

    let key: KVKey<Value>
    let changes: KVChanges

    func makeAsyncIterator() -> Iterator { Iterator(key: key, changes: changes.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        let key: KVKey<Value>
        var changes: KVChanges.Iterator

        mutating func next() async -> Element? { await next(isolation: nil) }

        mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            do {
                guard case .changed(_, let entry, _)? = try await changes.next(isolation: actor) else { return nil }
                return Element(value: try entry?.value(of: key), revision: entry?.revision)
            } catch {
                return Element()
            }
        }
    }
}

extension KVStoring {
    /// The changes of a key; none if the store does not report any.
    func changes<Value>(_ key: KVKey<Value>) -> KeyChanges<Value> {
        KeyChanges(key: key, changes: subscribe(to: .key(key.name)) ?? KVChanges { nil })
    }
}
