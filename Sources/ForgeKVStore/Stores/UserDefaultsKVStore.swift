import ForgeCoding
import ForgeFileSystem
import Foundation
import Logging
import Synchronization

/// A key-value store over Foundation's `UserDefaults`: an app's settings, or those of a suite.
///
/// Every write reaches the preferences file before the call returns, also on Linux, where Foundation alone does not
/// store changes; that takes about a millisecond there. A power cut may undo it. If the file cannot be written, the
/// call throws, and this process keeps the old value.
///
/// Numbers, `Bool`, `String`, `Data`, `Date`, and arrays and dictionaries of them, are stored as property list objects,
/// readable by other code, as far as a property list keeps them exactly; such objects stored by other code can be read
/// too, a number as `Bool` and a Boolean as a number as by `bool(forKey:)` and `integer(forKey:)`. Other values are
/// stored as data: the eight bytes `ForgeKV` and 1, then the value as encoded by `ForgeCoding`.
///
/// Names of printable ASCII are stored unchanged; others as `#forge:` and their bytes, percent-encoded. An object that
/// other code has stored under another name unchanged is found too; a write replaces it.
///
/// A value that cannot be decoded as the type that replaces it is kept in the same suite under a name that begins with
/// `#forge-set-aside:`; ``setAside()`` lists such values. Calls of this store neither find nor remove them.
///
/// **On Linux**, Foundation rewrites the file of a suite in place without a lock: a kill or a full device during a
/// write, or a second writing process, can lose the whole suite. Use this store there to move values into a
/// ``FileKVStore``, not to keep them. A file that cannot be read is left unchanged, and every call throws `.damaged`.
///
/// **On Apple's platforms**, the system silently stores no change of a suite of 4 MiB or more (watchOS: 1 MiB, tvOS: 1
/// MB). A write after which the suite would be that large throws `.storeTooLarge` and changes nothing; one that makes a
/// larger suite smaller, but not small enough, is made and throws `.durabilityUnknown`. Each write therefore measures
/// the suite: its time grows with the suite's size.
///
/// Before the first unlock after a start of an iPhone or Watch, when a prewarmed app may run, user defaults appear to be
/// empty. A suite that this store has written before is recognised (by the key `#forge-readable` in it, and an empty
/// file in Application Support): every throwing call then throws `.unavailable(.locked)`, `get` returns nil, and
/// `contains` returns false and logs the error.
///
/// ``get(_:)`` also finds registered defaults and, on Apple platforms, global ones.
///
/// Foundation calls observers of user defaults while this store changes them, on the same thread, and waits for them. They
/// may use the store, but must not wait for another thread that uses it, because that one waits for the change. So do not
/// observe with an `OperationQueue`, such as `.main`: Foundation would wait for a thread that may just be reading a
/// setting. An observer that uses a store of another suite, or a layer that serialises its calls, such as
/// ``ExpiringKVStore`` and ``MigratingKVStore``, waits for the thread that is using it. Streams have none of these limits.
///
/// Streams report each write by an object of this type in this process. While there is a stream, the notification
/// `UserDefaults.didChangeNotification` makes the store look for changes by other code: it reports the present value of
/// each changed key soon afterwards. On Apple's platforms Foundation posts it after every change by this process; on
/// Linux only after a domain was set or removed as a whole, so code that calls `set(_:forKey:)` there should post it.
///
/// On Apple's platforms, key-value observing also announces changes by other processes: of the keys that have a stream of
/// their own and, while there is a stream of a prefix, such as that of ``ObservedSettings``, of those that existed when it
/// began or last found a change. It cannot announce a key that contains a dot or begins with `@`. A key stays observed
/// until the process ends. Changes by other processes that are not announced, on Linux all, are reported with the next
/// ones that are, if this process can read them.
public final class UserDefaultsKVStore: KVRawStoring {
    private let defaults: GuardedDefaults
    let domain: String
    private let store: String

