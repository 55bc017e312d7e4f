import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
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
        #expect(report.violations.map(\.check) == [defect.rawValue], "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = CarelessSecrets.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
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
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case acceptsWhenFull = "a secret that does not fit on a full device is refused, and the others are kept"
        case hidesReadOnly = "on a read-only device secrets are read, and every change is an error"
        case missesUnreadable = "a secret that cannot be read is an error and never absent, and is kept"
        case trustsOthers = "a place that belongs to another user is not written to"
    }

    private static let url = URL(filePath: "/app/secrets/vault")

    private let base: VaultCrypt
    private let device: InMemoryFileSystem
    private let defect: Defect?

    private init(_ defect: Defect?, _ device: InMemoryFileSystem, _ key: SymmetricKey) throws {
        base = try VaultCrypt(at: Self.url, key: key, fileSystem: device)
        self.defect = defect
        self.device = device
    }

    /// A location with a defect or, as the control, without any, and with every condition.
    static func location(_ defect: Defect?, _ options: InMemoryFileSystem.Options = .init()) -> SecretStoreLocation {
        let (device, key) = (InMemoryFileSystem(options: options), VaultKey.random())
        var location = SecretStoreLocation { try CarelessSecrets(defect, device, key) }
        location.fillDevice = { try device.setQuota(.init(sizeInBytes: device.usage().sizeInBytes)) }
        location.makeReadOnly = { try device.setReadOnly(true) }
        location.setFailing = { device.readError = $0 ? FileSystemError(.read, .ioError) : nil }
        location.giveAway = {
            try device.setOwner(UserID(4321), group: nil, of: .path(POSIXPath("/app/secrets")))
        }
        return location
    }

    func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
        do {
            return try base.get(key)
        } catch {
            if defect == .missesUnreadable, case .unavailable = error.code { return nil }
            throw error
        }
    }

    func contains<Value>(_ key: CryptKey<Value>) throws -> Bool { try base.contains(key) }

    func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
        try change { () throws(CryptError) in try base.set(value, for: key) }
    }

    func delete<Value>(_ key: CryptKey<Value>) throws { try change { () throws(CryptError) in try base.delete(key) } }

    func deleteAll() throws { try change { () throws(CryptError) in try base.deleteAll() } }

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
