import ChildProcesses
import ForgeCoding
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

    #if os(Linux)
    @Test("a file that is incomplete only while Foundation writes it in place is not damaged", arguments: 1...4)
    func fileBeingWritten(waitCount: Int) throws {
        let suite = TemporarySuite()
        let home = try #require(ProcessInfo.processInfo.environment["HOME"])
        let url = URL(fileURLWithPath: "\(home)/.config/\(suite.name).plist")
        let whole = try PropertyListSerialization.data(fromPropertyList: ["a": 1], format: .xml, options: 0)
        try FileManager.default.createDirectory(atPath: "\(home)/.config", withIntermediateDirectories: true)
        try Data().write(to: url)
        let waits = Mutex(0)
        let file = UserDefaultsFile(ofSuite: suite.name) {
            let count = waits.withLock { count in
                count += 1
                return count
            }
            guard count == waitCount else { return }
            do { try whole.write(to: url) } catch { Issue.record(error) }
        }
        let expected: KVStoreError.Code? = waitCount <= 3 ? nil : .damaged
        #expect(file.problem(beforeWriting: false) == expected)
        #expect(waits.withLock { $0 } == min(waitCount, 3))
    }
    #endif

    // MARK: The limit

    @Test("a value of exactly the limit is stored, and a longer one is refused, typed or raw")
    func valueLimit() throws {
        let store = UserDefaultsKVStore(
            suiteName: "forge-simulated", on: UserDefaultsPlatform(), maximumValueSizeInBytes: 100
        ) { [preferences] _, _ in
            preferences.process()
        }
        let key = KVKey<Data>("a")
        let overhead = try key.encode(Data(count: 90)).count - 90
        let (exact, longer) = (Data(count: 100 - overhead), Data(count: 101 - overhead))
        let writes: [(Data) throws -> Void] = [
            { try store.set(key, value: $0) }, { try store.setRawValue(key.encode($0), named: "a") },
        ]
        for write in writes {
            try write(exact)
            let error = #expect(throws: KVStoreError.self) { try write(longer) }
            #expect(error?.code == .valueTooLarge && error?.key == "a")
            #expect(store.get(key) == exact)
            try store.remove(key)
        }
    }

    @Test("a write fails if decoding the old value writes the key itself")
    func rewriting() throws {
        let store = store()
        try store.set(KVKey<Int>("a"), value: 0)
        let error = try #require(throws: KVStoreError.self) {
            try RewritingValue.rewriting(
                { [preferences] number in
                    preferences.state.withLock { $0.stored["a"] = number }
                }, during: { try store.set(KVKey<RewritingValue>("a"), value: RewritingValue()) })
        }
        #expect(error.code == .conflict && error.key == "a")
    }

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
        let other = Data(repeating: 1, count: 60_000)
        #expect(code({ try store.set(KVKey<Data>("a"), value: other) }) == .storeTooLarge)
        #expect(preferences.stored["a"] as? Data == Data(count: 60_000))
        #expect(code({ try store.remove(KVKey<Data>("a")) }) == .durabilityUnknown)
        #expect(!store.contains(KVKey<Data>("a")))
        #expect(preferences.stored.count == 3)
        try store.remove(KVKey<Data>("b"))
        #expect(Array(preferences.stored.keys) == ["c"])
    }

    @Test("a suite of exactly the limit is too large, and a sentinel counts", arguments: [false, true])
    func exactLimit(hasMarker: Bool) throws {
        let marked = try preferences.platform(of: SimulatedDevice())
        let value = Data(count: 1_000)
        var content: [String: Any] = ["a": value]
        if hasMarker { content[UserDefaultsName.sentinel] = true }
        let size = PropertyListValue.maximumSize(of: content)
        for limit in [size, size + 1] {
            let platform = UserDefaultsPlatform(suiteLimit: limit, marker: hasMarker ? marked.marker : nil)
            let result = code { try store(platform).set(KVKey<Data>("a"), value: value) }
            #expect(result == (limit == size ? .storeTooLarge : nil))
        }
    }

    @Test("an object of other code that is replaced does not count")
    func replacedObject() throws {
        let limit = 100_000
        preferences.state.withLock { state in
            state.limit = limit
            state.stored["größe"] = Data(count: 60_000)
        }
        let store = store(UserDefaultsPlatform(suiteLimit: limit))
        try store.set(KVKey<Data>("größe"), value: Data(count: 50_000))
        #expect(Array(preferences.stored.keys) == [UserDefaultsName.encoded("größe")])
        #expect(try store.read(KVKey<Data>("größe")) == Data(count: 50_000))
    }

    @Test("a value that is set aside counts")
    func setAside() throws {
        let limit = 100_000
        preferences.state.withLock { $0.limit = limit }
        let store = store(UserDefaultsPlatform(suiteLimit: limit))
        try store.set(KVKey<Data>("a"), value: Data(count: 60_000))
        // Small enough for the limit by itself.
        let text = String(repeating: "x", count: 25_000)
        #expect(code({ try store.set(KVKey<String>("a"), value: text) }) == .storeTooLarge)
        #expect(preferences.stored["a"] as? Data == Data(count: 60_000))
        #expect(try store.setAside().isEmpty)
    }

    @Test(
        "the measured size is never below that of the system",
        arguments: [
            [:], ["a": 1], ["a": true, "b": -1.5, "é": "é😀", "d": Date(timeIntervalSince1970: 1)],
            ["list": Array(repeating: "x", count: 500), "map": ["a": ["b": [Data(count: 70_000)]]]],
            ["long": String(repeating: "é", count: 40_000)], ["numbers": (0..<500).map { Double($0) + 0.5 }],
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

    @Test("a suite that was found readable stays so, although the device is locked and other code empties it")
    func foundReadable() throws {
        let device = try SimulatedDevice()
        let store = try store(preferences.platform(of: device))
        let key = KVKey<Int>("count")
        try store.set(key, value: 1)
        #expect(try store.read(key) == 1)
        preferences.state.withLock { $0.stored = [:] }
        device.lock()
        #expect(try store.read(key) == nil)
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

@Suite("A value as an object of a property list") struct PropertyListValueTests {
    /// Whether a value is stored as an object that other code can read, and not as coded bytes.
    private func isNative<Value: Codable & Sendable>(_ value: Value) throws -> Bool {
        let object = PropertyListValue.object(
            for: try KVKey<Value>("a").encode(value), isDictionary: value is [String: any Sendable])
        guard let data = object as? Data else { return true }
        return !data.starts(with: PropertyListValue.marker)
    }

    @Test("is native if a property list keeps it exactly")
    func native() throws {
        for number in [0, -1.5, .greatestFiniteMagnitude] as [Double] { #expect(try isNative(number)) }
        for number in [-0.0, .infinity, -.infinity, .nan] as [Double] {
            #expect(try !isNative(number))
            #expect(try !isNative(Float(number)))
            #expect(try !isNative([number]))
            #expect(try !isNative(["a": number]))
        }
        #expect(try isNative(Int.max))
        #expect(try !isNative(UInt64.max))
        for text in ["", "a\tb\nc", " ~", "é", "\u{A0}", "\u{FFFD}"] { #expect(try isNative(text)) }
        for text in ["\0", "\u{8}", "\r", "\u{1F}", "\u{7F}", "\u{9F}", "a\u{FEFF}", "\u{FFFE}", "\u{FFFF}"] {
            #expect(try !isNative(text), "\(text.unicodeScalars.map(\.value))")
        }
        let marker = PropertyListValue.marker
        #expect(try isNative(Data()))
        #expect(try isNative(Data(marker.dropLast())))
        #expect(try !isNative(Data(marker)))
        for seconds in [-11_676_096_000, 0, 253_402_300_799] as [Double] {
            #expect(try isNative(Date(timeIntervalSince1970: seconds)))
        }
        for seconds in [-11_676_096_001, 0.5, 253_402_300_800] {
            #expect(try !isNative(Date(timeIntervalSince1970: seconds)))
        }
        #expect(try isNative(["a": ["b": [1]]]))
        for name in ["", "é", "#forge:a", UserDefaultsName.sentinel] { #expect(try !isNative([name: 1])) }
        #expect(try !isNative(Int?.none))
        #expect(try !isNative([1, nil] as [Int?]))
    }

    @Test("that other code has stored may be an unsigned number")
    func unsigned() throws {
        let number = NSNumber(value: UInt64.max)
        #expect(try PropertyListValue.encoded(number) == KVKey<UInt64>("a").encode(.max))
        #expect(try PropertyListValue.convertedNumber(number) == KVKey<Bool>("a").encode(true))
    }

    @Test("that other code has stored nests up to 64 levels deep, in lists and in dictionaries")
    func depth() throws {
        func list(_ depth: Int) -> Any { (0..<depth).reduce("x" as Any) { inner, _ in [inner] } }
        func dictionary(_ depth: Int) -> Any {
            (0..<depth).reduce("x" as Any) { inner, _ in ["a": inner] as [String: Any] }
        }
        for nested in [list, dictionary] {
            #expect(PropertyListValue.bytes(of: nested(64)) != nil)
            let error = #expect(throws: CodingFailure.self) { try PropertyListValue.encoded(nested(65)) }
            #expect(error.map { "\($0)" } == "decode: more than 64 levels of nesting")
        }
    }

    #if os(Linux)
    // In a separate process: the variables are those of the process.
    @Test("is in a file below the directory for configuration files", .onOwnThreads)
    func directory() async {
        await #expect(processExitsWith: .success) {
            let directory = FileManager.default.temporaryDirectory.appending(path: "forge-kv-\(UUID())").path
            defer { do { try FileManager.default.removeItem(atPath: directory) } catch { Issue.record(error) } }
            for (name, content) in [("own", ["a": 1]), (".config", ["a": 1, "b": 2])] {
                try FileManager.default.createDirectory(
                    atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
                try PropertyListSerialization.data(fromPropertyList: content, format: .xml, options: 0)
                    .write(to: URL(fileURLWithPath: "\(directory)/\(name)/suite.plist"))
            }
            setenv("HOME", directory, 1)
            for (variable, count) in [("\(directory)/own", 1), ("own", 2), ("", 2), ("/", 2)] {
                setenv("XDG_CONFIG_HOME", variable, 1)
                #expect(UserDefaultsFile(ofSuite: "suite").content?.count == count, "\(variable)")
            }
            unsetenv("XDG_CONFIG_HOME")
            #expect(UserDefaultsFile(ofSuite: "suite").content?.count == 2)
        }
    }
    #endif

    @Test("has a name that is encoded unless it is of printable ASCII")
    func names() {
        for (name, expected) in [
            ("a b~", "a b~"), ("", "#forge:"), ("\u{F}a%", "#forge:%0fa%25"), ("\u{10}", "#forge:%10"),
            ("é", "#forge:%c3%a9"), ("#forge:", "#forge:#forge:"), ("#forge-readable", "#forge:#forge-readable"),
        ] { #expect(UserDefaultsName.encoded(name) == expected) }
        for scalar in (UInt32(0)..<0x300).compactMap({ Unicode.Scalar($0) }) {
            let name = String(Character(scalar))
            #expect(UserDefaultsName.decoded(UserDefaultsName.encoded(name)).hasSameBytes(as: name))
        }
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
