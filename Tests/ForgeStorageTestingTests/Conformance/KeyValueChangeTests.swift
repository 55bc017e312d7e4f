import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
import Testing

@Suite("The checks of the changes of a key-value store")
struct KeyValueChangeTests {
    private static let checks = ConformanceChecks.keyValueStoreChanges

    @Test("pass for a store in memory, and for one with a mechanism of its own", arguments: checks)
    func sound(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: InMemoryKVStore())
        try await check.run(on: MisreportingKVStore(nil))
    }

    @Test("each detect their defects, and no other check does", arguments: MisreportingKVStore.Defect.allCases)
    func defects(_ defect: MisreportingKVStore.Defect) async {
        let turn = MisreportingKVStore.Defect.allCases.firstIndex(of: defect) ?? 0
        let checks = TestDepth.checks(Self.checks, turn: turn) { $0.description == defect.check }
        let report = await Waiting.$limit.withValue(.seconds(2)) {
            await ConformanceSuite("changes", checks).run(on: "\(defect)") { MisreportingKVStore(defect) }
        }
        let failed = report.violations.map(\.check)
        #expect(defect.isGeneral ? failed.contains(defect.check) : failed == [defect.check], "\(report)")
    }

    @Test("have a defect each that no other check detects, and refuse a store that reports nothing")
    func completeness() async {
        let planted = MisreportingKVStore.Defect.allCases.filter { !$0.isGeneral }.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
        let report = await ConformanceSuite.keyValueStoreChanges.run(on: "silent") {
            MisreportingKVStore(nil, isSilent: true)
        }
        #expect(report.violations.count == Self.checks.count, "\(report)")
    }

    @Test("each fail if the changes of one subscription end at once", arguments: checks)
    func ends(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        var failed: [Int] = []
        for number in 0..<4 {
            do {
                try await check.run(on: MisreportingKVStore(nil, endedSubscription: number))
            } catch let violation as ConformanceViolation {
                #expect(violation.description.hasPrefix(check.description + ": "))
                failed.append(number)
            }
        }
        #expect(failed.first == 0, "\(failed)")
    }

    @Test("name the call whose change does not arrive")
    func messages() async throws {
        let call = #"nextSet() of key("a", limit: 128), which waited during removeAll(): expected changes, got none"#
        let report = await Waiting.$limit.withValue(.seconds(2)) {
            await ConformanceSuite("changes", Self.checks.filter { $0.description.contains("waits receives") }).run(
                on: "silent after removeAll"
            ) {
                MisreportingKVStore(.forgetsToWakeAfterRemoveAll)
            }
        }
        #expect("\(report)".contains(call), "\(report)")
    }
}

/// A store that reports its changes by a mechanism of its own, with one defect or, as the control, without any.
final class MisreportingKVStore: KVLayer, KVTransactionalStoring {
    enum Defect: CaseIterable, Sendable {
        case beginsLate, omitsAbsence, numbersNothing, repeatsEqualBytes, sharesSubscriptions, takesTheFirstOfABatch
        case comparesCharacters, reportsRefusedBatches, reportsAbsentNames, reportsOneOfAll
        case forgetsToWakeAfterSet, forgetsToWakeAfterRemove, forgetsToWakeAfterRemovingBatch,
            forgetsToWakeAfterRemoveAll
        case ignoresCancellation, keepsTheOldest, keepsTheNewest, keepsEverything
        case splitsBatches, readsBeforeItSubscribes, reportsEarly, reportsOutsideOfTheLock
        case repeatsWhatWasDelivered, refusesLongKeys, countsWhatWasDelivered, keepsTheFirstOfAName
        case numbersBatchesAlike

