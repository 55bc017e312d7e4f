import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("Every secret store passes the published checks")
struct SecretStoreConformanceTests {
    @Test("in memory", arguments: ConformanceChecks.secretStore)
    func inMemory(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: InMemoryCrypt())
    }

    @Test("a vault on the disk", arguments: ConformanceChecks.secretStore)
    func vaultOnDisk(_ check: ConformanceCheck<any CryptStoring>) async throws {
        let place = VaultPlace(onDisk: "conformance")
        try await check.run(on: place.vault())
    }

    @Test("a vault in memory", arguments: ConformanceChecks.secretStore)
    func vaultInMemory(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: VaultPlace().vault())
    }

    @Test("the Keychain", arguments: ConformanceChecks.secretStore)
    func keychain(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: FakeKeychain().store())
    }

    @Test(
        "a custom store with only the five required calls",
        arguments: ConformanceSuite<any CryptStoring>.secretStore.checks(having: []))
    func ownStore(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: FiveCalls())
    }

    @Test("there are enough checks, with distinct descriptions")
    func count() {
        let descriptions = ConformanceChecks.secretStore.map(\.description)
        #expect(descriptions.count >= 25)
        #expect(Set(descriptions).count == descriptions.count)
    }

    @Test("calls beyond the five are unsupported by default")
    func defaults() throws {
        let store = FiveCalls()
        #expect(try CryptError.code { try store.createIfAbsent(1, for: CryptKey(key: "a")) } == .unsupported)
        #expect(try CryptError.code { try store.keys() } == .unsupported)
        #expect(try CryptError.code { try store.rawValue(named: "a") } == .unsupported)
        #expect(try CryptError.code { try store.deleteValue(named: "a") } == .unsupported)
        let set = { try store.setRawValue([1], named: "a", accessibility: .whenUnlocked) }
        #expect(try CryptError.code(of: set) == .unsupported)
    }
}

/// A custom store with only the five required calls.
private struct FiveCalls: CryptStoring {
    private let base = InMemoryCrypt()

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? { try base.get(key) }
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws { try base.set(value, for: key) }
    func delete<Value>(_ key: CryptKey<Value>) throws { try base.delete(key) }
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { try base.contains(key) }
    func deleteAll() throws { try base.deleteAll() }
}

// MARK: The checks themselves

/// A defect of a secret store.
private enum Defect: CaseIterable {
    case forgetsSet, keepsFirstValue, deleteDoesNothing, deleteAllDoesNothing, deleteAllKeepsOne
    case containsIsAlwaysTrue, containsIgnoresDelete, ignoresCase, normalisesNames, cutsLongNames, acceptsEmptyName
    case undecodableIsNil, leaksInErrors, leaksInReflection, emptyStringIsAbsent, refusesLargeValues
    case accessibilityIsPartOfTheName, deleteOfMissingThrows, keysUnsorted, losesConcurrentSets
    case failedSetDeletes, rawValueIsAlwaysNil, acceptsAnySize
    case givesOnce, buriesDeleted, containsByType, missingThrows, nilIsAbsent, refusesPasscode
    case changesBytes, cutsTexts, tearsPairs, losesOneOfMany
    case createsAlways, createsByType, createsAnything, deletesByPrefix

    case keysInTextOrder, keysInOrderOfUTF16, countsCharacters, acceptsRawNames, refusesTheLargest
    case acceptsAnyRawSize, keepsFirstRawValue, codesRawValues, deleteAllKeepsSome, deletesByType
    case encodesUnderLock, createsUnderLock

    /// Whether the defect shows only in large values, which are slow to store.
    var isAboutSize: Bool {
        [.refusesLargeValues, .acceptsAnySize, .failedSetDeletes, .refusesTheLargest, .acceptsAnyRawSize].contains(self)
    }