    private let suite: UserDefaultsSuite

    /// The changes by all objects of this process over the suite, and those by other code that were found.
    private var changes: ChangeHub { suite.changes }

    /// Checked when not all files could be written: Foundation on Linux writes the files of all suites together, and a
    /// failure of another suite's file must not fail this one.
    private let file: UserDefaultsFile

    private let platform: UserDefaultsPlatform
    private let valueLimit: Int
    private let marker: (any UserDefaultsMarker)?

    /// Whether the suite was found readable: it stays so until the device restarts, which ends the process.
    private let isKnownReadable = Atomic(false)
    private let hasMarker = Atomic(false)

    /// Creates a store over the suite of this name; nil for the app's own settings.
    ///
    /// A suite's name is a file name, so a name that is empty, `.` or `..`, contains a slash or a NUL, or is longer
    /// than 200 bytes, is refused, and so are `NSGlobalDomain` and a name that begins with a byte order mark, which
    /// Foundation leaves out: every throwing call then throws `.noStore`.
    public convenience init(suiteName: String?) {
        self.init(suiteName: suiteName, on: .current) { domain, isOwn in
            if isOwn { return UserDefaults() }
            return Self.isUsable(domain) ? UserDefaults(suiteName: domain) : nil
        }
    }

    /// Creates a store over the object that `defaults` returns for a suite.
    init(
        suiteName: String?, on platform: UserDefaultsPlatform,
        maximumValueSizeInBytes valueLimit: Int = FileKVStore.Options().maximumValueSizeInBytes,
        defaults: (_ suite: String, _ isOwn: Bool) -> sending UserDefaults?
    ) {
        let own = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        domain = suiteName ?? own
        store = suiteName ?? "standard"
        file = UserDefaultsFile(ofSuite: domain)
        suite = UserDefaultsSuite.named(domain)
        self.platform = platform
        self.valueLimit = valueLimit
        marker = Self.isUsable(domain) ? platform.marker?(domain) : nil
        self.defaults = GuardedDefaults(defaults(domain, suiteName == nil || suiteName == own), suite.lock)
    }

