import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

@Suite("The checks of a reopened store of secrets")
struct SecretStorePersistenceTests {
    private static let checks = ConformanceChecks.secretStorePersistence

    @Test("pass for a vault, in memory and as on a Mac", arguments: checks)
    func vault(_ check: ConformanceCheck<SecretStoreLocation>) async throws {
        for options in [InMemoryFileSystem.Options(), .darwin] {
            let (fileSystem, key) = (InMemoryFileSystem(options: options), VaultKey.random())
            try await check.run(
                on: SecretStoreLocation {
                    try VaultCrypt(at: URL(filePath: "/app/vault"), key: key, fileSystem: fileSystem)
                })
        }
    }

    @Test("pass for the Keychain, and for a store in memory that is opened once", arguments: checks)
    func others(_ check: ConformanceCheck<SecretStoreLocation>) async throws {
        let (keychain, memory) = (FakeKeychain(), InMemoryCrypt())
        try await check.run(on: SecretStoreLocation { keychain.store() })
        try await check.run(on: SecretStoreLocation { memory })
    }

    @Test("pass for a location without a defect", arguments: checks)
    func sound(_ check: ConformanceCheck<SecretStoreLocation>) async throws {
        try await check.run(on: BrokenSecretLocation(nil).location)
    }

    @Test("each detect their defect", arguments: BrokenSecretLocation.Defect.allCases)
    func defects(_ defect: BrokenSecretLocation.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.rawValue })
        await #expect(throws: ConformanceViolation.self) {
            try await check.run(on: BrokenSecretLocation(defect).location)
        }
    }

    @Test("alone detect a store that reads once if it finds secrets")
    func alone() async {
        let report = await ConformanceSuite.secretStorePersistence.run(on: "broken") {
            BrokenSecretLocation(.readsOnceWhenFilled).location
        }
        #expect(
            report.violations.map(\.check) == [BrokenSecretLocation.Defect.readsOnceWhenFilled.rawValue], "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = BrokenSecretLocation.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }
}

/// A location of secrets with one defect.
final class BrokenSecretLocation: Sendable {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case remembersQuestions = "a new location has no secrets, whatever was called there"
        case losesLargeValues = "secrets of every size survive reopening"
        case foldsNames = "names survive reopening byte for byte, in order"
        case keepsTheFirst = "the last of several writes of a name survives reopening"
        case deletesInMemory = "a deleted secret stays deleted after reopening, and the others are kept"
        case deletesAllInMemory = "deleteAll is kept after reopening, and the location can be filled again"
        case readsOnce = "a store sees what another one over the same location has written and deleted"
        case readsOnceWhenFilled = "a store that is opened after a write sees the later ones of another store"
        case createsTwice = "only one of two stores creates a secret"
        case overwritesOthers = "concurrent writes of several stores over one location are all kept"
    }

    private typealias Values = [[UInt8]: String]

    private let defect: Defect?
    /// What is kept: the values by the bytes of their names.
    private let disk = Mutex<Values>([:])

    /// A location with a defect or, as the control, without any.
    init(_ defect: Defect?) { self.defect = defect }

    var location: SecretStoreLocation { SecretStoreLocation { Store(self) } }

    /// A store that reads everything when it is opened, and with most defects before every call.
    private final class Store: CryptStoring {
        private let place: BrokenSecretLocation
        private let memory: Mutex<Values>
        private let foundValues: Bool
        private var defect: Defect? { place.defect }

        init(_ place: BrokenSecretLocation) {
            self.place = place
            let values = place.disk.withLock { $0 }
            foundValues = !values.isEmpty
            memory = Mutex(values)
        }

        /// Calls `body` with what the store has in memory and what is kept.
        private func access<Result>(_ body: (_ memory: inout Values, _ disk: inout Values) -> Result) -> Result {
            place.disk.withLock { disk in
                memory.withLock { memory in
                    if defect == .readsOnceWhenFilled, foundValues { return body(&memory, &disk) }
                    if defect != .readsOnce, defect != .createsTwice, defect != .overwritesOthers { memory = disk }
                    return body(&memory, &disk)
                }
            }
        }

        private func name<Value>(_ key: CryptKey<Value>) -> [UInt8] {
            Array((defect == .foldsNames ? key.key.precomposedStringWithCanonicalMapping : key.key).utf8)
        }

        func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
            access { memory, disk in
                let value = memory[name(key)]
                if defect == .remembersQuestions, value == nil { disk[name(key)] = "asked" }
                return value as? Value
            }
        }

        func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
            guard let text = value as? String else { return }
            access { memory, disk in
                if defect == .keepsTheFirst, memory[name(key)] != nil { return }
                memory[name(key)] = text
                if defect != .losesLargeValues || text.utf8.count <= 4_096 { disk = memory }
            }
        }

        func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
            guard try get(key) == nil else { return false }
            try set(value, for: key)
            return true
        }

        func delete<Value>(_ key: CryptKey<Value>) throws {
            access { memory, disk in
                memory[name(key)] = nil
                if defect != .deletesInMemory { disk = memory }
            }
        }

        func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
            access { memory, _ in memory[name(key)] != nil }
        }

        func deleteAll() throws {
            access { memory, disk in
                memory = [:]
                if defect != .deletesAllInMemory { disk = memory }
            }
        }

        func keys() throws -> [String] {
            access { memory, _ in
                memory.keys.sorted { $0.lexicographicallyPrecedes($1) }.map { String(decoding: $0, as: UTF8.self) }
            }
        }
    }
}
