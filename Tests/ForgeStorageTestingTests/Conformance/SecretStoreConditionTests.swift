import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("The checks of a secret store under conditions")
struct SecretStoreConditionTests {
    private static let checks = ConformanceChecks.secretStoreConditions

    @Test("pass for a vault, in memory and as on a Mac", arguments: checks)
    func sound(_ check: ConformanceCheck<SecretStoreLocation>) async throws {
        for options in [InMemoryFileSystem.Options(), .darwin] {
            try await check.run(on: CarelessSecrets.location(nil, options))
        }
    }

    @Test("each detect their defect, and no other check does", arguments: CarelessSecrets.Defect.allCases)
    func defects(_ defect: CarelessSecrets.Defect) async {
        let report = await ConformanceSuite.secretStoreConditions.run(on: "\(defect)") {
            CarelessSecrets.location(defect)
        }
        var checks = [defect.check]
        if [.acceptsWhenFull, .createsWhenFull, .listsRefused].contains(defect) {
            checks.append(CarelessSecrets.Defect.hidesFullAtFirst.check)
        }
        #expect(report.violations.map(\.check) == checks, "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = CarelessSecrets.Defect.allCases.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("pass for a store with the required calls only", arguments: checks)
    func required(_ check: ConformanceCheck<SecretStoreLocation>) async throws {
        try await check.run(on: CarelessSecrets.location(nil) { RequiredSecrets(base: $0) })
    }

    @Test(
        "pass for a store that refuses to open in a place of another user",
        arguments: [CryptError.Code.insecureFile, .unavailable(.inputOutput)])
    func refusedOpen(_ code: CryptError.Code) async throws {
        let check = try #require(Self.checks.first { $0.description == CarelessSecrets.Defect.trustsOthers.check })
        try await check.run(
            on: CarelessSecrets.location(nil) { store in
                do {
                    _ = try store.contains(CryptKey<String>(key: "a"))
                } catch {
                    throw CryptError(code, .open)
                }
                return store
            })
    }

    @Test("pass for a vault whose file or directory other users can access", arguments: ["vault", ""])
    func accessible(_ name: POSIXPath) async throws {
        let check = try #require(Self.checks.first { $0.description == CarelessSecrets.Defect.trustsOthers.check })
        let (device, key) = (InMemoryFileSystem(), VaultKey.random())
        let directory: POSIXPath = "/app/secrets"
        var location = SecretStoreLocation {
            try VaultCrypt(at: URL(directory.appending("vault")), key: key, fileSystem: device)
        }
        location.giveAway = {
            let place = name.isEmpty ? directory : directory.appending(name)
            try device.setPermissions(FilePermissions(rawValue: 0o777), of: .path(place))
        }
        try await check.run(on: location)
    }

    @Test("never pass for a location that offers nothing")
    func nothing() async {
        let memory = InMemoryCrypt()
        let suite = ConformanceSuite.secretStoreConditions
        let declared = await suite.run(on: "declared") { SecretStoreLocation { memory } }
        #expect(declared.violations.count == suite.checks.count, "\(declared)")
        let undeclared = await suite.run(on: "undeclared", having: []) { SecretStoreLocation { memory } }
        #expect(undeclared.notApplicable.count == suite.checks.count, "\(undeclared)")
        #expect(!undeclared.holds)
    }
}

/// A vault with one defect that shows under a condition, to test that the corresponding check fails.
final class CarelessSecrets: CryptStoring {
    enum Defect: CaseIterable, Sendable {
        case acceptsWhenFull, createsWhenFull, listsRefused, hidesFullAtFirst
        case hidesReadOnly, createsOnReadOnly, setsRawOnReadOnly
        case missesUnreadable, createsUnreadable, listsNothing, missesRaw, callsItDamage, omitsName
        case forgetsAfterFailure
        case trustsOthers, createsForOthers, setsRawForOthers

        /// The description of the check that must fail.
        var check: String {
            switch self {
            case .acceptsWhenFull, .createsWhenFull, .listsRefused:
                "a secret that does not fit on a full device is refused, and the others are kept"
            case .hidesFullAtFirst: "the first secret of a location is refused if it does not fit on a full device"
            case .hidesReadOnly, .createsOnReadOnly, .setsRawOnReadOnly:
                "on a read-only device secrets are read, and every change is an error"
            case .missesUnreadable, .createsUnreadable, .listsNothing, .missesRaw, .callsItDamage, .omitsName,
                .forgetsAfterFailure:
                "a secret that cannot be read is an error and never absent, and is kept"
            case .trustsOthers, .createsForOthers, .setsRawForOthers:
                "a place that belongs to another user is not written to"
            }
        }
    }

    private static let url = URL(filePath: "/app/secrets/vault")

