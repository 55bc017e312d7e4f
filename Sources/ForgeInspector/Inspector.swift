import ForgeStorage
public import Foundation
import Synchronization

/// Shows the stores below a directory while other processes use them: what they contain and what changes.
///
/// Reads logs and files without opening a store and without a lock, so it never delays the processes that use them. It
/// finds changes by looking at the end of every log, five times a second, and by searching the tree while a page is open.
///
/// Everything is reached from the directory without following links, also if another program replaces a directory by a
/// link meanwhile.
///
/// An app that adds ``InspectorDecoder``s, or shows the hit rates of its caches (``register(_:)``), runs an inspector
/// itself and serves its page with `serve(port:onStart:)`, which the package trait `Inspector` adds; `forge serve` does
/// the same without them.
public final class Inspector: Sendable {
    struct Summary: Encodable, Sendable {
        struct Store: Encodable, Sendable {
            var kind: FoundStore.Kind
            var id: String
            var name: String
            var count: Int?
            var revision: UInt64?
            var failure: String?
            /// The hits of a cache that this process has registered.
            var hits: CacheHits?
        }

        var directory: String
        var isWritable: Bool
        /// Whether the tree has too many files to be searched completely.
        var isPartial: Bool
        var stores: [Store]
        var caches: [CacheHits]
    }

    private struct State {
        var isPartial = false
        var isSearched = false
        var stores: [FoundStore] = []
        var caches: [InspectedCache] = []
        // Not by names, of which two that differ in their bytes can be equal strings.
        var keyValue: [POSIXPath: KeyValueView] = [:]
        var vaults: [POSIXPath: VaultView] = [:]
    }

    let root: ConfinedDirectory
    let options: InspectorOptions
    let timeline = Timeline()
    let files: FileTree
    private let state: Mutex<State>

    /// Held by a search of the directory, which takes long in a large tree.
    private let searching: Mutex<StoreSearch>

    /// Held while the records of logs become events, so that an edit of the page is known as such.
    private let following = Mutex(())

    /// The time of the last request, and a signal for each.
    private let lastRequest = Mutex<ContinuousClock.Instant?>(nil)
    private let (requests, requested) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// The interval at which logs are looked at.
    private static let interval = Duration.milliseconds(200)

    /// A page asks every second. After so long without a request nothing is searched until the next one.
    private static let patience = Duration.seconds(15)

    /// Creates an inspector and searches the directory once.
    ///
    /// - Parameters:
    ///   - directory: The directory that contains the stores.
    ///   - options: What is shown.
    /// - Throws: `FileSystemError` if the directory cannot be read.
    public init(_ directory: URL, options: InspectorOptions = InspectorOptions()) throws {
        root = try ConfinedDirectory(POSIXPath(directory))
        self.options = options
        files = FileTree(root)
        let search = StoreSearch(root)
        state = Mutex(State(caches: options.caches))
        searching = Mutex(search)
        try refreshStores()
    }

    /// Shows the hit rates of a cache of this process from now on, instead of another one with this name.
    ///
    /// - Parameter cache: The cache. Its statistics are read until the inspector is released.
    public func register(_ cache: InspectedCache) {
        state.withLock { state in
            state.caches.removeAll { $0.name.hasSameBytes(as: cache.name) }
            state.caches.append(cache)
        }
    }