    private static func isUsable(_ suite: String) -> Bool {
        !suite.isEmpty && suite.utf8.count <= 200 && suite != "." && suite != ".." && suite != "NSGlobalDomain"
            && !suite.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 } && !suite.hasBytePrefix("\u{FEFF}")
    }

    public func get<T>(_ key: KVKey<T>) -> T? {
        do {
            return try value(of: key, .get)
        } catch {
            return nil
        }
    }

    public func read<T>(_ key: KVKey<T>) throws -> T? {
        try value(of: key, .read)
    }

    private func value<T>(of key: KVKey<T>, _ operation: KVStoreError.Operation) throws(KVStoreError) -> T? {
        guard let stored = try encodings(of: key.identity, operation) else { return nil }
        do {
            return try ValueTable.decode(stored.bytes, as: key)
        } catch {
            guard let converted = stored.converted else {
                throw KVStoreError(decoding: error, operation, key: key.name, store: store)
            }
            do {
                return try ValueTable.decode(converted, as: key)
            } catch _ {
                throw KVStoreError(decoding: error, operation, key: key.name, store: store)
            }
        }
    }

    public func set<T>(_ key: KVKey<T>, value: T) throws {
        let encoded = try ValueTable.encoded(
            value, key.identity, version: key.schemaVersion, maximumSize: valueLimit, store: store)
        let bytes = encoded.array
        let isDictionary = value is [String: any Sendable]
        try write(key.identity, .set, isReadable: { OverwritePolicy.isReadable($0, as: key) }) {
            PropertyListValue.object(for: bytes, isDictionary: isDictionary)
        }
    }

    public func remove<T>(_ key: KVKey<T>) throws {
        try write(key.identity, .remove) { nil }
    }

    public func contains<T>(_ key: KVKey<T>) -> Bool {
        do {
            return try using(.contains, key.name) { stored(key.name, in: $0) != nil }
        } catch {
            if error.code == .unavailable(.locked) { Logger(label: "ForgeKVStore").warning("\(error)") }
            return false
        }
    }

    /// Removes every key of this suite, including those of other programs; other suites, global settings and values set
    /// aside are kept.
    public func removeAll() throws {
        try using(.removeAll, nil) { (defaults) throws(KVStoreError) in
            // Except on Darwin, the domain lacks values that other code has set since the last `synchronize`.
            defaults.synchronize()
            let old = defaults.persistentDomain(forName: domain)
            defaults.removePersistentDomain(forName: domain)
            let kept = old?.filter { UserDefaultsName.isOwn($0.key) } ?? [:]
            // One by one: what an observer has stored since the removal stays.
            for (name, object) in kept { defaults.set(object, forKey: name) }
            guard !defaults.synchronize(), file.content?.count != kept.count else {
                // An observer may have stored values again, and other domains may have some.
                changes.appendAll { name in present(name, in: defaults) }
                guard let observer = suite.observer, let reported = observer.reported else { return }
                observer.reported = values(alsoOf: reported, in: defaults)
                return
            }
            if let old { defaults.setPersistentDomain(old, forName: domain) }
            throw KVStoreError(.unavailable(.inputOutput), .removeAll, store: store)
        }
        changes.wake()
    }

    public func keys() throws -> [String] {
        try using(.keys, nil) { (defaults) throws(KVStoreError) in
            defaults.synchronize()  // As for `removeAll`.
            let names = (defaults.persistentDomain(forName: domain) ?? [:]).keys
                .filter { !UserDefaultsName.isOwn($0) }.map { KeyName(UserDefaultsName.decoded($0)) }
            return Set(names).map(\.string)
        }
    }

    public func rawValue(named name: String) throws -> [UInt8]? {
        try encodings(of: KeyName(name), .read)?.bytes
    }

    public func setRawValue(_ bytes: [UInt8], named name: String) throws {
        let identity = KeyName(name)
        try identity.validate(.set, in: store)
        guard bytes.count <= valueLimit else { throw KVStoreError(.valueTooLarge, .set, key: name, store: store) }
        try write(identity, .set) { PropertyListValue.exactObject(for: bytes) }
    }

    public func removeValue(named name: String) throws {
        try write(KeyName(name), .remove) { nil }
    }
}

// MARK: The suite

extension UserDefaultsKVStore {
    /// The system's object, which is not declared Sendable; nil for a suite whose name is refused.
    ///
    /// `@unchecked Sendable`: the object is used under the lock of the suite alone.
    private final class GuardedDefaults: @unchecked Sendable {
        private let lock: NSRecursiveLock
        private let object: UserDefaults?

        init(_ object: sending UserDefaults?, _ lock: NSRecursiveLock) {
            self.object = object
            self.lock = lock
        }

        func withLock<Result>(
            _ body: (UserDefaults?) throws(KVStoreError) -> Result
        ) throws(KVStoreError) -> Result {
            lock.lock()
            defer { lock.unlock() }
            return try body(object)
        }
    }

    func using<Result: Sendable>(
        _ operation: KVStoreError.Operation, _ name: String?,
        _ body: (UserDefaults) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try defaults.withLock { (defaults) throws(KVStoreError) -> Result in
            guard let defaults else { throw KVStoreError(.noStore, operation, key: name, store: store) }
            if let problem = file.problem(beforeWriting: ![.get, .read, .contains].contains(operation)) {
                throw KVStoreError(problem, operation, key: name, store: store)
            }
            guard isReadable(defaults) else {
                throw KVStoreError(.unavailable(.locked), operation, key: name, store: store)
            }
            return try body(defaults)
        }
    }

