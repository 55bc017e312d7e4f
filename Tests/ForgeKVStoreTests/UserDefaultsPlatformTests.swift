import ForgeCrashTesting
import ForgeFileStore
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("User defaults that a platform does not store, or cannot read yet") struct UserDefaultsPlatformTests {
    private let preferences = SimulatedPreferences()

    private func store(_ platform: UserDefaultsPlatform = UserDefaultsPlatform()) -> UserDefaultsKVStore {
        UserDefaultsKVStore(suiteName: "forge-simulated", on: platform) { [preferences] _, _ in
            preferences.process()
        }
    }

    // MARK: The limit

    @Test("a write is refused if the suite would be too large to be stored, and every acknowledged one is stored")
    func limit() throws {
        let limit = 1 << 17
        preferences.state.withLock { $0.limit = limit }
        let store = store(UserDefaultsPlatform(suiteLimit: limit))
        var acknowledged: Set<String> = []
        for number in 0..<40 {
            let key = KVKey<Data>("value \(number)")
            do {
                try store.set(key, value: Data(repeating: UInt8(number), count: 5_000))
                acknowledged.insert(key.name)
            } catch let error as KVStoreError {
                #expect(error.code == .storeTooLarge)
                #expect(error.key == key.name)
                #expect(!store.contains(key))
            }
        }
        #expect((20..<27).contains(acknowledged.count))
        #expect(Set(preferences.stored.keys) == acknowledged)
        // A smaller value is accepted, and so is a removal.
        try store.set(KVKey<Int>("small"), value: 1)
        try store.remove(KVKey<Data>("value 0"))
        try store.set(KVKey<Data>("value 30"), value: Data(count: 5_000))
        #expect(preferences.stored["small"] as? Int == 1)
        #expect(preferences.stored["value 0"] == nil)
        #expect(preferences.stored["value 30"] != nil)
    }

    @Test("a suite that is too large already can be made smaller, which is not reported as stored before it is")
    func tooLarge() throws {
        let limit = 100_000
        preferences.state.withLock { state in
            state.limit = limit
            for name in ["a", "b", "c"] { state.stored[name] = Data(count: 60_000) }
        }
        let store = store(UserDefaultsPlatform(suiteLimit: limit))
        #expect(code({ try store.set(KVKey<Int>("d"), value: 1) }) == .storeTooLarge)
        #expect(code({ try store.remove(KVKey<Data>("a")) }) == .durabilityUnknown)
        #expect(!store.contains(KVKey<Data>("a")))
        #expect(preferences.stored.count == 3)
        try store.remove(KVKey<Data>("b"))
        #expect(Array(preferences.stored.keys) == ["c"])
    }

    @Test("a value that is set aside counts")
    func setAside() throws {
        let limit = 100_000
        preferences.state.withLock { $0.limit = limit }
        let store = store(UserDefaultsPlatform(suiteLimit: limit))
        try store.set(KVKey<Data>("a"), value: Data(count: 60_000))
        let text = String(repeating: "x", count: 60_000)
        #expect(code({ try store.set(KVKey<String>("a"), value: text) }) == .storeTooLarge)
        #expect(preferences.stored["a"] as? Data == Data(count: 60_000))
        #expect(try store.setAside().isEmpty)
    }

    @Test(
        "the measured size is never below that of the system",
        arguments: [
            [:], ["a": 1], ["a": true, "b": -1.5, "é": "é😀", "d": Date(timeIntervalSince1970: 1)],
            ["list": Array(repeating: "x", count: 500), "map": ["a": ["b": [Data(count: 70_000)]]]],
            ["long": String(repeating: "é", count: 40_000)],
        ] as [[String: any Sendable]])
    func size(_ content: [String: any Sendable]) throws {
        let data = try PropertyListSerialization.data(fromPropertyList: content, format: .binary, options: 0)
        #expect(PropertyListValue.maximumSize(of: content) + 40 >= data.count)
    }

    // MARK: The lock

    @Test("before the first unlock a suite is locked, not empty; then its values are there")
    func beforeFirstUnlock() throws {
        let device = try SimulatedDevice()
        let platform = try preferences.platform(of: device)
        let key = KVKey<Int>("count")
        try store(platform).set(key, value: 3)

        device.reboot()
        preferences.restart(isReadable: false)
        let store = store(platform)
        let calls: [(String, () throws -> Void)] = [
            ("read", { _ = try store.read(key) }), ("set", { try store.set(key, value: 1) }),
            ("remove", { try store.remove(key) }), ("removeAll", { try store.removeAll() }),
            ("keys", { _ = try store.keys() }), ("rawValue", { _ = try store.rawValue(named: "count") }),
            ("setRawValue", { try store.setRawValue([], named: "count") }),
            ("removeValue", { try store.removeValue(named: "count") }), ("setAside", { _ = try store.setAside() }),
        ]
        for (name, call) in calls { #expect(code(call) == .unavailable(.locked), "\(name)") }
        #expect(store.get(key) == nil)
        #expect(!store.contains(key))
        #expect(preferences.stored["count"] as? Int == 3)

        device.unlock()
        preferences.makeReadable()
        #expect(try store.read(key) == 3)
        #expect(store.contains(key))
        #expect(try store.keys() == ["count"])

        // Later locks of the device do not affect user defaults.
        device.lock()
        #expect(try store.read(key) == 3)
        try store.set(key, value: 4)
        #expect(preferences.stored["count"] as? Int == 4)
    }

    @Test("a suite is recognised even if its first write was made while the device was locked again")
    func writtenWhileLocked() throws {
        let device = try SimulatedDevice()
        let platform = try preferences.platform(of: device)
        let key = KVKey<Int>("count")
        device.lock()
        let store = store(platform)
        try store.set(key, value: 1)
        device.unlock()
        try store.set(key, value: 2)
        device.reboot()
        preferences.restart(isReadable: false)
        #expect(code({ _ = try self.store(platform).read(key) }) == .unavailable(.locked))
    }

    @Test("a suite that other code has emptied, or that was never written, is empty")
    func emptied() throws {
        let device = try SimulatedDevice()
        let platform = try preferences.platform(of: device)
        let key = KVKey<Int>("count")
        #expect(try store(platform).read(key) == nil)
        try store(platform).set(key, value: 1)
        preferences.state.withLock { $0.stored = [:] }
        preferences.restart(isReadable: true)
        let store = store(platform)
        #expect(try store.read(key) == nil)
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
    }

    @Test("no key is the sentinel, and removing everything keeps it")
    func sentinel() throws {
        let device = try SimulatedDevice()
        let store = try store(preferences.platform(of: device))
        let key = KVKey<Int>(UserDefaultsName.sentinel)
        try store.set(key, value: 1)
        #expect(try store.keys() == [key.name])
        #expect(try store.read(key) == 1)
        try store.removeAll()
        #expect(try store.keys().isEmpty)
        #expect(preferences.state.withLock { $0.stored.keys.contains(UserDefaultsName.sentinel) })
    }
}

/// The system's service for preferences, with one suite: it does not store a change of a suite that is too large, and
/// shows no values before the first unlock, without reporting either.
private final class SimulatedPreferences: Sendable {
    struct State {
        nonisolated(unsafe) var stored: [String: Any] = [:]
        var limit = Int.max
        var isReadable = true
    }

    let state = Mutex(State())

    var stored: [String: any Sendable] {
        state.withLock { state in
            var result: [String: any Sendable] = [:]
            for (name, value) in state.stored where name != UserDefaultsName.sentinel {
                switch value {
                case let value as Data: result[name] = value
                case let value as NSNumber: result[name] = value.intValue
                default: result[name] = "another"
                }
            }
            return result
        }
    }

    func restart(isReadable: Bool) { state.withLock { $0.isReadable = isReadable } }

    func makeReadable() { state.withLock { $0.isReadable = true } }

    func process() -> sending UserDefaults? { SimulatedUserDefaults(self) }

    /// A platform with a marker on the disk of a device.
    func platform(of device: SimulatedDevice) throws -> UserDefaultsPlatform {
        let directory = device.path(of: .applicationSupport).appending("markers")
        try device.fileSystem.makeDirectories(directory)
        try device.fileSystem.setProtection(.complete, of: directory)
        return UserDefaultsPlatform(
            suiteLimit: nil,
            marker: { suite in
                let fileSystem = device.fileSystem
                return UserDefaultsMarkerFile(path: directory.appending(POSIXPath(suite)), fileSystem: fileSystem) {
                    let descriptor = try fileSystem.open(
                        $0, .writeOnly, options: [.create], permissions: .ownerReadWrite)
                    try fileSystem.close(descriptor)
                }
            })
    }
}

/// The object of one process: its own changes are visible to it, stored or not.
private final class SimulatedUserDefaults: UserDefaults {
    private let service: SimulatedPreferences
    private var unstored: [String: Any?] = [:]

    init?(_ service: SimulatedPreferences) {
        self.service = service
        super.init(suiteName: "forge-simulated")
    }

    private var content: [String: Any] {
        var content = service.state.withLock { $0.isReadable ? $0.stored : [:] }
        for (name, value) in unstored { content[name] = value }
        return content
    }

    private func change(_ name: String, _ value: Any?) {
        unstored[name] = .some(value)
        let content = content
        let isStored = service.state.withLock { state in
            guard state.isReadable, PropertyListSerialization.size(of: content) < state.limit else { return false }
            state.stored = content
            return true
        }
        if isStored { unstored = [:] }
    }

    override func object(forKey name: String) -> Any? { content[name] }
    override func set(_ value: Any?, forKey name: String) { change(name, value) }
    override func removeObject(forKey name: String) { change(name, nil) }
    override func persistentDomain(forName _: String) -> [String: Any]? { content }
    override func synchronize() -> Bool { true }

    override func removePersistentDomain(forName _: String) {
        for name in content.keys { change(name, nil) }
    }

    override func setPersistentDomain(_ domain: [String: Any], forName _: String) {
        for (name, value) in domain { change(name, value) }
    }
}

extension PropertyListSerialization {
    fileprivate static func size(of content: [String: Any]) -> Int {
        do {
            return try data(fromPropertyList: content, format: .binary, options: 0).count
        } catch {
            return .max
        }
    }
}
