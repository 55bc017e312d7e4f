import ForgeCoding
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import TestDepth
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

    @Test(
        "each detect their defect, and some are the only one to do so", arguments: BrokenSecretLocation.Defect.allCases)
    func defects(_ defect: BrokenSecretLocation.Defect) async throws {
        let turn = BrokenSecretLocation.Defect.allCases.firstIndex(of: defect) ?? 0
        let checks =
            defect.isFoundByOneCheck
            ? TestDepth.checks(Self.checks, turn: turn) { $0.description == defect.check }
            : Self.checks.filter { $0.description == defect.check }
        let report = await ConformanceSuite("secrets, reopened", checks).run(on: "\(defect)") {
            BrokenSecretLocation(defect).location
        }
        #expect(report.violations.map(\.check) == [defect.check], "\(report)")
    }

    @Test("have a defect each")
    func completeness() {
        let planted = Set(BrokenSecretLocation.Defect.allCases.map(\.check))
        #expect(planted.symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("name the calls that led to a violation")
    func messages() async {
        let report = await ConformanceSuite.secretStorePersistence.run(on: "broken") {
            BrokenSecretLocation(.skipsEqual).location
        }
        #expect(
            "\(report)".contains(
                #"after set("1", for: a) and delete(a) by another store and set("1", for: a): expected "1", got nil"#),
            "\(report)")
    }
}

extension [[UInt8]: [UInt8]] {
    /// The number of bytes of all names and values.
    fileprivate var size: Int { reduce(0) { $0 + $1.key.count + $1.value.count } }
}

/// A location of secrets with one defect.
final class BrokenSecretLocation: Sendable {
    enum Defect: CaseIterable, Sendable {
        case remembersQuestions, losesLargeValues, foldsNames, keepsTheFirst, deletesInMemory, deletesAllInMemory
        case readsOnce, readsOnceWhenFilled, readsOtherSizes, createsWithoutLooking
        case trimsNames, stripsByteOrderMark, decodesNames, cutsLines, keysInTextOrder, dropsNil, dropsEmptyRaw,
            cuts24Bits
        case skipsEqual, deletesIfKnown, containsKnown, deletesAllKnown, listsKnown, readsRawKnown
        case setsRawInMemory, deletesRawInMemory, createsByKnown, createsInMemory, createsInTwoSteps, writesInTwoSteps
        case dropsRefusing, restoresDeleted

        /// The description of the check that must fail.
        var check: String {
            switch self {
            case .remembersQuestions: "a new location has no secrets, whatever was called there"
            case .losesLargeValues: "secrets of every size survive reopening"
            case .foldsNames, .trimsNames, .stripsByteOrderMark, .decodesNames, .cutsLines:
                "names survive reopening byte for byte"
            case .keysInTextOrder: "keys lists the names in byte order after reopening"
            case .dropsNil: "values of every kind survive reopening, also a stored nil"
            case .dropsEmptyRaw, .cuts24Bits: "raw values of 0 bytes to 16 MiB survive reopening"
            case .keepsTheFirst: "the last of several writes of a name survives reopening"
            case .deletesInMemory: "a deleted secret stays deleted after reopening, and the others are kept"
            case .deletesAllInMemory: "deleteAll is kept after reopening, and the location can be filled again"
            case .readsOnce: "a store sees what another one over the same location has written and deleted"
            case .readsOnceWhenFilled, .readsOtherSizes:
                "a store that is opened after a write sees the later ones of another store"
            case .skipsEqual, .deletesIfKnown, .containsKnown, .deletesAllKnown:
                "a store acts on what another one has changed since its own last call"
            case .listsKnown: "a store lists what another one has changed since its own last call"
            case .readsRawKnown, .setsRawInMemory, .deletesRawInMemory:
                "the calls for raw values act on what another store has changed, and others on what they change"
            case .createsByKnown, .createsInMemory, .createsWithoutLooking:
                "createIfAbsent acts on what another store has changed, and others on what it creates"
            case .createsInTwoSteps: "only one of two stores creates a secret"
            case .restoresDeleted: "deleteAll removes every secret, also while another store changes others"
            case .dropsRefusing: "the secret that a refused set would have replaced survives reopening"
            case .writesInTwoSteps: "concurrent changes of two stores over one location are all kept"
            }
        }

        var isFoundByOneCheck: Bool {
            switch self {
            case .keysInTextOrder, .dropsNil, .dropsEmptyRaw, .cuts24Bits, .listsKnown, .readsRawKnown,
                .deletesRawInMemory, .createsInTwoSteps, .dropsRefusing:
                true
            default: false
            }
        }
    }

    private typealias Values = [[UInt8]: [UInt8]]

    private let defect: Defect?
    /// What is kept: the encoded values by the bytes of their names.
    private let disk = Mutex<Values>([:])
    /// The names whose values the next store does not find.
    private let dropped = Mutex<[[UInt8]]>([])
    private let deletionCount = Mutex(0)

    /// A location with a defect or, as the control, without any.
    init(_ defect: Defect?) { self.defect = defect }

    var location: SecretStoreLocation { SecretStoreLocation { Store(self) } }

    /// A store that reads everything before every call, unless the defect is that it does not.
    private final class Store: CryptStoring {
        private let place: BrokenSecretLocation
        private let memory: Mutex<Values>
        private let ownLast = Mutex<Values>([:])
        private let readsOnce: Bool
        private var defect: Defect? { place.defect }

        init(_ place: BrokenSecretLocation) {
            self.place = place
            for name in place.dropped.withLock(\.self) { place.disk.withLock { $0[name] = nil } }
            let values = place.disk.withLock { $0 }
            readsOnce = place.defect == .readsOnce || place.defect == .readsOnceWhenFilled && !values.isEmpty
            memory = Mutex(values)
        }