    /// Follows the stores until the task is cancelled.
    func follow() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while true {
                    await BlockingLane.general.run { self.refreshLogs() }
                    try await Task.sleep(for: Self.interval)
                }
            }
            group.addTask {
                var requests = self.requests.makeAsyncIterator()
                while true {
                    let start = ContinuousClock.now
                    do throws(FileSystemError) {
                        try await BlockingLane.general.run { () throws(FileSystemError) in try self.refreshStores() }
                    } catch _ {}  // The directory was removed; it may come back.
                    let end = ContinuousClock.now
                    let idle = self.lastRequest.withLock { $0 }.map { end - $0 }
                    if let pause = Self.pause(afterSearching: end - start, idleFor: idle) {
                        try await Task.sleep(for: pause)
                    } else {
                        _ = await requests.next()
                        try Task.checkCancellation()
                    }
                }
            }
            _ = try await group.next()
        }
    }

    /// The time until the next search: a large tree is searched for a tenth of the time at most. Nil to wait for a
    /// request, because no page is open.
    static func pause(afterSearching duration: Duration, idleFor idle: Duration?) -> Duration? {
        guard let idle, idle < patience else { return nil }
        return max(.milliseconds(500), duration * 9)
    }

    /// Notes that a page is open.
    func didReceiveRequest() {
        lastRequest.withLock { $0 = ContinuousClock.now }
        requested.yield()
    }

    /// Searches the directory for stores and changed files.
    func refreshStores() throws(FileSystemError) {
        let found = try searching.withLock { (search) throws(FileSystemError) in
            timeline.add(try search.run())
            return search
        }
        state.withLock { state in
            let (known, current) = (Set(state.stores), Set(found.stores))
            if state.isSearched {
                timeline.add(current.subtracting(known).map { Self.event("found", $0) })
                timeline.add(known.subtracting(current).map { Self.event("lost", $0) })
            }
            (state.stores, state.isPartial, state.isSearched) = (found.stores, found.isPartial, true)
            state.keyValue = state.keyValue.filter { current.contains($0.value.store) }
            state.vaults = state.vaults.filter { current.contains($0.value.store) }
            for store in found.stores {
                switch store.kind {
                case .keyValue where state.keyValue[store.path] == nil:
                    state.keyValue[store.path] = KeyValueView(store, in: root)
                case .vault where state.vaults[store.path] == nil:
                    state.vaults[store.path] = VaultView(store, in: root)
                default: break
                }
            }
        }
    }

    private static func event(_ operation: String, _ store: FoundStore) -> Timeline.Event {
        Timeline.Event(
            time: Date().timeIntervalSince1970, store: store.name, storeID: store.id, operation: operation)
    }

    /// Reads the new records of all logs.
    func refreshLogs() {
        following.withLock { _ in
            for view in state.withLock({ Array($0.keyValue.values) }) { timeline.add(view.refresh()) }
        }
    }

    /// Applies edits of the page and reads their records: a request after this finds the new values.
    ///
    /// - Throws: As ``StagedEdits/apply(to:in:unless:)``.
    func apply(_ edits: StagedEdits, to view: KeyValueView) throws {
        try following.withLock { _ in
            timeline.add(view.refresh())
            let own = try edits.apply(to: view.store, in: root, unless: options.refusal)
            timeline.add(
                view.refresh().map { event in
                    var event = event
                    if let revision = event.name.flatMap({ own[POSIXPath($0)] }) {
                        event.isOwn = revision == nil || revision == event.revision
                    }
                    return event
                })
        }
    }

    func keyValueStore(_ id: String) -> KeyValueView? {
        store(id, [.keyValue]).flatMap { store in state.withLock { $0.keyValue[store.path] } }
    }

    func vault(_ id: String) -> VaultView? {
        store(id, [.vault]).flatMap { store in state.withLock { $0.vaults[store.path] } }
    }

    func cache(_ id: String) -> FoundStore? { store(id, [.cache, .images]) }

    /// The store with an identifier, ``FoundStore/id``; nil also for a text that is none.
    private func store(_ id: String, _ kinds: [FoundStore.Kind]) -> FoundStore? {
        guard let path = POSIXPath.decodingPercentEscapes(id, refusing: "/").map({ POSIXPath($0) }) else { return nil }
        return state.withLock { state in state.stores.first { kinds.contains($0.kind) && $0.path == path } }
    }

    var keyValueStores: [KeyValueView] {
        state.withLock { $0.keyValue.values.sorted { $0.store.name < $1.store.name } }
    }

    var vaults: [VaultView] { state.withLock { $0.vaults.values.sorted { $0.store.name < $1.store.name } } }

    var summary: Summary {
        let (stores, keyValue, isPartial, caches) = state.withLock {
            ($0.stores, $0.keyValue, $0.isPartial, $0.caches)
        }
        let hits = hits(of: caches, in: stores)
        return Summary(
            directory: root.path.description, isWritable: options.isWritable, isPartial: isPartial,
            stores: stores.map { store in
                let known = store.kind == .keyValue ? keyValue[store.path]?.summary : nil
                return Summary.Store(
                    kind: store.kind, id: store.id, name: store.name, count: known?.count, revision: known?.revision,
                    failure: known?.failure, hits: hits[store])
            },
            caches: caches.map { CacheHits($0) })
    }

    /// The hits of the registered caches whose directories are found stores.
    private func hits(of caches: [InspectedCache], in stores: [FoundStore]) -> [FoundStore: CacheHits] {
        var places: [CacheHits.Place: InspectedCache] = [:]
        for cache in caches {
            guard let directory = cache.directory else { continue }
            do throws(FileSystemError) {
                places[.init(try root.fileSystem.status(POSIXPath(directory)))] = cache
            } catch _ {}  // Not created yet.
        }
        var hits: [FoundStore: CacheHits] = [:]
        for store in stores where store.kind == .cache && !places.isEmpty {
            do throws(FileSystemError) {
                let directory = try root.open(store.path)
                defer { root.fileSystem.discard(directory) }
                let place = CacheHits.Place(try root.fileSystem.status(of: .descriptor(directory)))
                hits[store] = places[place].map { CacheHits($0) }
            } catch _ {}  // Removed since it was found.
        }
        return hits
    }
}

/// The last changes of all stores, numbered in the order in which they were found.
final class Timeline: Sendable {
    struct Event: Encodable, Sendable {
        var number = 0
        /// In seconds since 1970.
        var time: Double
        /// The shown name of the store, or "files".
        var store: String
        /// Nil for a file; its name is then escaped already.
        var storeID: String?
        var operation: String
        var name: String?
        var revision: UInt64?
        /// Whether it is an edit of the page.
        var isOwn = false
        /// Further changes that were found at the same time and are not listed.
        var omittedCount = 0
    }

    struct Page: Encodable, Sendable {
        /// The number of the last event.
        var last: Int
        var events: [Event]
    }

    private struct State {
        var events: [Event] = []
        var last = 0
    }

    private let state = Mutex(State())
    private static let limit = 2000

    /// The number of changes of one store that one poll lists.
    static let burst = 100

    func add(_ events: [Event]) {
        guard !events.isEmpty else { return }
        state.withLock { state in
            for var event in events {
                state.last += 1
                event.number = state.last
                state.events.append(event)
            }
            if state.events.count > 2 * Self.limit { state.events.removeFirst(state.events.count - Self.limit) }
        }
    }

    /// The events after a number.
    func events(after number: Int) -> Page {
        state.withLock { state in
            let new = state.events.drop { $0.number <= number }
            return Page(last: state.last, events: Array(new.suffix(Self.limit)))
        }
    }

    /// Waits until there is an event after a number, at most for a time; checks every 50 milliseconds.
    func events(after number: Int, waiting limit: Duration) async throws -> Page {
        let deadline = ContinuousClock.now + limit
        while true {
            let page = events(after: number)
            if page.last > number || ContinuousClock.now >= deadline { return page }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
