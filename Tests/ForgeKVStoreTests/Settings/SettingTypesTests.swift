import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing
@testable import ForgeKVStore

/// One test per row of the table in "Declaring settings".
@Suite("Types of values") struct SettingTypesTests {
    private let store = InMemoryKVStore()
    private let name = "value"

    /// Stores a value, and reads it as its own type and as another.
    private func check<Value: Codable & Sendable & Equatable, Other: Codable & Sendable & Equatable>(
        _ value: Value, as other: Other?
    ) throws {
        try store.set(KVKey<Value>(name), value: value)
        #expect(store.get(KVKey<Value>(name)) == value)
        #expect(store.get(KVKey<Other>(name)) == other)
    }

    @Test("numbers are read as integers that hold them exactly, and as rounded floating-point numbers")
    func numbers() throws {
        try check(7, as: UInt8(7))
        try check(300, as: UInt8?.none)
        try check(2.5, as: Float(2.5))
        try check(0.1, as: Float(0.1))
        try check(2.5, as: Int?.none)
        try check(true, as: Int?.none)
        try check("text", as: Int?.none)
    }

    @Test("raw representable values are stored as their raw values")
    func rawValues() throws {
        struct Level: RawRepresentable, Codable, Equatable { var rawValue: Int }
        try check(Theme.dark, as: "dark")
        try check(Level(rawValue: 3), as: 3)
        try check("no theme", as: Theme?.none)
    }

    @Test("decimals are read as the nearest floating-point number, and as integers that hold them exactly")
    func decimals() throws {
        let exact = try #require(Decimal(string: "99999999999999999.99"))
        try check(exact, as: 1e17)
        try check(exact, as: Float(1e17))
        try check(exact, as: Int?.none)
        try check(Decimal(300), as: 300)
        try check(Decimal(300), as: UInt8?.none)
        try check(Decimal(12) * 100, as: 1_200)
        try check(0.1, as: Decimal(string: "0.1"))
    }

    @Test("dates are read only as dates")
    func dates() throws {
        try check(Date(timeIntervalSince1970: 1.5), as: Double?.none)
    }

    @Test("data and arrays of bytes are read as each other")
    func bytes() throws {
        try check(Data([1, 2, 3]), as: [1, 2, 3] as [UInt8])
        try check([1, 2, 3] as [UInt8], as: Data([1, 2, 3]))
        try check(Data([1, 2, 3]), as: String?.none)
    }

    @Test("a URL is stored as its string")
    func urls() throws {
        try check(URL(string: "https://example.com/a?b=c")!, as: "https://example.com/a?b=c")
    }

    @Test("an optional is read as its value, unless it is nil")
    func optionals() throws {
        try check(Int?.some(3), as: 3)
        try store.set(KVKey<Int?>(name), value: nil)
        #expect(store.get(KVKey<Int>(name)) == nil)
        #expect(store.get(KVKey<Int?>(name)) == .some(nil))
    }

    @Test("collections are read as collections of the types that their elements can be read as")
    func collections() throws {
        try check([Theme.dark, .light], as: ["dark", "light"])
        try check(["a": Theme.dark], as: ["a": "dark"])
        try check([Date(timeIntervalSince1970: 0)], as: [Double]?.none)
        try check(["home": URL(string: "https://example.com")!], as: ["home": "https://example.com"])
    }
}

extension KVSettings {
    fileprivate static let level = KVSetting("calls.level", default: 3)
}

@Suite("Calls of a transactional store with settings") struct SettingCallsTests {
    private let store = InMemoryKVStore()

    @Test("an update starts from the default and keeps the old value if the closure throws")
    func update() throws {
        #expect(try store.update(.level) { $0 += 1 } == 4)
        struct Failed: Error {}
        #expect(throws: Failed.self) { try store.update(.level) { _ in throw Failed() } }
        #expect(store.get(.level) == 4)
    }

    @Test("a value is created only once")
    func createIfAbsent() throws {
        #expect(try store.createIfAbsent(.level, value: 1))
        #expect(try !store.createIfAbsent(.level, value: 2))
        #expect(store.get(.level) == 1)
    }

    @Test("a batch sets and removes settings, and a snapshot reads them")
    func batch() throws {
        try store.batch { try $0.set(.level, value: 9) }
        #expect(try store.snapshot().read(.level) == 9)
        try store.batch { $0.remove(.level) }
        #expect(try store.snapshot().read(.level) == 3)
        #expect(!store.contains(.level))
    }

    @Test("a durable set flushes")
    func durable() throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(.level, value: 5, durability: .full)
        fileSystem.fail(.synchronize)
        #expect(code { try store.set(.level, value: 6, durability: .full) } == .durabilityUnknown)
    }

    @Test("only errors of a full device or quota are classified as such")
    func outOfSpace() throws {
        for (errno, isExpected) in [(Errno.noSpace, true), (.diskQuotaExceeded, true), (.ioError, false)] {
            let fileSystem = FailingFileSystem()
            var options = FileKVStore.Options()
            options.isMapped = false
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            fileSystem.fail { operation, _ in [.write, .allocate].contains(operation) ? errno : nil }
            let error = #expect(throws: KVStoreError.self) { try store.set(.level, value: 1) }
            #expect(error?.isOutOfSpace == isExpected)
        }
    }
}
