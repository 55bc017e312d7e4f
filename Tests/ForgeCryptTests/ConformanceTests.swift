import ForgeCrypt
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("Every store of secrets keeps the published promises")
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

    @Test("an app's own store with just the five calls", arguments: ConformanceChecks.secretStore)
    func ownStore(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: FiveCalls())
    }

    @Test("there are enough promises, and no two read alike")
    func count() {
        let descriptions = ConformanceChecks.secretStore.map(\.description)
        #expect(descriptions.count >= 25)
        #expect(Set(descriptions).count == descriptions.count)
    }

    @Test("calls beyond the five are unsupported by default")
    func defaults() throws {
        let store = FiveCalls()
        #expect(try CryptError.code { try store.keys() } == .unsupported)
        #expect(try CryptError.code { try store.rawValue(named: "a") } == .unsupported)
        #expect(try CryptError.code { try store.deleteValue(named: "a") } == .unsupported)
        let set = { try store.setRawValue([1], named: "a", accessibility: .whenUnlocked) }
        #expect(try CryptError.code(of: set) == .unsupported)
    }
}

/// What an app would write itself: the five calls and nothing more.
private struct FiveCalls: CryptStoring {
    private let base = InMemoryCrypt()

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? { try base.get(key) }
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws { try base.set(value, for: key) }
    func delete<Value>(_ key: CryptKey<Value>) throws { try base.delete(key) }
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { try base.contains(key) }
    func deleteAll() throws { try base.deleteAll() }
}

// MARK: The checks themselves

/// A mistake that a store of secrets could have.
private enum Defect: CaseIterable {
    case forgetsSet, keepsFirstValue, deleteDoesNothing, deleteAllDoesNothing, deleteAllKeepsOne
    case containsIsAlwaysTrue, containsIgnoresDelete, ignoresCase, normalisesNames, cutsLongNames, acceptsEmptyName
    case undecodableIsNil, leaksInErrors, leaksInReflection, emptyStringIsAbsent, refusesLargeValues
    case accessibilityIsPartOfTheName, deleteOfMissingThrows, keysUnsorted, losesConcurrentSets
    case failedSetDeletes, rawValueIsAlwaysNil, acceptsAnySize
}

@Suite("The checks find mistakes")
struct SecretStoreDefectTests {
    @Test("every planted mistake is found by some check", arguments: Defect.allCases)
    fileprivate func isFound(_ defect: Defect) async throws {
        var found: [String] = []
        for check in ConformanceChecks.secretStore {
            do {
                try await check.run(on: DefectiveCrypt(defect))
            } catch is ConformanceViolation {
                found.append(check.description)
            }
        }
        #expect(!found.isEmpty, "\(defect)")
        #expect(found.count < ConformanceChecks.secretStore.count)
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

    init(_ defect: Defect) { self.defect = defect }

    var customMirror: Mirror {
        Mirror(self, children: defect == .leaksInReflection ? ["values": seen.withLock { $0 }] : [:])
    }

    private func name<Value>(_ key: CryptKey<Value>) -> CryptKey<Value> {
        let name =
            switch defect {
            case .ignoresCase: key.key.lowercased()
            case .normalisesNames: key.key.precomposedStringWithCanonicalMapping
            case .cutsLongNames: String(key.key.prefix(1024))
            case .acceptsEmptyName: key.key.isEmpty ? "empty" : key.key
            case .accessibilityIsPartOfTheName: key.accessibility.rawValue + key.key.prefix(900)
            default: key.key
            }
        return CryptKey(key: name, accessibility: key.accessibility)
    }

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
        let value: Value?
        do {
            value = try base.get(name(key))
        } catch {
            guard let replacement = try replacement(for: error, key.key) else { return nil }
            throw replacement
        }
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
        if let text = value as? String { seen.withLock { $0.append(text) } }
        guard try !swallows((value as? Data)?.count ?? 0, isThere: base.contains(name(key))) else { return }
        do {
            try base.set(value, for: name(key))
        } catch {
            if defect == .failedSetDeletes { try base.delete(name(key)) }
            throw error
        }
        isBusy.withLock { $0 = false }
    }

    private func swallows(_ sizeInBytes: Int, isThere: Bool) throws -> Bool {
        switch defect {
        case .forgetsSet: return true
        case .keepsFirstValue: return isThere
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
        try base.delete(name(key))
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
        let isThere = try base.contains(name(key))
        if defect == .containsIsAlwaysTrue { return true }
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
        guard defect == .deleteAllKeepsOne else { return try base.deleteAll() }
        for name in try base.keys().dropFirst() { try base.deleteValue(named: name) }
    }

    func keys() throws -> [String] { defect == .keysUnsorted ? try base.keys().reversed() : try base.keys() }

    func rawValue(named name: String) throws -> [UInt8]? {
        defect == .rawValueIsAlwaysNil ? nil : try base.rawValue(named: name)
    }

    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        try base.setRawValue(bytes, named: name, accessibility: accessibility)
    }

    func deleteValue(named name: String) throws { try base.deleteValue(named: name) }
}
