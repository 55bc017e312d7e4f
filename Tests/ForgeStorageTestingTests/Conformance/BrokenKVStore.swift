import ForgeCoding
import ForgeKVStore
import Foundation
import Synchronization

/// A key-value store with one defect, to test that the corresponding check fails.
final class BrokenKVStore: KVTransactionalStoring {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case containsEverything = "a key that was never set is absent"
        case forgets = "a value that was set can be read"
        case keepsTheFirst = "setting again replaces the value"
        case keepsTheType = "setting again can change the type"
        case removesNothing = "a removed key is absent"
        case buriesKeys = "a key can be set again after it was removed"
        case refusesToRemoveNothing = "removing an absent key succeeds"
        case removesAll = "removing a key keeps the others"
        case removesByType = "removing ignores the type"
        case keepsOne = "removeAll removes every key"
        case refusesToEmptyNothing = "removeAll of an empty store succeeds"
        case closesWhenEmptied = "a store can be filled again after removeAll"
        case nilIsAbsent = "a stored nil is not an absent key"
        case containsByType = "contains checks the name, not the type"
        case dropsUndecodable = "a value of another type reads as nil and is kept"
        case truncatesNumbers = "a number too large for the type reads as nil"
        case sharesObjects = "reading returns another object than the one that was set"
        case convertsOnReading = "reading as another type changes nothing"
        case refusesOtherTypes = "a value reads as another type as it does in memory, regardless of earlier reads"
        case sharesInnerObjects = "an object inside a value is not shared between readers"
        case rewritesMigrated =
            "a value of an earlier version is migrated when it is read, and the stored one is kept"
        case laterIsUndecodable = "a value of a later version is of a newer schema and is kept"
        case refusesOlderVersions = "set replaces a value of a later version or without a migration"
        case forgetsToReportAll =
            "a store that reports changes reports those of every call, removeAll included"
        case decodesUnderSharedLock = "a value may read the store while another thread waits to write"
        case ignoresVersions = "a value of a version without a migration is undecodable and is kept"
        case encodesUnderLock = "a value may read the store while it is encoded"
        case decodesUnderLock = "a value may read the store while it is decoded"
        case cutsLargeValues = "a value of 4 MiB round-trips"
        case swallowsUnencodable = "a value that cannot be encoded is refused and leaves the old one"
        case trimsNames = "every text is a distinct name"
        case losesLongNames = "a name may have 1,024 bytes"
        case cutsLongestNames = "names of 1,024 bytes that differ in the last one are different keys"
        case normalisesNames = "canonically equivalent names are different keys"
        case ignoresCase = "names that differ in case are different keys"
        case removesBelow = "a name that is a prefix of another is a distinct key"
        case cutsNames = "a name longer than 1,024 bytes is refused and changes nothing"
        case holdsHundred = "many keys keep distinct values"
        case losesAWrite = "writers of different keys do not interfere"
        case mixesValues = "of concurrent writers of one key one wins, and no reader sees a torn value"
        case blanks = "concurrent removals and writes of one key leave it present or absent"
        case readThrowsForAbsent = "read returns nil for an absent key and the value for a present one"
        case readIsGet = "read throws for a value of another type"
        case readFlattensNil = "read distinguishes a stored nil from an absent key"
        case readTakesAnyName = "read refuses a name that is too long"
        case leaks = "the error for a value that cannot be encoded does not show it"
        case listsTwice = "keys lists every name once"
        case listsNormalised = "keys(prefix:) compares bytes"
        case skipsEqual = "a value that equals the present one replaces it, if its encoding is another"
        case convertsRawOnReading = "a raw value is the same after it was read as any type"
        case listsRemoved = "keys omits removed keys"
        case reversesRawValues = "a raw value decodes to the value that was set"
        case refusesCopies = "a raw value can be stored under another name"
        case dropsNonsense = "a raw value that is not a valid encoding is undecodable and is kept"
        case emptyIsAbsent = "an empty raw value is present"
        case cachesForEver = "setting a raw value replaces a value that was read before"
        case keepsNamed = "removeValue removes a key by its name"
        case rawTakesAnyName = "raw values refuse a name that is too long"
        case reversesEntries = "an entry is the raw value with a revision"
        case countsToThree = "revisions increase with every write of any key"
        case countsReads = "reading does not change revisions"
        case entryTakesAnyName = "entry refuses a name that is too long"
        case ignoresRevisions = "compareAndSet stores only if the revision is the expected one"
        case acceptsNewerRevisions = "compareAndSet refuses every revision but the present one"
        case rollsRevisionsBack =
            "no revision from before a removal matches again, whichever call has removed the value"
        case checksTheLastOfAName = "of two requirements of one name both count"
        case checksOneRequirement = "every requirement of a batch counts, whichever of them does not hold"
        case removesBelowInBatches = "a removal in a batch removes one name, and what the batch has set before"
        case showsRemovedInSnapshots = "a snapshot omits removed names"
        case removesNamedBelow = "removeValue keeps names that begin with the removed one, in either case"
        case createsAlways = "createIfAbsent creates once, and a stored nil counts as present"
        case entryThrowsForAbsent = "versioned returns the value and its revision"
        case updatesOnly = "an update starts from the default and returns the stored value"
        case keepsWhatIsRequired = "updateIfPresent and removeIfPresent change a present key, and only that"
        case losesAnUpdate = "no update by 4 threads is lost"
        case letsEverybodyCreate = "exactly one of 4 threads that create one key succeeds"
        case reversesBatches = "a batch applies its changes in order"
        case sortsBatches = "revisions in a batch increase in order"
        case emptiesForNothing = "a batch without changes does nothing"
        case changesBeforeItLooks = "a batch whose requirement does not hold is a conflict and changes nothing"
        case looksForChangesOnly = "requirements are checked even without changes"
        case changesOneByOne = "a batch with a name that is too long changes nothing"
        case namesAnotherCall = "an error of a batch has the operation batch and the name that it concerns"
        case checksOutsideOfTheLock = "of concurrent batches that require one revision, exactly one is applied"
        case forgetsWhatIsDurable = "making writes durable does not change them"
        case normalisesSnapshots = "a snapshot contains every name with its entry"
        case emptiesLongValues = "a snapshot contains values of every size, also once they are replaced"
        case lags = "a snapshot is unaffected by later writes"
        case mixesEntries = "an entry that is read while it is replaced has bytes and revision of one write"
        case mixesMoments = "a snapshot contains a whole batch or nothing of it"
    }

    struct Memory {
        var names: Set<String> = []
        var buried: Set<String> = []
        var types: [String: ObjectIdentifier] = [:]
        var objects: [String: any Sendable] = [:]
        var isClosed = false
        var reads: UInt64 = 0
        var commits = 0
        var snapshot = KVSnapshot([])
        var firstOfA: KVEntry?
        var lastRead: KVEntry?
        /// The revisions that names had when they were removed.
        var rolledBack: [String: UInt64] = [:]
        var removed: [String: KVEntry] = [:]
    }

    let defect: Defect?
    private let lostPrefix: String?
    let base = InMemoryKVStore()
    let memory = Mutex(Memory())
    /// What subscribers learn of.
    private let reported = InMemoryKVStore()
    private let lock = NSLock()
    private let sharedLock = NSCondition()
    private let users = Mutex((readers: 0, writers: 0))

    /// A store with a defect or, as the control, without any.
    init(_ defect: Defect?) {
        self.defect = defect
        lostPrefix = nil
    }

    /// A store that loses values whose names have a prefix.
    init(losing prefix: String) {
        defect = nil
        lostPrefix = prefix
    }

    private func mapped<T>(_ key: KVKey<T>) -> KVKey<T> {
        let name = mapped(key.name)
        // A new key has no migrations.
        return Array(name.utf8) == Array(key.name.utf8) ? key : KVKey(name)
    }

    func mapped(_ name: String) -> String {
        switch defect {
        case .trimsNames: name.trimmingCharacters(in: .whitespaces)
        case .normalisesNames: name.precomposedStringWithCanonicalMapping
        case .ignoresCase: name.lowercased()
        case .cutsNames: String(name.prefix(512))
        case .cutsLongestNames where name.utf8.count == 1024: String(name.dropLast())
        case .rawTakesAnyName: String(name.prefix(1000))
        default: name
        }
    }

    // MARK: The five calls

    func get<T>(_ key: KVKey<T>) -> T? {
        lock.lock()
        if defect != .decodesUnderLock { lock.unlock() }
        defer { if defect == .decodesUnderLock { lock.unlock() } }
        if defect == .decodesUnderSharedLock { lockShared() }
        defer { if defect == .decodesUnderSharedLock { unlockShared() } }
        if let lostPrefix, key.name.hasPrefix(lostPrefix) { return nil }
        if defect == .sharesObjects || defect == .cachesForEver || defect == .sharesInnerObjects,
            let object = memory.withLock({ $0.objects[key.name] }) as? T
        {
            return object
        }
        if defect == .refusesOtherTypes, T.self == Float.self { return nil }
        if defect == .ignoresVersions, let value = valueOfAnyVersion(key) { return value }
        let value = base.get(mapped(key))
        if defect == .rewritesMigrated, !key.migratedVersions.isEmpty, let value {
            discard { try base.set(key, value: value) }
        }
        let convertsThis = key.name.hasPrefix("raw ") ? Defect.convertsRawOnReading : .convertsOnReading
        if defect == convertsThis, let number = value as? Float {
            discard { try base.set(KVKey(key.name), value: number) }
        }
        if defect == .countsReads { memory.withLock { $0.reads += 1 } }
        if value == nil {
            if defect == .truncatesNumbers, T.self == UInt8.self, let number = base.get(KVKey<Int>(key.name)) {
                return UInt8(truncatingIfNeeded: number) as? T
            }
            if defect == .dropsUndecodable { discard { try base.removeValue(named: key.name) } }
        }
        if defect == .cachesForEver || defect == .sharesInnerObjects, let value {
            memory.withLock { $0.objects[key.name] = value }
        }
        return value
    }

    /// The value of a version that a key with migrations does not know.
    private func valueOfAnyVersion<T>(_ key: KVKey<T>) -> T? {
        guard !key.migratedVersions.isEmpty, base.get(key) == nil else { return nil }
        return base.get(KVKey(key.name, migrations: [.from(1) { (old: T) in old }]))
    }

    private func equals<Value: Equatable>(_ old: Any?, _ new: Value) -> Bool { old as? Value == new }

    func set<T>(_ key: KVKey<T>, value: T) throws {
        if defect == .encodesUnderLock { lock.lock() }
        defer { if defect == .encodesUnderLock { lock.unlock() } }
        guard try !swallows(key, value) else { return }
        if defect == .skipsEqual, let value = value as? any Equatable, equals(base.get(key), value) {
            return
        }
        if defect == .refusesOlderVersions {
            do {
                _ = try base.read(key)
            } catch let error as KVStoreError where error.code.newerVersion == nil {}
        }
        if defect == .decodesUnderSharedLock { return try writingAlone { try base.set(key, value: value) } }
        if defect == .cutsLargeValues, let data = value as? Data, data.count > 1 << 20 {
            return try base.set(KVKey<Data>(key.name), value: data.prefix(1 << 20))
        }
        if defect == .mixesValues, var numbers = value as? [Int], numbers.count == 100 {
            numbers[99] += 1
            return try base.set(KVKey<[Int]>(key.name), value: numbers)
        }
        do {
            try base.set(mapped(key), value: value)
        } catch let error as KVStoreError where error.code == .unencodable {
            if defect == .swallowsUnencodable { return }
            guard defect == .leaks else { throw error }
            throw KVStoreError(.unencodable, .set, key: key.name, detail: "cannot encode \(value)")
        }
        if defect == .forgetsToReportAll { try reported.set(key, value: value) }
        memory.withLock { memory in
            memory.names.insert(key.name)
            if defect == .sharesObjects, type(of: value) is AnyObject.Type { memory.objects[key.name] = value }
        }
    }

    /// Whether a value is not to be stored.
    private func swallows<T>(_ key: KVKey<T>, _ value: T) throws -> Bool {
        switch defect {
        case .forgets: return true
        case .keepsTheFirst: return base.contains(key)
        case .keepsTheType:
            let type = ObjectIdentifier(T.self)
            return memory.withLock { memory in
                defer { memory.types[key.name] = memory.types[key.name] ?? type }
                return memory.types[key.name].map { $0 != type } ?? false
            }
        case .buriesKeys: return memory.withLock { $0.buried.contains(key.name) }
        case .closesWhenEmptied: return memory.withLock { $0.isClosed }
        case .nilIsAbsent:
            guard let optional = value as? Int?, optional == nil, T.self == Int?.self else { return false }
            try base.remove(key)
            return true
        case .holdsHundred: return memory.withLock { $0.names.count >= 100 && !$0.names.contains(key.name) }
        case .losesAWrite: return key.name == "3.7"
        case .losesLongNames: return key.name.utf8.count > 1000
        default: return false
        }
    }

    func remove<T>(_ key: KVKey<T>) throws {
        switch defect {
        case .removesNothing: return
        case .refusesToRemoveNothing where !base.contains(key):
            throw KVStoreError(.damaged, .remove, key: key.name)
        case .removesAll: return try base.removeAll()
        case .removesByType where base.get(key) == nil: return
        case .removesBelow:
            for name in try base.keys() where name.hasPrefix(key.name) { try base.removeValue(named: name) }
        case .blanks: try base.set(KVKey<String>(key.name), value: "")
        default:
            // Looking for its entry would refuse the name as another call.
            guard key.name.utf8.count <= 1024 else { return try base.remove(key) }
            let entry = try base.entry(named: mapped(key.name))
            memory.withLock { memory in
                memory.buried.insert(key.name)
                memory.objects[key.name] = nil
                memory.removed[key.name] = entry
                if defect == .rollsRevisionsBack { memory.rolledBack[key.name] = entry?.revision }
            }
            try base.remove(mapped(key))
            try reported.remove(key)
        }
    }

    func subscribe(to scope: KVScope) -> KVChanges? {
        defect == .forgetsToReportAll ? reported.subscribe(to: scope) : nil
    }

    func contains<T>(_ key: KVKey<T>) -> Bool {
        switch defect {
        case .containsEverything: true
        case .containsByType: base.get(key) != nil
        default: base.contains(mapped(key))
        }
    }

    func removeAll() throws {
        let names = try base.keys()
        if defect == .refusesToEmptyNothing, names.isEmpty { throw KVStoreError(.damaged, .removeAll) }
        guard defect == .keepsOne else {
            memory.withLock { $0.isClosed = true }
            return try base.removeAll()
        }
        for name in names.dropFirst() { try base.removeValue(named: name) }
    }

    // MARK: A lock of many readers, in which a writer that waits goes before new readers

    private func lockShared() {
        sharedLock.lock()
        while users.withLock({ $0.writers > 0 }) { sharedLock.wait() }
        users.withLock { $0.readers += 1 }
        sharedLock.unlock()
    }

    private func unlockShared() {
        sharedLock.lock()
        users.withLock { $0.readers -= 1 }
        sharedLock.broadcast()
        sharedLock.unlock()
    }

    private func writingAlone(_ body: () throws -> Void) rethrows {
        sharedLock.lock()
        users.withLock { $0.writers += 1 }
        while users.withLock({ $0.readers > 0 }) { sharedLock.wait() }
        defer {
            users.withLock { $0.writers -= 1 }
            sharedLock.broadcast()
            sharedLock.unlock()
        }
        try body()
    }

    // MARK: Reads that throw, and raw values

    func read<T>(_ key: KVKey<T>) throws -> T? {
        switch defect {
        case .readThrowsForAbsent where !base.contains(key): throw KVStoreError(.damaged, .read, key: key.name)
        case .readIsGet: return base.get(key)
        case .readFlattensNil:
            guard let value = try base.read(key) else { return nil }
            if let optional = value as? String?, optional == nil { return nil }
            return value
        case .ignoresVersions where valueOfAnyVersion(key) != nil: return valueOfAnyVersion(key)
        case .laterIsUndecodable:
            do {
                return try base.read(key)
            } catch let error as KVStoreError where error.code.newerVersion != nil {
                throw KVStoreError(.undecodable, .read, key: key.name)
            }
        case .readTakesAnyName where key.name.utf8.count > 1024: return nil
        default: return try base.read(mapped(key))
        }
    }

    func keys() throws -> [String] {
        switch defect {
        case .listsTwice: try base.keys() + base.keys().prefix(1)
        case .listsRemoved: memory.withLock { Array($0.names) }
        case .listsNormalised: try base.keys().map(\.precomposedStringWithCanonicalMapping)
        default: try base.keys()
        }
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        let bytes = try base.rawValue(named: mapped(name))
        if defect == .emptyIsAbsent, bytes?.isEmpty == true { return nil }
        return defect == .reversesRawValues ? bytes?.reversed() : bytes
    }

    func setRawValue(_ bytes: [UInt8], named name: String) throws {
        if defect == .refusesCopies, name.hasPrefix("copy") { return }
        if defect == .dropsNonsense, bytes.first == 0xFF { return }
        try base.setRawValue(bytes, named: mapped(name))
    }

    func removeValue(named name: String) throws {
        if defect == .removesNamedBelow {
            for other in try base.keys() where other.hasPrefix(name) { try base.removeValue(named: other) }
        }
        if defect != .keepsNamed { try base.removeValue(named: mapped(name)) }
    }

    private func discard(_ body: () throws -> Void) {
        do { try body() } catch {}
    }
}