    private let base: VaultCrypt
    private let device: InMemoryFileSystem
    private let defect: Defect?
    private let refused = Mutex<Set<String>>([])
    /// Whether a read has failed.
    private let hasFailed = Mutex(false)

    private init(_ defect: Defect?, _ device: InMemoryFileSystem, _ key: SymmetricKey) throws {
        base = try VaultCrypt(at: Self.url, key: key, fileSystem: device)
        self.defect = defect
        self.device = device
    }

    /// A location with a defect or, as the control, without any, and with every condition.
    static func location(
        _ defect: Defect?, _ options: InMemoryFileSystem.Options = .init(),
        open: @escaping @Sendable (any CryptStoring) throws -> any CryptStoring = { $0 }
    ) -> SecretStoreLocation {
        let (device, key) = (InMemoryFileSystem(options: options), VaultKey.random())
        var location = SecretStoreLocation { try open(CarelessSecrets(defect, device, key)) }
        location.fillDevice = { try device.setQuota(.init(sizeInBytes: device.usage().sizeInBytes)) }
        location.makeReadOnly = { try device.setReadOnly(true) }
        location.setFailing = { device.readError = $0 ? FileSystemError(.read, .ioError) : nil }
        location.giveAway = {
            try device.setOwner(UserID(4321), group: nil, of: .path(POSIXPath("/app/secrets")))
        }
        return location
    }

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
        if defect == .forgetsAfterFailure, device.readError == nil, hasFailed.withLock({ $0 }) { return nil }
        do {
            return try read(.missesUnreadable, nil) { () throws(CryptError) in try base.get(key) }
        } catch {
            if device.readError != nil { hasFailed.withLock { $0 = true } }
            throw error
        }
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
        do {
            return try base.contains(key)
        } catch {
            var error = error
            if defect == .callsItDamage, device.readError != nil { error.code = .tampered }
            if defect == .omitsName, device.readError != nil { error.key = nil }
            throw error
        }
    }

    func keys() throws -> [String] {
        let names = try read(.listsNothing, []) { () throws(CryptError) in try base.keys() }
        return names + refused.withLock { Array($0.subtracting(names)) }
    }

    func rawValue(named name: String) throws -> [UInt8]? {
        try read(.missesRaw, nil) { () throws(CryptError) in try base.rawValue(named: name) }
    }

    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
        do {
            try change { () throws(CryptError) in try base.set(value, for: key) }
        } catch {
            if defect == .listsRefused, error.code == .noSpace { refused.withLock { _ = $0.insert(key.key) } }
            var error = error
            if defect == .hidesFullAtFirst, error.code == .noSpace, try base.keys().isEmpty {
                error.code = .unavailable(.inputOutput)
            }
            throw error
        }
    }

    func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
        do {
            return try base.createIfAbsent(value, for: key)
        } catch {
            switch (defect, error.code) {
            case (.createsWhenFull, .noSpace), (.createsForOthers, .insecureFile): return true
            case (.createsOnReadOnly, .unavailable) where device.readError == nil: return true
            case (.createsUnreadable, .unavailable) where device.readError != nil: return true
            default: throw error
            }
        }
    }

    func setRawValue(_ bytes: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
        do {
            try base.setRawValue(bytes, named: name, accessibility: accessibility)
        } catch {
            switch (defect, error.code) {
            case (.setsRawForOthers, .insecureFile): return
            case (.setsRawOnReadOnly, .unavailable) where device.readError == nil: return
            default: throw error
            }
        }
    }

    func delete<Value>(_ key: CryptKey<Value>) throws { try change { () throws(CryptError) in try base.delete(key) } }

    func deleteValue(named name: String) throws {
        try change { () throws(CryptError) in try base.deleteValue(named: name) }
    }

    func deleteAll() throws { try change { () throws(CryptError) in try base.deleteAll() } }

    /// Calls `body`; its error is `absent` with the given defect.
    private func read<Result>(
        _ hiding: Defect, _ absent: Result, _ body: () throws(CryptError) -> Result
    ) throws(CryptError) -> Result {
        do {
            return try body()
        } catch {
            if defect == hiding, case .unavailable = error.code { return absent }
            throw error
        }
    }

    private func change(_ body: () throws(CryptError) -> Void) throws(CryptError) {
        do {
            try body()
        } catch {
            switch (defect, error.code) {
            case (.acceptsWhenFull, .noSpace), (.trustsOthers, .insecureFile): return
            case (.hidesReadOnly, .unavailable) where device.readError == nil: return
            default: throw error
            }
        }
    }
}

/// A store with the required calls only.
private struct RequiredSecrets: CryptStoring {
    let base: any CryptStoring

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? { try base.get(key) }
    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws { try base.set(value, for: key) }
    func delete<Value>(_ key: CryptKey<Value>) throws { try base.delete(key) }
    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { try base.contains(key) }
    func deleteAll() throws { try base.deleteAll() }
}