    /// Whether the suite's values can be read; see ``UserDefaultsMarker``.
    private func isReadable(_ defaults: UserDefaults) -> Bool {
        guard let marker, !isKnownReadable.load(ordering: .relaxed) else { return true }
        // Without the sentinel the suite may be unreadable, or have been written by other code only.
        guard defaults.object(forKey: UserDefaultsName.sentinel) == nil else {
            isKnownReadable.store(true, ordering: .relaxed)
            return true
        }
        if case .locked = marker.state { return false }
        return true
    }

    /// The object of a key and its name in the suite: the encoded one or, if there is none, that of other code.
    private func stored(_ name: String, in defaults: UserDefaults) -> (name: String, object: Any)? {
        let encoded = UserDefaultsName.encoded(name)
        return defaults.object(forKey: encoded).map { (encoded, $0) } ?? unencoded(name, in: defaults)
    }

    /// The object that other code has stored under the name of a key, if this store encodes that name.
    private func unencoded(_ name: String, in defaults: UserDefaults) -> (name: String, object: Any)? {
        // A name that is the encoding of another key belongs to that.
        guard !UserDefaultsName.isPlain(name), UserDefaultsName.decoded(name).hasSameBytes(as: name),
            !UserDefaultsName.isOwn(name), defaults.object(forKey: name) != nil
        else { return nil }
        // The name of the object that was found may differ in its bytes.
        defaults.synchronize()
        let content = defaults.persistentDomain(forName: domain) ?? [:]
        return content.first { $0.key.hasSameBytes(as: name) }.map { ($0.key, $0.value) }
    }

    /// The encoded value of a name, and that of the Boolean or number that Foundation converts it to.
    private func encodings(
        of name: KeyName, _ operation: KVStoreError.Operation
    ) throws(KVStoreError) -> (bytes: [UInt8], converted: [UInt8]?)? {
        try name.validate(operation, in: store)
        return try using(operation, name.string) { (defaults) throws(KVStoreError) in
            guard let object = stored(name.string, in: defaults)?.object else { return nil }
            do throws(CodingFailure) {
                return (try PropertyListValue.encoded(object), try PropertyListValue.convertedNumber(object))
            } catch {
                throw KVStoreError(.undecodable, operation, key: name.string, store: store, underlying: error)
            }
        }
    }

    /// Stores or removes an object, and verifies that the file contains the change. Sets the old value aside first
    /// unless `isReadable` returns true for it; that runs code of the value's type, so no lock is held.
    private func write(
        _ name: KeyName, _ operation: KVStoreError.Operation, isReadable: ([UInt8]) -> Bool = { _ in true },
        _ object: () -> Any?
    ) throws(KVStoreError) {
        try name.validate(operation, in: store)
        defer { changes.wake() }
        var checked: (object: StoredObject, isReadable: Bool) = (.none, true)
        var attempts = UpdateAttempts(of: name.string, operation, running: .decoding)
        while true {
            let next = try using(operation, name.string) { (defaults) throws(KVStoreError) -> StoredObject? in
                let found = StoredObject(stored(name.string, in: defaults)?.object)
                guard found == checked.object else { return found }
                let new = object()
                // Also after a write of unknown durability, which is visible.
                defer { report(name, replacing: found, in: defaults) }
                try replace(name, operation, by: new, in: defaults, setsAside: !checked.isReadable)
                return nil
            }
            guard let next else { return }
            try attempts.didFail(in: store)
            switch next {
            case .none: checked = (next, true)
            case .foreign: checked = (next, false)
            case .value(let bytes): checked = (next, isReadable(bytes))
            }
        }
    }

