import ForgeCoding
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
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
    case refusesTheLargestRaw
    case acceptsAnyRawSize, keepsFirstRawValue, codesRawValues, deleteAllKeepsSome, deletesByType
    case encodesUnderLock, createsUnderLock

    case createsByAccessibility, createsNoNil, createsLeaking, createsAnySize, containsByAccessibility
    case keysOfOneAccessibility, keysTwice, rawOfOneAccessibility, setRawKeepsOther, setRawRefusesOthers, rawValidates
    case othersAreNil, emptyRawIsNil, limitOffByOne, cachesTyped, acceptsNulAtEnd, refusesLongRawNames
    case operationIsOpen, omitsName, keepsCodingPath, decodesUnderReadLock, encodesUnderWriterLock, createsUnderOwnLock
    case keepsMissingKey, keepsPathOfEncoding, keepsPathOfCreation
    case replacesSlashes, sharesObjects, acceptsNests
    case setsInTwoSteps, setsRawInTwoSteps, restoresOthers, restoresOthersRaw, createsInTwoSteps

    /// Whether the defect shows only in large values, which are slow to store.
    var isAboutSize: Bool {
        [
            .refusesLargeValues, .acceptsAnySize, .failedSetDeletes, .refusesTheLargest, .acceptsAnyRawSize,
            .limitOffByOne, .refusesTheLargestRaw,
            .createsAnySize,
        ]
        .contains(self)
    }

    /// The check that alone detects the defect, of those where that is required.
    var check: String? {
        switch self {
        case .keysInTextOrder, .keysInOrderOfUTF16, .keysOfOneAccessibility, .keysTwice:
            "keys lists every name in byte order"
        case .countsCharacters, .acceptsNulAtEnd:
            "a name that is empty, too long or holds a NUL is refused by every call"
        case .sharesObjects: "a value is kept encoded: an object is not shared, and what it does not encode is lost"
        case .acceptsNests: "a value that is nested too deeply is refused, and the old one is kept"
        case .acceptsRawNames: "the calls for raw values refuse the names that the others refuse"
        case .refusesTheLargest, .refusesTheLargestRaw, .limitOffByOne:
            "an encoded value of exactly 16 MiB is accepted, and no longer one"
        case .acceptsAnyRawSize: "a raw value of more than 16 MiB is refused, and the old one is kept"
        case .deleteAllKeepsSome: "deleting all removes the secrets of every accessibility"
        case .deletesByType: "a key of another type deletes the secret too"
        case .encodesUnderLock: "the code of a value can use the store while the value is set and read"
        case .decodesUnderReadLock, .encodesUnderWriterLock:
            "the code of a value can use the store while the value is set and read"
        case .createsUnderLock, .createsUnderOwnLock:
            "the code of a value can use the store while the value is created"
        case .createsByAccessibility, .createsNoNil:
            "createIfAbsent keeps a stored nil, and a value of another type or accessibility"
        case .createsLeaking: "createIfAbsent refuses what set refuses"
        case .createsAnySize: "createIfAbsent refuses a value of more than 16 MiB"
        case .containsByAccessibility: "the name alone identifies a secret, not the accessibility"
        case .rawOfOneAccessibility, .setRawKeepsOther: "the calls for raw values find a secret of every accessibility"
        case .setRawRefusesOthers, .rawValidates, .othersAreNil, .emptyRawIsNil:
            "raw bytes that are no encoded value are stored, and only reading them typed is an error"
        case .cachesTyped: "a value of another type is undecodable, not absent, and is kept"
        case .refusesLongRawNames: "the calls for raw values accept the names that the others accept"
        case .keepsCodingPath, .keepsMissingKey, .keepsPathOfEncoding:
            "no error shows a coding key that comes from a value"
        case .keepsPathOfCreation: "no error of createIfAbsent shows a coding key that comes from a value"
        case .setsInTwoSteps: "a value that is read while it is replaced is the old one or the new one"
        case .setsRawInTwoSteps:
            "a value that is read while it is replaced by raw values is the old one or the new one"
        case .restoresOthers: "of two threads that change different secrets each keeps its own"
        case .restoresOthersRaw: "of two threads that change different secrets by raw values each keeps its own"
        case .createsInTwoSteps: "of concurrent createIfAbsent calls exactly one stores its value"
        default: nil
        }
    }
}