    /// The check that alone detects the defect, of those where that is required.
    var check: String? {
        switch self {
        case .keysInTextOrder, .keysInOrderOfUTF16: "keys lists every name in byte order"
        case .countsCharacters: "a name that is empty, too long or holds a NUL is refused by every call"
        case .acceptsRawNames: "the calls for raw values refuse the names that the others refuse"
        case .refusesTheLargest: "an encoded value of exactly 16 MiB is accepted"
        case .acceptsAnyRawSize: "a raw value of more than 16 MiB is refused, and the old one is kept"
        case .keepsFirstRawValue: "a raw value replaces the one before"
        case .codesRawValues: "raw values are those of the value coder"
        case .deleteAllKeepsSome: "deleting all removes the secrets of every accessibility"
        case .deletesByType: "a key of another type deletes the secret too"
        case .encodesUnderLock: "the code of a value can use the store while the value is set and read"
        case .createsUnderLock: "the code of a value can use the store while the value is created"
        default: nil
        }
    }
}

@Suite("The checks detect defects")
struct SecretStoreDefectTests {
    @Test(
        "a violation names the call, what it was called with and what came",
        arguments: [
            (Defect.normalisesNames, #"get("\u{00E9}"): expected its own value, got that of "e\u{0301}""#),
            (.countsCharacters, #"get("\u{00E9}\u{00E9}"#),
            (.containsByType, "contains(auth.access as Int) of a String: expected true, got false"),
            (.createsByType, "createIfAbsent(auth.access as Int) over a String: expected false, got true"),
            (
                .leaksInErrors,
                "the error of get(auth.access as Choice), .undecodable, shows the value in its description"
            ),
            (.leaksInErrors, "in the property detail"),
        ] as [(Defect, String)])
    private func messages(_ defect: Defect, _ text: String) async throws {
        let checks = ConformanceChecks.secretStore.filter { !$0.description.contains("MiB") }
        let report = await ConformanceSuite("secrets", checks).run(on: "defective") { DefectiveCrypt(defect) }
        #expect("\(report)".contains(text), "\(report)")
    }

    @Test("every planted defect is detected by some check, and every check detects one")
    func completeness() async throws {
        // Some defects are found at the end of a time limit: they wait side by side.
        let results = try await withThrowingTaskGroup(of: (Defect, Set<String>).self) { group in
            for defect in Defect.allCases { group.addTask { (defect, try await self.violations(of: defect)) } }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        var idle = Set(ConformanceChecks.secretStore.map(\.description))
        for (defect, found) in results {
            #expect(!found.isEmpty, "\(defect)")
            if let check = defect.check { #expect(found == [check], "\(defect)") }
            #expect(found.count < ConformanceChecks.secretStore.count)
            // A store without any function says little about a single check.
            if defect != .forgetsSet { idle.subtract(found) }
        }
        #expect(results.count == Defect.allCases.count)
        #expect(idle == [])
    }

    private func violations(of defect: Defect) async throws -> Set<String> {
        var found: Set<String> = []
        for check in ConformanceChecks.secretStore
        where defect.isAboutSize || !check.description.contains("MiB") {
            do {
                // A call that waits for ever is found at the end of the limit; no other check may need it.
                let limit: Duration = check.description == defect.check ? .seconds(5) : .seconds(120)
                try await check.run(on: DefectiveCrypt(defect), within: limit)
            } catch is ConformanceViolation {
                found.insert(check.description)
            }
        }
        return found
    }
}

private func swap(_ flag: inout Bool, with new: Bool) -> Bool {
    let old = flag
    flag = new
    return old
}

private final class DefectiveCrypt: CryptStoring, CustomReflectable {
    private let defect: Defect
    private let base = InMemoryCrypt()
    private let seen = Mutex<[String]>([])
    private let isBusy = Mutex(false)
    private let lock = NSLock()

    init(_ defect: Defect) { self.defect = defect }

    var customMirror: Mirror {
        Mirror(self, children: defect == .leaksInReflection ? ["values": seen.withLock { $0 }] : [:])
    }

    private func name<Value>(_ key: CryptKey<Value>) -> CryptKey<Value> {
        let name =
            switch defect {
            case .ignoresCase: key.key.lowercased()
            case .normalisesNames: key.key.precomposedStringWithCanonicalMapping
            case .countsCharacters:
                key.key.count > 1024 ? key.key : String(decoding: key.key.utf8.prefix(1024), as: UTF8.self)
            case .cutsLongNames: String(key.key.prefix(1024))
            case .acceptsEmptyName: key.key.isEmpty ? "empty" : key.key
            case .accessibilityIsPartOfTheName: key.accessibility.rawValue + key.key.prefix(900)
            default: key.key
            }
        return CryptKey(key: name, accessibility: key.accessibility)
    }

    /// Runs code of the value under a lock, with the defects that do.
    private func locked<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard defect == .encodesUnderLock || defect == .createsUnderLock else { return try body() }
        lock.lock()
        defer { lock.unlock() }
        return try body()
    }

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
        if defect == .encodesUnderLock || defect == .createsUnderLock {
            // Decodes without the lock.
            locked {}
            return try base.get(key)
        }
        let value: Value?
        do {
            value = try base.get(name(key))
        } catch {
            guard let replacement = try replacement(for: error, key.key) else { return nil }
            throw replacement
        }
        if defect == .missingThrows, value == nil { throw CryptError(.unavailable(.inputOutput), .get, key: key.key) }
        if defect == .givesOnce { try base.delete(name(key)) }
        let isEmptyString = (value as? String)?.isEmpty ?? false
        return defect == .emptyStringIsAbsent && isEmptyString ? nil : value
    }

    private func replacement(for error: CryptError, _ name: String) throws -> CryptError? {
        guard error.code == .undecodable, defect == .undecodableIsNil || defect == .leaksInErrors else { return error }
        guard defect == .leaksInErrors else { return nil }
        var leaking = error
        leaking.detail = try base.get(CryptKey<String>(key: name))
        return leaking
    }

    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
        if defect == .encodesUnderLock { return try locked { try base.set(value, for: key) } }
        if defect == .deleteAllKeepsSome, key.accessibility == .afterFirstUnlockThisDeviceOnly {
            seen.withLock { $0.append("#" + key.key) }
        }
        if let text = value as? String { seen.withLock { $0.append(text) } }
        guard try !swallows((value as? Data)?.count ?? 0, isThere: base.contains(name(key))) else { return }
        if try setsSomethingElse(value, for: key) { return }
        do {
            try base.set(value, for: name(key))
        } catch {
            if defect == .failedSetDeletes { try base.delete(name(key)) }
            throw error
        }
        isBusy.withLock { $0 = false }
    }

    func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        switch defect {
        case .createsAlways:
            try base.set(value, for: name(key))
            return true
        case .createsByType:
            do { if try base.get(name(key)) != nil { return false } } catch _ {}
            try base.set(value, for: name(key))
            return true
        case .createsAnything:
            do { return try base.createIfAbsent(value, for: name(key)) } catch { return false }
        case .createsUnderLock: return try locked { try base.createIfAbsent(value, for: key) }
        default:
            return try base.createIfAbsent(value, for: name(key))
        }
    }