        /// The check that must fail.
        var check: String {
            switch self {
            case .beginsLate, .omitsAbsence, .numbersNothing, .repeatsEqualBytes, .sharesSubscriptions,
                .takesTheFirstOfABatch, .repeatsWhatWasDelivered, .refusesLongKeys:
                "the changes of a key begin with its entry or its absence, and are those of its bytes in order"
            case .comparesCharacters: "the changes of a key or a prefix are those of the names with its bytes"
            case .reportsRefusedBatches, .reportsAbsentNames: "a call that changes nothing is not reported"
            case .reportsOneOfAll: "removeAll is reported for every name, or by a notice to read again"
            case .forgetsToWakeAfterSet, .forgetsToWakeAfterRemove, .forgetsToWakeAfterRemovingBatch,
                .forgetsToWakeAfterRemoveAll:
                "a consumer that waits receives the change of every call"
            case .ignoresCancellation: "the changes end when the consuming task is cancelled"
            case .keepsTheOldest, .keepsTheNewest, .keepsEverything, .countsWhatWasDelivered:
                "beyond the limit of a key the first changes are kept, and the last one arrives"
            case .keepsTheFirstOfAName:
                "who follows a prefix, and reads again at a notice, has the content of the store"
            case .splitsBatches, .numbersBatchesAlike: "the changes of a batch are reported together"
            case .readsBeforeItSubscribes: "no write is missed while a consumer subscribes"
            case .reportsEarly, .reportsOutsideOfTheLock:
                "beside four writers, changes are reported in the order of the writes, when they are visible"
            }
        }

        /// Whether other checks may fail too.
        var isGeneral: Bool {
            switch self {
            case .beginsLate, .numbersNothing, .keepsTheNewest, .reportsEarly: true
            default: false
            }
        }
    }

    private typealias Change = (name: String, entry: KVEntry?)

    let base = InMemoryKVStore()
    private let defect: Defect?
    private let isSilent: Bool
    private let endedSubscription: Int?
    private let subscriptionCount = Mutex(0)
    private let turn = NSLock()
    private let subscribers = Mutex<[WeakSubscriber]>([])

    init(_ defect: Defect?, isSilent: Bool = false, endedSubscription: Int? = nil) {
        self.defect = defect
        self.isSilent = isSilent
        self.endedSubscription = endedSubscription
    }

    // MARK: Writing

    /// Makes a change, reports it, and wakes the subscribers.
    private func write(
        _ names: [String], wakes: Bool = true, reportsAbsent: Bool = false, _ body: () throws -> Void
    ) throws {
        turn.lock()
        var isLocked = true
        defer { if isLocked { turn.unlock() } }
        var before: [String: KVEntry] = [:]
        for name in names { before[name] = try base.entry(named: name) }
        do {
            try body()
        } catch let error as KVStoreError where error.code == .conflict && defect == .reportsRefusedBatches {
            report(names.map { (name: $0, entry: before[$0]) }, wakes: wakes, onlyPrefixes: true)
            throw error
        }
        var changes: [Change] = []
        for name in names {
            let entry = try base.entry(named: name)
            if entry == nil, before[name] == nil, !reportsAbsent, defect != .reportsAbsentNames { continue }
            changes.append((name: name, entry: entry))
        }
        if defect == .numbersBatchesAlike, let last = changes.compactMap({ $0.entry?.revision }).max() {
            changes = changes.map { name, entry in (name, entry.map { KVEntry(bytes: $0.bytes, revision: last) }) }
        }
        if defect == .reportsOutsideOfTheLock {
            turn.unlock()
            isLocked = false
            passTime()
        }
        report(changes, wakes: wakes)
    }

