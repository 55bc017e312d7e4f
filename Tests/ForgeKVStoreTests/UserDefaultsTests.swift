import ChildProcesses
import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeKVStore

@Suite struct UserDefaultsTests {
    private let suite = TemporarySuite()
    private var store: UserDefaultsKVStore { UserDefaultsKVStore(suiteName: suite.name) }
    private var defaults: UserDefaults? { UserDefaults(suiteName: suite.name) }

    @Test("values that a property list can hold are stored natively")
    func native() throws {
        try store.set(KVKey<Bool>("bool"), value: true)
        try store.set(KVKey<Int8>("int"), value: -5)
        try store.set(KVKey<Double>("double"), value: 1.5)
        try store.set(KVKey<Float>("float"), value: 0.5)
        try store.set(KVKey<String>("string"), value: "é")
        try store.set(KVKey<Data>("data"), value: Data([1, 2]))
        try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 86_400))
        try store.set(KVKey<[Int]>("array"), value: [1, 2])
        try store.set(KVKey<[String: Int]>("dictionary"), value: ["a": 1])
        try store.set(KVKey<Int?>("optional"), value: 7)
        let defaults = try #require(defaults)
        #expect(defaults.bool(forKey: "bool"))
        #expect(defaults.integer(forKey: "int") == -5)
        #expect(defaults.double(forKey: "double") == 1.5)
        #expect(defaults.double(forKey: "float") == 0.5)
        #expect(defaults.string(forKey: "string") == "é")
        #expect(defaults.data(forKey: "data") == Data([1, 2]))
        #expect(defaults.object(forKey: "date") as? Date == Date(timeIntervalSince1970: 86_400))
        #expect(defaults.array(forKey: "array") as? [Int] == [1, 2])
        #expect(defaults.dictionary(forKey: "dictionary") as? [String: Int] == ["a": 1])
        #expect(defaults.integer(forKey: "optional") == 7)
    }

    @Test("values stored by other code are read as every type that can hold them")
    func foreign() throws {
        let defaults = try #require(defaults)
        defaults.set(5, forKey: "int")
        defaults.set(0, forKey: "zero")
        defaults.set(true, forKey: "bool")
        defaults.set(2.5, forKey: "double")
        defaults.set(["a", "b"], forKey: "array")
        defaults.set(["list": [1, 2], "flag": false] as [String: Any], forKey: "dictionary")
        _ = defaults.synchronize()
        struct Mixed: Codable, Sendable, Equatable {
            var list: [Int]
            var flag: Bool
        }
        #expect(store.get(KVKey<Int>("int")) == 5)
        #expect(store.get(KVKey<UInt8>("int")) == 5)
        #expect(store.get(KVKey<Int?>("int")) == .some(5))
        #expect(store.get(KVKey<Double>("int")) == 5)
        #expect(store.get(KVKey<Bool>("int")) == true)
        #expect(store.get(KVKey<Bool>("zero")) == false)
        #expect(store.get(KVKey<Bool>("double")) == true)
        #expect(store.get(KVKey<Bool?>("int")) == .some(true))
        #expect(store.get(KVKey<Bool>("bool")) == true)
        #expect(store.get(KVKey<Int>("bool")) == 1)
        #expect(store.get(KVKey<Double>("bool")) == 1)
        #expect(store.get(KVKey<String>("bool")) == nil)
        #expect(store.get(KVKey<Bool>("array")) == nil)
        #expect(code { _ = try store.read(KVKey<String>("int")) } == .undecodable)
        // As Foundation converts them.
        #expect(defaults.bool(forKey: "int"))
        #expect(!defaults.bool(forKey: "zero"))
        #expect(defaults.integer(forKey: "bool") == 1)
        #expect(store.get(KVKey<Double>("double")) == 2.5)
        #expect(store.get(KVKey<[String]>("array")) == ["a", "b"])
        #expect(store.get(KVKey<Mixed>("dictionary")) == Mixed(list: [1, 2], flag: false))
    }

    @Test("a structure is stored as marked data, not as an unversioned dictionary")
    func wrapped() throws {
        struct Point: Codable, Sendable { var x = 1 }
        try store.set(KVKey<Point>("point"), value: Point())
        let data = try #require(defaults?.data(forKey: "point"))
        #expect(data.starts(with: Array("ForgeKV\u{1}".utf8)))
    }

    @Test("a dictionary always has the same bytes, regardless of the order of its names")
    func dictionaryOrder() throws {
        let names = (0..<20).map { "name \($0)" }
        var all: Set<[UInt8]> = []
        for _ in 0..<10 {
            var dictionary: [String: Int] = [:]
            for name in names.shuffled() { dictionary[name] = name.utf8.count }
            try store.remove(KVKey<[String: Int]>("dictionary"))
            try store.set(KVKey("dictionary"), value: dictionary)
            all.insert(try #require(try store.rawValue(named: "dictionary")))
        }
        #expect(all.count == 1)
    }

    @Test("removing everything from a suite does not affect another suite")
    func otherSuites() throws {
        let other = TemporarySuite()
        let otherStore = UserDefaultsKVStore(suiteName: other.name)
        try store.set(KVKey<Int>("a"), value: 1)
        try otherStore.set(KVKey<Int>("a"), value: 2)
        try #require(defaults).set(3, forKey: "just stored by other code")
        try store.removeAll()
        #expect(try store.keys().isEmpty)
        #expect(otherStore.get(KVKey<Int>("a")) == 2)
    }

    @Test(
        "a suite name with a path is refused",
        arguments: [
            "", ".", "..", "../x", "a/b", "/tmp/x", "a\0b", "NSGlobalDomain", "\u{FEFF}NSGlobalDomain",
            "\u{FEFF}a", String(repeating: "x", count: 201),
        ])
    func hostileSuites(_ name: String) throws {
        let store = UserDefaultsKVStore(suiteName: name)
        let key = KVKey<Int>("a")
        for attempt in [
            { try store.set(key, value: 1) }, { try store.remove(key) }, { try store.removeAll() },
            { _ = try store.read(key) }, { _ = try store.keys() }, { _ = try store.rawValue(named: "a") },
        ] {
            let error = try #require(throws: KVStoreError.self) { try attempt() }
            #expect(error.code == .noStore)
        }
        #expect(store.get(key) == nil)
        #expect(!store.contains(key))
    }

    @Test("objects that other code has stored under any name are read, replaced, removed and copied")
    func foreignNames() throws {
        let defaults = try #require(defaults)
        let names = ["größe", "tab\tkey", "#forge:abc", "#forge:%zz", "#forge:%C3%B6", "plain"]
        for name in names { defaults.set("of \(name)", forKey: name) }
        #expect(try store.keys().sorted() == names.sorted())
        for name in names {
            let key = KVKey<String>(name)
            #expect(try store.read(key) == "of \(name)")
            #expect(store.contains(key))
            #expect(try store.rawValue(named: name) != nil)
        }
        let copy = InMemoryKVStore()
        let report = try copy.importValues(from: .userDefaults(suiteName: suite.name))
        #expect(report.copiedCount == names.count && report.failures.isEmpty)
        for name in names {
            try store.set(KVKey<String>(name), value: "new")
            #expect(try store.read(KVKey<String>(name)) == "new")
        }
        #expect(try store.keys().sorted() == names.sorted())
        for name in names { defaults.set("again", forKey: name) }
        for name in names {
            try store.remove(KVKey<String>(name))
            #expect(!store.contains(KVKey<String>(name)))
        }
        #expect(try store.keys() == [])
    }

    @Test("raw values are read back as they were set, also those of numbers that a property list changes")
    func rawNumbers() throws {
        let memory = InMemoryKVStore()
        try memory.set(KVKey<Float>("float"), value: 0.1)
        try memory.set(KVKey<[Float]>("floats"), value: [0.5, 1])
        try memory.set(KVKey<Int>("int"), value: 5)
        let report = try memory.exportValues(to: store)
        #expect(report.copiedCount == 3 && report.failures.isEmpty)
        for name in ["float", "floats", "int"] {
            #expect(try store.rawValue(named: name) == memory.rawValue(named: name))
        }
        #expect(store.get(KVKey<Float>("float")) == 0.1)
        #expect(try #require(defaults).integer(forKey: "int") == 5)
    }

    @Test("an object that other code has just stored is set aside before it is replaced", arguments: ["größe", "a"])
    func foreignNamesSetAside(_ name: String) throws {
        try #require(defaults).set("precious", forKey: name)
        try store.set(KVKey<Int>(name), value: 1)
        #expect(try store.setAside().map(\.name) == [name])
        #expect(try store.read(KVKey<Int>(name)) == 1)
    }

    @Test("an object that is no value cannot be read, and is set aside before it is replaced")
    func foreignObject() throws {
        let defaults = try #require(defaults)
        let nested = (0..<65).reduce("x" as Any) { inner, _ in [inner] }
        defaults.set(nested, forKey: "deep")
        let key = KVKey<Int>("deep")
        for read in [{ _ = try store.read(key) }, { _ = try store.rawValue(named: "deep") }] as [() throws -> Void] {
            let error = #expect(throws: KVStoreError.self) { try read() }
            #expect(error?.code == .undecodable && error?.operation == .read && error?.key == "deep")
        }
        #expect(store.get(key) == nil && store.contains(key))
        try store.set(key, value: 1)
        #expect(try store.read(key) == 1)
        #expect(try store.setAside().map { $0.name } == ["deep"])
        #expect(try store.setAside().map { $0.bytes } == [[]])
        #expect(defaults.array(forKey: "#forge-set-aside:1:deep")?.count == 1)
    }

    @Test("the app's own settings are also a store")
    func standard() throws {
        let store = UserDefaultsKVStore(suiteName: nil)
        let key = KVKey<String>("forge-kv-tests.\(UUID().uuidString)")
        try store.set(key, value: "value")
        #expect(store.get(key) == "value")
        #expect(UserDefaults.standard.string(forKey: key.name) == "value")
        #expect(try store.keys().contains(key.name))
        try store.remove(key)
        #expect(!store.contains(key))
    }

    #if os(Linux)
    @Test("names in a suite's file are compared by bytes, and an unreadable file is not reported as absent")
    func file() throws {
        let home = try #require(ProcessInfo.processInfo.environment["HOME"])
        let path = "\(home)/.config/\(suite.name).plist"
        let file = UserDefaultsFile(ofSuite: suite.name)
        #expect(file.holds(nil, "text"))
        #expect(!file.holds("e\u{301}", "text"))
        let content: [String: Any] = ["text": "e\u{301}", "number": 1]
        try PropertyListSerialization.data(fromPropertyList: content, format: .xml, options: 0)
            .write(to: URL(fileURLWithPath: path))
        #expect(file.holds("e\u{301}", "text"))
        #expect(!file.holds("\u{E9}", "text"))
        #expect(!file.holds(nil, "text"))
        #expect(file.holds(1, "number"))
        #expect(!file.holds(2, "number"))
        #expect(file.holds(nil, "other"))
        try Data("no property list".utf8).write(to: URL(fileURLWithPath: path))
        #expect(file.content == nil)
        #expect(!file.holds(nil, "other"))
    }

    @Test(
        "a damaged file is neither read as an empty one nor replaced", arguments: ["no property list", "", "<plist>"])
    func damagedFile(_ text: String) throws {
        let home = try #require(ProcessInfo.processInfo.environment["HOME"])
        let file = URL(fileURLWithPath: "\(home)/.config/\(suite.name).plist")
        try Data(text.utf8).write(to: file)
        let key = KVKey<Int>("a")
        let store = store
        for call in [
            { _ = try store.read(key) }, { try store.set(key, value: 1) }, { try store.remove(key) },
            { _ = try store.keys() }, { try store.removeAll() },
        ] {
            #expect(code(call) == .damaged)
        }
        #expect(store.get(key) == nil)
        #expect(try Data(contentsOf: file) == Data(text.utf8))
        try FileManager.default.removeItem(at: file)
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
    }

    // In a separate process: Foundation writes all suites together, so another test would write this one.
    @Test("names just set by other code are listed and imported, those of values set aside too", .onOwnThreads)
    func unsynchronized() async throws {
        await #expect(processExitsWith: .success) {
            let name = "unsynchronised.\(UUID())"
            UserDefaults.standard.set("x", forKey: name)
            let imported = InMemoryKVStore()
            try imported.importValues(from: .userDefaults(suiteName: nil).filter { $0 == name })
            #expect(imported.get(KVKey<String>(name)) == "x")
            let store = UserDefaultsKVStore(suiteName: nil)
            #expect(try store.keys().contains(name))
            try store.removeValue(named: name)
            let aside = "#forge-set-aside:1:\(name)"
            UserDefaults.standard.set("y", forKey: aside)
            #expect(try store.setAside().contains { $0.name == name })
            UserDefaults.standard.removeObject(forKey: aside)
            _ = UserDefaults.standard.synchronize()
        }
    }

    // In a separate process: Foundation rereads a suite when any other is written, and this one then cannot be read.
    @Test(
        "a file that cannot be written is an error, and the old value is kept; other suites are written", .onOwnThreads
    )
    func failingFile() async throws {
        await #expect(processExitsWith: .success) {
            let suite = TemporarySuite()
            let other = TemporarySuite()
            let key = KVKey<Int>("a")
            let store = UserDefaultsKVStore(suiteName: suite.name)
            let otherStore = UserDefaultsKVStore(suiteName: other.name)
            try store.set(key, value: 1)
            let home = try #require(ProcessInfo.processInfo.environment["HOME"])
            let file = "\(home)/.config/\(suite.name).plist"
            let moved = file + ".moved"
            try FileManager.default.moveItem(atPath: file, toPath: moved)
            // A non-empty directory cannot be replaced by a file.
            try FileManager.default.createDirectory(atPath: file + "/x", withIntermediateDirectories: true)
            defer {
                do { try FileManager.default.removeItem(atPath: file) } catch {}
                do { try FileManager.default.moveItem(atPath: moved, toPath: file) } catch {}
            }
            for attempt in [
                { try store.set(key, value: 2) }, { try store.remove(key) }, { try store.removeAll() },
            ] {
                let error = try #require(throws: KVStoreError.self) { try attempt() }
                #expect(error.code == .unavailable(.inputOutput))
                #expect(store.get(key) == 1)
            }
            try otherStore.set(key, value: 1)
            try otherStore.set(KVKey<Bool>("bool"), value: true)
            try otherStore.set(KVKey<Double>("double"), value: 0.1)
            try otherStore.set(KVKey<String>("string"), value: "é")
            try otherStore.set(KVKey<Data>("data"), value: Data([1, 2]))
            try otherStore.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 86_400))
            try otherStore.set(KVKey<[String: [Int]]>("dictionary"), value: ["a": [1], "b": []])
            try otherStore.set(KVKey<Date>("late"), value: Date(timeIntervalSince1970: 0.5))
            try otherStore.set(key, value: 2)
            #expect(otherStore.get(key) == 2)
            try otherStore.remove(key)
            #expect(!otherStore.contains(key))
            #expect(try otherStore.keys().count == 7)
            try otherStore.removeAll()
            #expect(try otherStore.keys().isEmpty)
        }
    }

    // In a separate process, whose limit on the size of files it is.
    @Test("a write of a file that cannot grow is an error; the old objects are visible, and kept", .onOwnThreads)
    func fullDevice() async throws {
        await #expect(processExitsWith: .success) {
            func codeWithoutSpace(_ write: () throws -> Void) throws -> KVStoreError.Code? {
                var limit = rlimit()
                guard getrlimit(fileSize, &limit) == 0 else { throw POSIXError(.EINVAL) }
                let old = limit.rlim_cur
                limit.rlim_cur = 0
                guard setrlimit(fileSize, &limit) == 0 else { throw POSIXError(.EINVAL) }
                defer {
                    limit.rlim_cur = old
                    _ = setrlimit(fileSize, &limit)
                }
                return code(write)
            }
            signal(SIGXFSZ, SIG_IGN)
            let suites = (0..<3).map { _ in TemporarySuite() }
            let stores = suites.map { UserDefaultsKVStore(suiteName: $0.name) }
            let (key, text, list) = (KVKey<Int>("a"), KVKey<String>("größe"), KVKey<[Int]>("größe"))
            try stores[0].set(key, value: 1)
            #expect(try codeWithoutSpace { try stores[0].set(key, value: 2) } == .unavailable(.inputOutput))
            #expect(stores[0].get(key) == 1)

            let defaults = try #require(UserDefaults(suiteName: suites[1].name))
            defaults.set("precious", forKey: text.name)
            #expect(stores[1].get(text) == "precious")
            #expect(try codeWithoutSpace { try stores[1].set(list, value: [1]) } == .unavailable(.inputOutput))
            #expect(stores[1].get(text) == "precious")
            _ = defaults.synchronize()
            #expect(try stores[1].keys() == [text.name])
            #expect(try stores[1].setAside().isEmpty)

            try stores[2].set(text, value: "aside")
            try stores[2].set(list, value: [1])
            #expect(try codeWithoutSpace { try stores[2].removeAll() } == .unavailable(.inputOutput))
            #expect(stores[2].get(list) == [1])
            withExtendedLifetime(suites) {}
        }
    }
    #endif
}