    private func replace(
        _ name: KeyName, _ operation: KVStoreError.Operation, by new: Any?, in defaults: UserDefaults, setsAside: Bool
    ) throws(KVStoreError) {
        let encoded = UserDefaultsName.encoded(name.string)
        let old = stored(name.string, in: defaults)
        let oldEncoded = defaults.object(forKey: encoded)
        // An object of other code that is not visible stays until the key is removed.
        let replaced = new == nil || oldEncoded == nil ? unencoded(name.string, in: defaults) : nil
        let aside = setsAside ? old.flatMap { setAsideName(of: $0, encoded, in: defaults) } : nil
        let isStored = try willStore(name, operation, new, replacing: replaced?.name, aside, old, in: defaults)
        if let aside { defaults.set(old?.object, forKey: aside) }
        if marker != nil { defaults.set(true, forKey: UserDefaultsName.sentinel) }
        if let replaced { defaults.removeObject(forKey: replaced.name) }
        // Foundation keeps an object that equals the new one, such as a text of the same characters in other bytes.
        if let new, let oldEncoded, NSArray(object: oldEncoded).isEqual(to: [new]),
            PropertyListValue.bytes(of: oldEncoded) != PropertyListValue.bytes(of: new)
        {
            defaults.removeObject(forKey: encoded)
        }
        defaults.set(new, forKey: encoded)
        let isInFile =
            defaults.synchronize()
            || file.holds(new, encoded)
                && aside.map({ file.holds(old?.object, $0) }) ?? true
                && replaced.map({ file.holds(nil, $0.name) }) ?? true
        if isInFile {
            if let marker, !hasMarker.load(ordering: .relaxed) {
                marker.create()
                if case .readable = marker.state { hasMarker.store(true, ordering: .relaxed) }
            }
            guard isStored else { throw KVStoreError(.durabilityUnknown, operation, key: name.string, store: store) }
            return
        }
        defaults.set(oldEncoded, forKey: encoded)
        if let replaced { defaults.set(replaced.object, forKey: replaced.name) }
        if let aside { defaults.removeObject(forKey: aside) }
        throw KVStoreError(.unavailable(.inputOutput), operation, key: name.string, store: store)
    }

    /// Whether the system stores the suite with an object replaced, and the old one set aside.
    ///
    /// - Throws: `.storeTooLarge` if it does not, and the suite becomes larger.
    private func willStore(
        _ name: KeyName, _ operation: KVStoreError.Operation, _ new: Any?, replacing replaced: String?,
        _ aside: String?, _ old: (name: String, object: Any)?, in defaults: UserDefaults
    ) throws(KVStoreError) -> Bool {
        guard let limit = platform.suiteLimit else { return true }
        var content = defaults.persistentDomain(forName: domain) ?? [:]
        let size = PropertyListValue.maximumSize(of: content)
        if let aside { content[aside] = old?.object }
        if let replaced { content[replaced] = nil }
        content[UserDefaultsName.encoded(name.string)] = new
        if marker != nil { content[UserDefaultsName.sentinel] = true }
        let newSize = PropertyListValue.maximumSize(of: content)
        guard newSize >= limit else { return true }
        guard newSize < size else { throw KVStoreError(.storeTooLarge, operation, key: name.string, store: store) }
        return false
    }
}

// MARK: Changes

extension UserDefaultsKVStore {
    /// Reports the writes of all `UserDefaultsKVStore` objects of this process over the suite, and those changes by
    /// other code that Foundation announces, as ``UserDefaultsKVStore`` describes.
    public func subscribe(to scope: KVScope) -> KVChanges? {
        let observer = suite.observing { self.reportOthers() }
        switch scope {
        case .key(let name, _): suite.lock.withLock { observe([KeyName(name)], by: observer) }
        case .prefix:
            do throws(KVStoreError) {
                try using(.keys, nil) { (defaults) throws(KVStoreError) in
                    observer.hasPrefixes = true
                    let values = observer.reported ?? values(alsoOf: [:], in: defaults)
                    observer.reported = values
                    observe(values.keys, by: observer)
                }
            } catch {
                // The first check that can read the suite reports that any value may have changed.
                suite.lock.withLock { observer.hasPrefixes = true }
            }
        }
        return changes.changes(in: scope, retaining: observer) { name in
            do {
                return try encodings(of: KeyName(name), .read).map { KVEntry(bytes: $0.bytes, revision: 0) }
            } catch {
                return nil
            }
        }
    }