    /// Stores a wrong value, or none, if the defect concerns values of its type.
    private func setsSomethingElse<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        switch (defect, value) {
        case (.nilIsAbsent, let text as String?) where text == nil:
            try base.delete(key)
        case (.changesBytes, let data as Data) where data.count == 256:
            try base.set(Data(data.map { max($0, 1) }), for: CryptKey(key: key.key))
        case (.cutsTexts, let text as String) where text.contains("\0"):
            try base.set(String(text.prefix { $0 != "\0" }), for: CryptKey(key: key.key))
        case (.tearsPairs, let pair as [Int]) where pair.count == 2 && pair[0] > 0:
            try base.set([pair[0], pair[1] - 1], for: CryptKey(key: key.key))
        case (.losesOneOfMany, _) where key.key == "2.5":
            break
        case (.buriesDeleted, _) where seen.withLock({ $0.contains("#" + key.key) }):
            break
        case (.refusesPasscode, _) where key.accessibility == .whenPasscodeSetThisDeviceOnly:
            throw CryptError(.unsupported, .set, key: key.key)
        default: return false
        }
        return true
    }

    private func swallows(_ sizeInBytes: Int, isThere: Bool) throws -> Bool {
        switch defect {
        case .forgetsSet: return true
        case .keepsFirstValue: return isThere
        case .refusesTheLargest:
            if sizeInBytes > 16 << 20 - 64 { throw CryptError(.tooLarge, .set) }
            return false
        case .refusesLargeValues:
            if sizeInBytes > 100_000 { throw CryptError(.tooLarge, .set) }
            return false
        case .acceptsAnySize: return sizeInBytes > 16 << 20
        case .losesConcurrentSets: return isBusy.withLock { swap(&$0, with: true) }
        default: return false
        }
    }

    func delete<Value>(_ key: CryptKey<Value>) throws {
        if defect == .deleteDoesNothing { return }
        if defect == .deleteOfMissingThrows, try !base.contains(name(key)) { throw CryptError(.undecodable, .delete) }
        if defect == .deletesByPrefix {
            for name in try base.keys() where name.hasPrefix(key.key) { try base.deleteValue(named: name) }
        }
        if defect == .deletesByType {
            do { if try base.get(key) == nil { return } } catch { if error.code == .undecodable { return } }
        }
        try base.delete(name(key))
        if defect == .buriesDeleted { seen.withLock { $0.append("#" + key.key) } }
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
        let isThere = try base.contains(name(key))
        if defect == .containsIsAlwaysTrue { return true }
        if defect == .containsByType {
            do { return try base.get(name(key)) != nil } catch { return false }
        }
        if defect == .containsIgnoresDelete {
            return seen.withLock { seen in
                if isThere { seen.append("#" + key.key) }
                return isThere || seen.contains("#" + key.key)
            }
        }
        return isThere
    }

    func deleteAll() throws {
        if defect == .deleteAllDoesNothing { return }
        if defect == .deleteAllKeepsSome {
            let kept = seen.withLock { Set($0) }
            for name in try base.keys() where !kept.contains("#" + name) { try base.deleteValue(named: name) }
            return
        }
        guard defect == .deleteAllKeepsOne else { return try base.deleteAll() }
        for name in try base.keys().dropFirst() { try base.deleteValue(named: name) }
    }

    func keys() throws -> [String] {
        switch defect {
        case .keysUnsorted: try base.keys().reversed()
        case .keysInTextOrder: try base.keys().sorted()
        case .keysInOrderOfUTF16: try base.keys().sorted { $0.utf16.lexicographicallyPrecedes($1.utf16) }
        default: try base.keys()
        }
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        switch defect {
        case .rawValueIsAlwaysNil: nil
        case .acceptsRawNames where !isValid(name): nil
        case .codesRawValues: try base.rawValue(named: name).map { [0] + $0 }
        default: try base.rawValue(named: name)
        }
    }

    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        var bytes = bytes
        switch defect {
        case .acceptsRawNames where !isValid(name): return
        case .acceptsAnyRawSize where bytes.count > 16 << 20: bytes = []
        case .keepsFirstRawValue where bytes.count < 1 << 20:
            if try base.rawValue(named: name) != nil { return }
        case .codesRawValues where bytes.count < 1 << 20: bytes.removeFirst()
        default: break
        }
        try base.setRawValue(bytes, named: name, accessibility: accessibility)
    }

    private func isValid(_ name: String) -> Bool {
        do {
            _ = try base.rawValue(named: name)
            return true
        } catch {
            return false
        }
    }

    func deleteValue(named name: String) throws {
        if defect == .acceptsRawNames, !isValid(name) { return }
        try base.deleteValue(named: name)
    }
}