#if os(Linux)
private let fileSize = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
#endif

@Suite("Errors of property lists")
struct PropertyListFailureTests {
    private func failure(_ data: Data) -> String? {
        let error = #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(data) }
        #expect(error?.code == .undecodable && error?.operation == .import)
        return error.map { "\($0)" }
    }

    /// A dictionary with one member: nested arrays.
    private func nested(_ depth: Int) -> Any {
        (0..<depth).reduce("x" as Any) { value, _ in [value] }
    }

    private func xml(_ depth: Int) -> Data {
        let arrays = String(repeating: "<array>", count: depth) + String(repeating: "</array>", count: depth)
        return Data(
            "<plist version=\"1.0\"><dict><key>a</key>\(arrays)<key>b</key><integer>1</integer></dict></plist>".utf8)
    }

    private static let textFailure =
        "import: cannot be decoded: decode: corrupted: the property list is malformed or nests deeper than 512 levels"

    @Test("report a malformed text", arguments: ["nonsense {", "", "<plist><dict><key>a</key></plist>"])
    func malformedText(_ text: String) {
        #expect(failure(Data(text.utf8)) == Self.textFailure)
    }

    @Test("report a malformed binary list", arguments: [0, 60])
    func malformedBinaryList(_ count: Int) {
        let data = Data("bplist00".utf8) + Data(repeating: 0x78, count: count)
        #expect(failure(data) == "import: cannot be decoded: decode: corrupted: the property list is malformed")
    }