    /// Lets the system announce changes of keys by other processes, as far as it can. The lock of the suite is held.
    private func observe(_ names: some Sequence<KeyName>, by observer: UserDefaultsObserver) {
        guard let observeKey = platform.observeKey, Self.isUsable(domain) else { return }
        for name in names where name.isValid {
            let stored = UserDefaultsName.encoded(name.string)
            guard UserDefaultsName.isKeyPath(stored) else { continue }
            observer.observe(KeyName(stored)) { onChange in observeKey(stored, domain, onChange) }
        }
    }

    /// What subscribers get for a name; nil also for an object that no type can be decoded from.
    private func present(_ name: [UInt8], in defaults: UserDefaults) -> (bytes: [UInt8], revision: UInt64)? {
        guard let object = stored(String(decoding: name, as: UTF8.self), in: defaults)?.object,
            let bytes = PropertyListValue.bytes(of: object)
        else { return nil }
        return (bytes, 0)
    }

    /// The bytes of every key of the suite that has some, and of those of `others` that are in another domain.
    private func values(alsoOf others: [KeyName: [UInt8]], in defaults: UserDefaults) -> [KeyName: [UInt8]] {
        var objects: [KeyName: Any] = [:]
        for (stored, object) in defaults.content(ofSuite: domain) where !UserDefaultsName.isOwn(stored) {
            let name = UserDefaultsName.decoded(stored)
            // An object of other code is not visible beside that of this store.
            let isEncoded = UserDefaultsName.encoded(name).hasSameBytes(as: stored)
            if isEncoded || objects[KeyName(name)] == nil { objects[KeyName(name)] = object }
        }
        for name in Set(objects.keys).union(others.keys) {
            guard let object = defaults.object(forKey: UserDefaultsName.encoded(name.string)) else { continue }
            objects[name] = object
        }
        return objects.compactMapValues { PropertyListValue.bytes(of: $0) }
    }

    /// Reports what a write of this store has changed. The lock of the suite is held.
    private func report(_ name: KeyName, replacing old: StoredObject, in defaults: UserDefaults) {
        guard let observer = suite.observer else { return }
        let new = StoredObject(stored(name.string, in: defaults)?.object)
        let bytes: [UInt8]? = if case .value(let bytes) = new { bytes } else { nil }
        // The value may be reported although this write has not changed it: other code may have stored it, unreported.
        if new == old, let reported = observer.reported, reported[name] == bytes { return }
        changes.append(ChangeHub.Change(name, bytes, 0))
        observer.reported?[name] = bytes
    }

    /// Reports what other code has changed since the last report, if the suite can be read.
    private func reportOthers() {
        do throws(KVStoreError) {
            try using(.read, nil) { (defaults) throws(KVStoreError) in
                changes.appendNames { name in present(name, in: defaults) }
                guard suite.observer?.hasPrefixes == true else { return }
                // Checks the file, as reading the whole suite may write it.
                try using(.keys, nil) { (defaults) throws(KVStoreError) in reportValues(defaults) }
            }
        } catch {
            // Values that cannot be read are unknown, not absent: nothing is reported until the next notification.
        }
        changes.wake()
    }

    /// Reports to subscriptions to a prefix what other code has changed. The lock of the suite is held.
    private func reportValues(_ defaults: UserDefaults) {
        guard let observer = suite.observer else { return }
        let old = observer.reported
        let values = values(alsoOf: old ?? [:], in: defaults)
        observer.reported = values
        observe(values.keys, by: observer)
        guard let old else { return changes.appendAll { name in present(name, in: defaults) } }
        let changed = Set(values.keys).union(old.keys).filter { values[$0] != old[$0] }
        changes.append(changed.map { ChangeHub.Change($0, values[$0], 0) })
    }
}