    private func report(_ changes: [Change], wakes: Bool, onlyPrefixes: Bool = false) {
        guard !changes.isEmpty else { return }
        for subscriber in subscribers.withLock({ $0.compactMap(\.subscriber) }) {
            guard !onlyPrefixes || subscriber.isOfPrefix else { continue }
            if defect == .splitsBatches, subscriber.isOfPrefix {
                for change in changes { subscriber.add([change]) }
            } else {
                subscriber.add(changes)
            }
            if wakes { subscriber.wake() }
        }
    }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        try write([key.name], wakes: defect != .forgetsToWakeAfterSet) { try base.set(key, value: value) }
    }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        guard defect == .reportsEarly else {
            return try write([name]) { try base.setRawValue(bytes, named: name) }
        }
        try turn.withLock {
            let revision = (try base.entry(named: name)?.revision ?? 0) + 1
            report([(name, KVEntry(bytes: bytes, revision: revision))], wakes: true)
            passTime()
            try base.setRawValue(bytes, named: name)
        }
    }

    func remove<T>(_ key: KVKey<T>) throws {
        try write([key.name], wakes: defect != .forgetsToWakeAfterRemove) { try base.remove(key) }
    }

    func removeValue(named name: String) throws { try write([name]) { try base.removeValue(named: name) } }

    func removeAll() throws {
        try turn.withLock {
            let names = try base.keys().sorted()
            try base.removeAll()
            let reported = defect == .reportsOneOfAll ? Array(names.prefix(1)) : names
            report(reported.map { ($0, nil) }, wakes: defect != .forgetsToWakeAfterRemoveAll)
        }
    }

    func commit(_ batch: KVBatch) throws {
        let isRemoval = batch.changes.allSatisfy { if case .remove = $0 { true } else { false } }
        var names = batch.changes.map(\.name)
        guard defect == .takesTheFirstOfABatch, names.count > 1 else {
            // The last state of each name, in the order of their first changes.
            var found: Set<[UInt8]> = []
            names = names.filter { found.insert(Array($0.utf8)).inserted }
            return try write(names, wakes: !isRemoval || defect != .forgetsToWakeAfterRemovingBatch) {
                try base.commit(batch)
            }
        }
        try turn.withLock {
            try base.commit(batch)
            let first = try batch.changes.map { change -> Change in
                guard case .set(let name, let bytes) = change else { return (change.name, nil) }
                return (name, KVEntry(bytes: bytes, revision: try base.entry(named: name)?.revision ?? 1))
            }
            var found: Set<String> = []
            report(first.filter { found.insert($0.name).inserted }, wakes: true)
        }
    }

    // MARK: Subscribing

    func subscribe(to scope: KVScope) -> KVChanges? {
        guard !isSilent else { return nil }
        let number = subscriptionCount.withLock { count in
            defer { count += 1 }
            return count
        }
        var isEnded = number == endedSubscription
        if defect == .refusesLongKeys, case .key(let name, _) = scope { isEnded = name.utf8.count > 1024 }
        if isEnded { return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in nil } }
        let subscriber: Subscriber
        if defect == .readsBeforeItSubscribes, case .key(let name, _) = scope {
            subscriber = Subscriber(scope, defect)
            subscriber.begin(with: entry(name), of: name)
            passTime()
            subscribers.withLock { $0.append(WeakSubscriber(subscriber)) }
        } else {
            subscriber = turn.withLock {
                if defect == .sharesSubscriptions, let other = other(of: scope) { return other }
                let subscriber = Subscriber(scope, defect)
                if case .key(let name, _) = scope { subscriber.begin(with: entry(name), of: name) }
                subscribers.withLock { $0.append(WeakSubscriber(subscriber)) }
                return subscriber
            }
        }
        return subscriber.changes(ignoringCancellation: defect == .ignoresCancellation)
    }

    private func entry(_ name: String) -> KVEntry? {
        do { return try base.entry(named: name) } catch { return nil }
    }

    private func other(of scope: KVScope) -> Subscriber? {
        subscribers.withLock {
            $0.lazy.compactMap(\.subscriber).first { "\($0.scope)".utf8.elementsEqual("\(scope)".utf8) }
        }
    }
}

private struct WeakSubscriber {
    weak var subscriber: Subscriber?

    init(_ subscriber: Subscriber) { self.subscriber = subscriber }
}