    @Test(
        "report a missing dictionary at the top",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func noDictionary(_ format: PropertyListSerialization.PropertyListFormat) throws {
        let data = try PropertyListSerialization.data(fromPropertyList: [1], format: format, options: 0)
        #expect(
            failure(data)
                == "import: cannot be decoded: decode: corrupted: no dictionary at the top of the property list")
    }

    @Test(
        "contain the limit for a value that nests too deep",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func deepValue(_ format: PropertyListSerialization.PropertyListFormat) throws {
        for (depth, isAccepted) in [(64, true), (65, false)] {
            let data = try PropertyListSerialization.data(
                fromPropertyList: ["a": nested(depth), "b": 1], format: format, options: 0)
            let store = InMemoryKVStore()
            let report = try store.importValues(from: .propertyList(data))
            #expect(store.get(KVKey<Int>("b")) == 1)
            let failures = report.failures.map { "\($0.error)" }
            #expect(
                failures
                    == (isAccepted ? [] : [#"import "a": cannot be decoded: decode: more than 64 levels of nesting"#]))
        }
    }

    @Test("name the values that refer to objects of a keyed archive; the others are imported")
    func references() throws {
        // `{"a": UID(5), "b": 1, "c": [UID(70000)]}`, as Python's plistlib writes it.
        let data = try #require(
            Data(
                base64Encoded:
                    "YnBsaXN0MDDTAQIDBAUGUWFRYlFjgAUQAaEHgwABEXAIDxETFRcZGwAAAAAAAAEBAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAg"))
        let store = InMemoryKVStore()
        let report = try store.importValues(from: .propertyList(data))
        #expect(store.get(KVKey<Int>("b")) == 1)
        #expect(
            report.failures.map { "\($0.error)" }
                == ["a", "c"].map {
                    "import \"\($0)\": cannot be decoded: decode: corrupted: the property list contains an object of "
                        + "another type"
                })
    }

    @Test("contain the limit for a list that nests too deep")
    func deepBinaryList() throws {
        let data = try PropertyListSerialization.data(
            fromPropertyList: ["a": nested(600)], format: .binary, options: 0)
        #expect(failure(data) == "import: cannot be decoded: decode: more than 512 levels of nesting")
    }

    @Test("contain the limit for a text that nests too deep", arguments: [600, 1_000_000])
    func deepText(_ depth: Int) {
        let openStep = Data(
            ("{a = " + String(repeating: "(", count: depth) + String(repeating: ")", count: depth) + ";}").utf8)
        #expect(failure(xml(depth)) == Self.textFailure)
        #expect(failure(openStep) == Self.textFailure)
    }
}