        private func read<Result>(_ stale: Defect? = nil, _ body: (Values) -> Result) -> Result {
            place.disk.withLock { disk in
                memory.withLock { memory in
                    let isSkipped = defect == .readsOtherSizes && memory.size == disk.size
                    if !readsOnce, !isSkipped, stale == nil || defect != stale { memory = disk }
                    return body(memory)
                }
            }
        }

        private func change<Result>(unsaved: Defect? = nil, _ body: (inout Values) -> Result) -> Result {
            if defect == .writesInTwoSteps {
                var values = place.disk.withLock { $0 }
                let result = body(&values)
                passTime()
                place.disk.withLock { $0 = values }
                return result
            }
            if defect == .restoresDeleted {
                let count = place.deletionCount.withLock(\.self)
                var values = place.disk.withLock(\.self)
                _ = body(&values)
                passTime()
                if place.deletionCount.withLock(\.self) > count { place.disk.withLock { $0 = values } }
            }
            return place.disk.withLock { disk in
                memory.withLock { memory in
                    if !readsOnce { memory = disk }
                    let result = body(&memory)
                    if unsaved == nil || defect != unsaved { disk = memory }
                    return result
                }
            }
        }

        private func bytes(_ name: String) -> [UInt8] {
            let name =
                switch defect {
                case .foldsNames: name.precomposedStringWithCanonicalMapping
                case .trimsNames: name.trimmingCharacters(in: .whitespaces)
                case .stripsByteOrderMark: name.unicodeScalars.first == "\u{FEFF}" ? String(name.dropFirst()) : name
                case .decodesNames: name.removingPercentEncoding ?? name
                case .cutsLines: String(name.prefix { $0 != "\n" })
                default: name
                }
            return Array(name.utf8)
        }

        func get<Value>(_ key: CryptKey<Value>) throws -> Value? {
            let name = bytes(key.key)
            guard let encoded = read(nil, { $0[name] }) else {
                if defect == .remembersQuestions { change { $0[name] = [0] } }
                return nil
            }
            return try ValueCoder().decode(Value.self, from: encoded)
        }

        func set<Value>(_ value: Value, for key: CryptKey<Value>) throws {
            let name = bytes(key.key)
            if defect == .dropsRefusing { place.dropped.withLock { $0.append(name) } }
            let encoded = try ValueCoder().encode(value)
            place.dropped.withLock { $0.removeAll { $0 == name } }
            if defect == .dropsNil, try ValueCoder().encode(String?.none) == encoded { return }
            if defect == .losesLargeValues, encoded.count > 4_096 { return }
            if defect == .skipsEqual, ownLast.withLock({ $0[name] }) == encoded { return }
            change { if defect != .keepsTheFirst || $0[name] == nil { $0[name] = encoded } }
            ownLast.withLock { $0[name] = encoded }
        }

        func createIfAbsent<Value>(_ value: Value, for key: CryptKey<Value>) throws -> Bool {
            let (name, encoded) = (bytes(key.key), try ValueCoder().encode(value))
            if defect == .createsInTwoSteps {
                guard read(nil, { $0[name] }) == nil else { return false }
                passTime()
                try set(value, for: key)
                return true
            }
            if defect == .createsByKnown {
                guard read(.createsByKnown, { $0[name] }) == nil else { return false }
                try set(value, for: key)
                return true
            }
            return change(unsaved: .createsInMemory) { values in
                guard values[name] == nil || defect == .createsWithoutLooking else { return false }
                values[name] = encoded
                return true
            }
        }

        func delete<Value>(_ key: CryptKey<Value>) throws {
            let name = bytes(key.key)
            ownLast.withLock { $0[name] = nil }
            if defect == .deletesIfKnown, read(.deletesIfKnown, { $0[name] }) == nil { return }
            change(unsaved: .deletesInMemory) { $0[name] = nil }
        }

        func contains<Value>(_ key: CryptKey<Value>) throws -> Bool {
            let name = bytes(key.key)
            return read(.containsKnown) { $0[name] != nil }
        }

        func deleteAll() throws {
            if defect == .restoresDeleted {
                place.disk.withLock { $0 = [:] }
                return place.deletionCount.withLock { $0 += 1 }
            }
            ownLast.withLock { $0 = [:] }
            let known = read(.deletesAllKnown) { $0.keys }
            change(unsaved: .deletesAllInMemory) { values in
                if defect != .deletesAllKnown { return values = [:] }
                for name in known { values[name] = nil }
            }
        }

        func keys() throws -> [String] {
            let names = read(.listsKnown) { Array($0.keys) }
            if defect == .keysInTextOrder { return names.map { String(decoding: $0, as: UTF8.self) }.sorted() }
            return names.sorted { $0.lexicographicallyPrecedes($1) }.map { String(decoding: $0, as: UTF8.self) }
        }

        func rawValue(named name: String) throws -> [UInt8]? {
            let name = bytes(name)
            return read(.readsRawKnown) { $0[name] }
        }

        func setRawValue(_ encoded: [UInt8], named name: String, accessibility: CryptAccessibility) throws {
            let name = bytes(name)
            if defect == .dropsEmptyRaw, encoded.isEmpty { return }
            let isTooLong = defect == .cuts24Bits && encoded.count == 1 << 24
            change(unsaved: .setsRawInMemory) { $0[name] = isTooLong ? [] : encoded }
        }

        func deleteValue(named name: String) throws {
            let name = bytes(name)
            change(unsaved: .deletesRawInMemory) { $0[name] = nil }
        }
    }
}