/// The undelivered changes of a subscription.
private final class Subscriber: Sendable {
    private struct State {
        var sets: [KVChangeSet] = []
        var deliveredBytes: [UInt8]??
        var deliveredCount = 0
    }

    let scope: KVScope
    let isOfPrefix: Bool
    private let defect: MisreportingKVStore.Defect?
    private let limit: Int
    private let state = Mutex(State())
    private let ticks: AsyncStream<Void>
    private let tick: AsyncStream<Void>.Continuation

    init(_ scope: KVScope, _ defect: MisreportingKVStore.Defect?) {
        self.scope = scope
        self.defect = defect
        switch scope {
        case .key(_, let limit): (isOfPrefix, self.limit) = (false, defect == .keepsEverything ? .max : limit)
        case .prefix: (isOfPrefix, limit) = (true, .max)
        }
        (ticks, tick) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    private func contains(_ name: String) -> Bool {
        switch (scope, defect) {
        case (.key(let key, _), .comparesCharacters): key == name
        case (.prefix(let prefix), .comparesCharacters): name.hasPrefix(prefix)
        case (.key(let key, _), _): key.utf8.elementsEqual(name.utf8)
        case (.prefix(let prefix), _): name.utf8.starts(with: prefix.utf8)
        }
    }

    func begin(with entry: KVEntry?, of name: String) {
        if defect == .beginsLate || defect == .omitsAbsence && entry == nil { return }
        add([(name, entry)])
    }

    func add(_ changes: [(name: String, entry: KVEntry?)]) {
        let reported = changes.filter { contains($0.name) }.map { name, entry in
            let entry = entry.map { KVEntry(bytes: $0.bytes, revision: defect == .numbersNothing ? 0 : $0.revision) }
            return KVChange.changed(name: name, entry: entry, revision: nil)
        }
        guard !reported.isEmpty else { return }
        state.withLock { state in
            let last = state.sets.last.map { Optional.some($0.bytes) } ?? state.deliveredBytes
            if !isOfPrefix, defect != .repeatsEqualBytes, last == .some(KVChangeSet(reported).bytes) { return }
            if isOfPrefix, defect == .keepsTheFirstOfAName, let name = KVChangeSet(reported).onlyName,
                state.sets.last?.onlyName == name
            {
                return
            }
            let delivered = defect == .countsWhatWasDelivered ? state.deliveredCount : 0
            if state.sets.count >= max(limit, 1) - delivered, !state.sets.isEmpty {
                switch defect {
                case .keepsTheOldest: return
                case .keepsTheNewest: state.sets.removeFirst()
                default: state.sets.removeLast()
                }
            }
            state.sets.append(KVChangeSet(reported))
        }
    }

    func wake() { tick.yield() }

    private func take() -> KVChangeSet? {
        state.withLock { state in
            guard !state.sets.isEmpty else { return nil }
            let set = state.sets.removeFirst()
            state.deliveredBytes = defect == .repeatsWhatWasDelivered ? nil : .some(set.bytes)
            state.deliveredCount += 1
            return set
        }
    }

    func changes(ignoringCancellation: Bool) -> KVChanges {
        KVChanges { [self] () async throws(KVStoreError) -> KVChangeSet? in
            while ignoringCancellation || !Task.isCancelled {
                if let set = take() { return set }
                if ignoringCancellation {
                    await Task { [ticks] in for await _ in ticks { return } }.value
                } else {
                    var iterator = ticks.makeAsyncIterator()
                    _ = await iterator.next()
                }
            }
            return nil
        }
    }
}

extension KVChangeSet {
    /// The bytes of the only change.
    fileprivate var bytes: [UInt8]? {
        guard case .changed(_, let entry, _)? = changes.last else { return nil }
        return entry?.bytes
    }

    /// The name of the only change; nil if there are several.
    fileprivate var onlyName: String? {
        guard changes.count == 1, case .changed(let name, _, _) = changes[0] else { return nil }
        return name
    }
}