@Suite("The checks detect defects")
struct SecretStoreDefectTests {
    @Test(
        "a violation names the call, what it was called with and what came",
        arguments: [
            (
                Defect.normalisesNames, "names are compared byte by byte",
                #"get("\u{00E9}"): expected its own value, got that of "e\u{0301}""#
            ),
            (
                .countsCharacters, "a name that is empty, too long or holds a NUL is refused by every call",
                #"get("\u{00E9}\u{00E9}"#
            ),
            (
                .containsByType, "contains ignores the type of the value",
                "contains(auth.access as Int) of a String: expected true, got false"
            ),
            (
                .createsByType, "createIfAbsent keeps a stored nil, and a value of another type or accessibility",
                "createIfAbsent(auth.access as Int) over a String: expected false, got true"
            ),
            (
                .leaksInErrors, "no error shows a value, however it is printed",
                "the error of get(auth.access as Choice), .undecodable, shows the value in its description"
            ),
            (.leaksInErrors, "no error shows a value, however it is printed", "in the property detail"),
        ] as [(Defect, String, String)])
    private func messages(_ defect: Defect, _ check: String, _ text: String) async throws {
        let checks = ConformanceChecks.secretStore.filter { $0.description == check }
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
        let all = ConformanceChecks.secretStore
        let turn = Defect.allCases.firstIndex(of: defect) ?? 0
        let checks = defect.check.map { own in TestDepth.checks(all, turn: turn) { $0.description == own } }
        for check in checks ?? all
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
    private let accessibilities = Mutex<[String: CryptAccessibility]>([:])
    private let setTypes = Mutex<[String: Set<ObjectIdentifier>]>([:])
    private let typed = Mutex<[String: any Sendable]>([:])

    init(_ defect: Defect) { self.defect = defect }

    var customMirror: Mirror {
        Mirror(self, children: defect == .leaksInReflection ? ["values": seen.withLock { $0 }] : [:])
    }

    private func name<Value>(_ key: CryptKey<Value>) -> CryptKey<Value> {
        let name =
            switch defect {
            case .ignoresCase: key.key.lowercased()
            case .replacesSlashes: String(decoding: key.key.utf8.map { $0 == 0x2F ? 0x5F : $0 }, as: UTF8.self)
            case .normalisesNames: key.key.precomposedStringWithCanonicalMapping
            case .countsCharacters:
                key.key.count > 1024 ? key.key : String(decoding: key.key.utf8.prefix(1024), as: UTF8.self)
            case .cutsLongNames: String(key.key.prefix(1024))
            case .acceptsEmptyName: key.key.isEmpty ? "empty" : key.key
            case .acceptsNulAtEnd: key.key.hasSuffix("\0") ? "a" : key.key
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
        let typeName = "\(Array(key.key.utf8)) \(Value.self)"
        if defect == .cachesTyped || defect == .sharesObjects, let cached = typed.withLock({ $0[typeName] }),
            let value = cached as? Value
        {
            return value
        }
        if defect == .othersAreNil, let raw = try base.rawValue(named: key.key), !isEnvelope(raw) { return nil }
        let value: Value?
        do {
            if defect == .decodesUnderReadLock {
                value = try withLock { () throws(CryptError) in try base.get(key) }
            } else {
                value = try base.get(name(key))
            }
        } catch {
            if defect == .keepsMissingKey, error.code == .undecodable { try decodeOpenly(key) }
            guard let replacement = try replacement(for: error, key.key) else { return nil }
            throw replacement
        }
        if defect == .missingThrows, value == nil { throw CryptError(.unavailable(.inputOutput), .get, key: key.key) }
        if defect == .givesOnce { try base.delete(name(key)) }
        if defect == .cachesTyped, let value { typed.withLock { $0[typeName] = value } }
        let isEmptyString = (value as? String)?.isEmpty ?? false
        return defect == .emptyStringIsAbsent && isEmptyString ? nil : value
    }

    /// Throws what a coder throws, with the coding key that it missed.
    private func decodeOpenly<Value>(_ key: CryptKey<Value>) throws {
        do {
            _ = try ValueCoder().decode(Value.self, from: try base.rawValue(named: key.key) ?? [])
        } catch {
            var failure = CodingFailure(.decode, describing: error)
            failure.codingPath = ""
            throw CryptError(.undecodable, .get, key: key.key, underlying: failure)
        }
    }

    /// Throws what a coder throws, with its coding path.
    private func encodeOpenly<Value: Encodable>(_ value: Value, _ name: String) throws {
        do {
            _ = try ValueCoder().encode(value)
        } catch {
            throw CryptError(.unencodable, .set, key: name, underlying: CodingFailure(.encode, describing: error))
        }
    }

    private func replacement(for error: CryptError, _ name: String) throws -> CryptError? {
        var error = error
        if defect == .operationIsOpen { error.operation = .open }
        if defect == .omitsName { error.key = nil }
        if defect == .keepsCodingPath, name == "wallet", error.code == .undecodable,
            var failure = error.underlying as? CodingFailure
        {
            failure.codingPath = "s3cr3t-marker"
            error.underlying = failure
        }
        guard error.code == .undecodable, defect == .undecodableIsNil || defect == .leaksInErrors else { return error }
        guard defect == .leaksInErrors else { return nil }
        var leaking = error
        leaking.detail = try base.get(CryptKey<String>(key: name))
        return leaking
    }

    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
        if defect == .encodesUnderLock { return try locked { try base.set(value, for: key) } }
        if defect == .encodesUnderWriterLock { return try withLock { try base.set(value, for: key) } }
        if defect == .decodesUnderReadLock { withLock {} }
        accessibilities.withLock { $0[key.key] = key.accessibility }
        setTypes.withLock { _ = $0[key.key, default: []].insert(ObjectIdentifier(Value.self)) }
        typed.withLock { $0["\(Array(key.key.utf8)) \(Value.self)"] = nil }
        let others = defect == .restoresOthers ? try others(key.key) : []
        defer { restore(others) }
        if defect == .setsInTwoSteps, key.key == "pair" {
            try base.delete(key)
            passTime()
        }
        if defect == .deleteAllKeepsSome, key.accessibility == .afterFirstUnlockThisDeviceOnly {
            seen.withLock { $0.append("#" + key.key) }
        }
        if let text = value as? String { seen.withLock { $0.append(text) } }
        // Only these defects look: the error of a name that is not valid would be that of contains.
        let looks = defect == .keepsFirstValue || defect == .limitOffByOne && value is Data
        let isThere = try looks && base.contains(name(key))
        guard try !swallows((value as? Data)?.count ?? 0, isThere: isThere) else { return }
        if try setsSomethingElse(value, for: key) { return }
        do {
            try base.set(value, for: name(key))
        } catch {
            if defect == .failedSetDeletes { try base.delete(name(key)) }
            if defect == .acceptsNests, key.key == "nest", error.code == .unencodable { return }
            if defect == .keepsPathOfEncoding, error.code == .unencodable { try encodeOpenly(value, key.key) }
            throw error
        }
        if defect == .sharesObjects, Value.self is AnyClass {
            typed.withLock { $0["\(Array(key.key.utf8)) \(Value.self)"] = value }
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
        case .acceptsNulAtEnd, .countsCharacters: return try base.createIfAbsent(value, for: key)
        case .createsUnderLock: return try locked { try base.createIfAbsent(value, for: key) }
        case .createsUnderOwnLock: return try withLock { try base.createIfAbsent(value, for: key) }
        case .createsByAccessibility:
            let known = accessibilities.withLock { $0[key.key] }
            if known == nil || known == key.accessibility { return try base.createIfAbsent(value, for: key) }
            try base.set(value, for: key)
            return true
        case .createsNoNil:
            if let text = value as? String?, text == nil { return true }
            return try base.createIfAbsent(value, for: key)
        case .keepsPathOfCreation:
            do {
                return try base.createIfAbsent(value, for: key)
            } catch {
                if error.code == .unencodable { try encodeOpenly(value, key.key) }
                throw error
            }
        case .createsLeaking:
            do {
                return try base.createIfAbsent(value, for: key)
            } catch {
                var error = error
                if error.code == .unencodable, key.key != "wallet" { error.detail = "s3cr3t-marker" }
                throw error
            }
        case .createsAnySize:
            do { return try base.createIfAbsent(value, for: key) } catch {
                if error.code == .tooLarge { return true }
                throw error
            }
        case .createsInTwoSteps where key.key.hasPrefix("created."):
            if try base.contains(key) { return false }
            passTime()
            try base.set(value, for: key)
            return true
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
        case (.losesOneOfMany, _) where key.key == "number.55":
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
            if sizeInBytes > 16 << 20 - 64 { throw CryptError(.tooLarge, .set, key: "large") }
            return false
        case .refusesLargeValues:
            if sizeInBytes > 100_000 { throw CryptError(.tooLarge, .set) }
            return false
        case .acceptsAnySize: return sizeInBytes > 16 << 20
        case .limitOffByOne: return sizeInBytes > 16 << 20 - 16 && sizeInBytes < 16 << 20 && isThere
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
        if defect == .decodesUnderReadLock || defect == .encodesUnderWriterLock { withLock {} }
        typed.withLock { $0 = [:] }
        setTypes.withLock { $0[key.key] = nil }
        try base.delete(name(key))
        if defect == .buriesDeleted { seen.withLock { $0.append("#" + key.key) } }
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
        let isThere = try base.contains(name(key))
        if defect == .containsIsAlwaysTrue { return true }
        if defect == .containsByAccessibility, let known = accessibilities.withLock({ $0[key.key] }) {
            return isThere && known == key.accessibility
        }
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
        typed.withLock { $0 = [:] }
        accessibilities.withLock { $0 = [:] }
        setTypes.withLock { $0 = [:] }
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
        case .keysOfOneAccessibility:
            try base.keys().filter { name in accessibilities.withLock { $0[name] } != .whenPasscodeSetThisDeviceOnly }
        case .keysTwice:
            try base.keys().flatMap { name in
                Array(repeating: name, count: max(1, setTypes.withLock { $0[name]?.count ?? 1 }))
            }
        case .keysInTextOrder: try base.keys().sorted()
        case .keysInOrderOfUTF16: try base.keys().sorted { $0.utf16.lexicographicallyPrecedes($1.utf16) }
        default: try base.keys()
        }
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        switch defect {
        case .rawValueIsAlwaysNil: nil
        case .rawOfOneAccessibility where accessibilities.withLock({ $0[name] }) == .afterFirstUnlock: nil
        case .emptyRawIsNil where try base.rawValue(named: name) == []: nil
        case .rawValidates:
            try base.rawValue(named: name).map { bytes in
                guard isEnvelope(bytes) else { throw CryptError(.undecodable, .get, key: name) }
                return bytes
            }
        case .acceptsRawNames where !isValid(name): nil
        case .codesRawValues: try base.rawValue(named: name).map { [0] + $0 }
        default: try base.rawValue(named: name)
        }
    }

    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        var bytes = bytes
        let others = defect == .restoresOthersRaw ? try others(name) : []
        defer { restore(others) }
        typed.withLock { $0 = [:] }
        if defect == .setsRawInTwoSteps, name == "pair" {
            try base.deleteValue(named: name)
            passTime()
        }
        if defect == .refusesLongRawNames, name.utf8.count == 1024 { throw CryptError(.invalidKey, .set, key: name) }
        switch defect {
        case .setRawRefusesOthers where !bytes.isEmpty && bytes.count < 1 << 20 && !isEnvelope(bytes):
            throw CryptError(.unencodable, .set, key: name)
        case .setRawKeepsOther where accessibilities.withLock({ $0[name] ?? accessibility }) != accessibility: return
        case .acceptsRawNames where !isValid(name): return
        case .acceptsAnyRawSize where bytes.count > 16 << 20: bytes = []
        case .refusesTheLargestRaw where bytes.count == 16 << 20: throw CryptError(.tooLarge, .set, key: name)
        case .keepsFirstRawValue where bytes.count < 1 << 20:
            if try base.rawValue(named: name) != nil { return }
        case .codesRawValues where bytes.count < 1 << 20: bytes = Array(bytes.dropFirst())
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
        typed.withLock { $0 = [:] }
        if defect == .acceptsRawNames, !isValid(name) { return }
        try base.deleteValue(named: name)
    }

    private func isEnvelope(_ bytes: [UInt8]) -> Bool {
        do {
            _ = try ValueEnvelope(decoding: bytes)
            return true
        } catch {
            return false
        }
    }

    private func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body()
    }

    /// The present values of the secrets that the checks change by two threads, but for one.
    private func others(_ name: String) throws -> [(name: String, bytes: [UInt8]?)] {
        guard name.hasPrefix("first.") || name.hasPrefix("second.") else { return [] }
        let other = name.hasPrefix("first.") ? "second" : "first"
        return try (0..<8).map { ("\(other).\($0)", try base.rawValue(named: "\(other).\($0)")) }
    }

    private func restore(_ others: [(name: String, bytes: [UInt8]?)]) {
        if !others.isEmpty { passTime() }
        for (name, bytes) in others {
            do {
                if let bytes {
                    try base.setRawValue(bytes, named: name, accessibility: .whenUnlocked)
                } else {
                    try base.deleteValue(named: name)
                }
            } catch {
                Issue.record(error)
            }
        }
    }
}
