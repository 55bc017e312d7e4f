import ChildProcesses
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("The Keychain store")
struct KeychainCryptTests {
    private let keychain = FakeKeychain(accessGroups: ["app", "team.shared"])

    /// The errors of get, set, contains and keys, then of delete and deleteAll.
    private func codes(
        of store: KeychainCrypt, _ key: CryptKey<Int>, deleting: Bool = true
    ) throws -> [CryptError.Code?] {
        let calls: [() throws -> Void] = [
            { _ = try store.get(key) }, { try store.set(2, for: key) }, { _ = try store.contains(key) },
            { _ = try store.keys() },
        ]
        let deletions = [{ try store.delete(key) }, { try store.deleteAll() }]
        return try (calls + (deleting ? deletions : [])).map { try CryptError.code(of: $0) }
    }

    @Test("a locked device is unavailable, never absent")
    func locked() throws {
        let store = keychain.store()
        try store.set("v", for: TestKeys.token)
        keychain.lock()
        #expect(try CryptError.code { try store.get(TestKeys.token) } == .unavailable(.locked))
        #expect(try CryptError.code { try store.set("w", for: TestKeys.token) } == .unavailable(.locked))
        #expect(try CryptError.code { try store.set("w", for: TestKeys.refresh) } == .unavailable(.locked))
        #expect(try CryptError.code { try store.contains(TestKeys.token) } == .unavailable(.locked))
        #expect(try CryptError.code { try store.createIfAbsent("w", for: TestKeys.token) } == .unavailable(.locked))
        #expect(try CryptError.code { try store.keys() } == .unavailable(.locked))
        #expect(try store.get(TestKeys.refresh) == nil)
        #expect(try !store.contains(TestKeys.refresh))
        keychain.unlock()
        #expect(try store.get(TestKeys.token) == "v")
    }

    @Test("each class can be read in the states that it names", arguments: CryptAccessibility.allCases)
    func states(_ accessibility: CryptAccessibility) throws {
        let store = keychain.store()
        let key = CryptKey<Int>(key: "k", accessibility: accessibility)
        try store.set(1, for: key)
        let survivesLocking = [.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly].contains(accessibility)
        keychain.lock()
        #expect(try CryptError.code { try store.get(key) } == (survivesLocking ? nil : .unavailable(.locked)))
        keychain.reboot()
        let locked = CryptError.Code.unavailable(.locked)
        #expect(try codes(of: store, key, deleting: false) == Array(repeating: locked, count: 4))
        keychain.lock()
        #expect(try CryptError.code { try store.get(key) } == .unavailable(.locked))
        keychain.unlock()
        #expect(try store.get(key) == 1)
        keychain.moveToNewDevice()
        let moves = [.whenUnlocked, .afterFirstUnlock].contains(accessibility)
        #expect(try store.get(key) == (moves ? 1 : nil))
    }

    @Test("setting again changes the accessibility")
    func accessibility() throws {
        let store = keychain.store()
        try store.set("v", for: TestKeys.token)
        try store.set("w", for: CryptKey(key: TestKeys.token.key, accessibility: .afterFirstUnlock))
        #expect(keychain.accessibility(account: "auth.access") == .afterFirstUnlock)
        keychain.lock()
        #expect(try store.get(TestKeys.token) == "w")
        #expect(keychain.count == 1)
    }

    @Test("removing the passcode removes and refuses items that need one")
    func passcode() throws {
        let store = keychain.store()
        let key = CryptKey<Int>(key: "k", accessibility: .whenPasscodeSetThisDeviceOnly)
        try store.set(1, for: key)
        keychain.removePasscode()
        #expect(try store.get(key) == nil)
        #expect(try CryptError.code { try store.set(2, for: key) } == .system(status: -25293))
        try store.set(1, for: CryptKey<Int>(key: "k"))
        #expect(try CryptError.code { try store.set(2, for: key) } == .system(status: -26275))
        #expect(try store.get(key) == 1)
    }

    @Test("a value replaces the item in another access group instead of adding one beside it")
    func itemInAnotherGroup() throws {
        let store = keychain.store()
        try keychain.store(accessGroup: "team.shared").set("old", for: TestKeys.token)
        try store.set("new", for: TestKeys.token)
        #expect(keychain.count == 1)
        #expect(try store.get(TestKeys.token) == "new")
        #expect(try keychain.store(accessGroup: "team.shared").get(TestKeys.token) == "new")
        #expect(try keychain.store(accessGroup: "app").get(TestKeys.token) == nil)
        try keychain.store(accessGroup: "app").set("second", for: TestKeys.token)
        try store.set("newest", for: TestKeys.token)
        for group in ["app", "team.shared"] {
            #expect(try keychain.store(accessGroup: group).get(TestKeys.token) == "newest")
        }
        try store.delete(TestKeys.token)
        #expect(keychain.count == 0)
    }

    @Test("secrets can be deleted in every state of the device")
    func deletion() throws {
        let store = keychain.store()
        for name in ["a", "b", "c"] { try store.set(1, for: CryptKey<Int>(key: name)) }
        keychain.lock()
        try store.delete(CryptKey<Int>(key: "a"))
        keychain.reboot()
        try store.deleteValue(named: "b")
        #expect(keychain.count == 1)
        try store.deleteAll()
        #expect(keychain.count == 0)
    }

    @Test("an item added by another process between updating and adding is updated")
    func race() throws {
        let store = keychain.store()
        try store.set("v", for: TestKeys.token)
        keychain.fail(.update, with: -25300)
        try store.set("w", for: TestKeys.token)
        #expect(try store.get(TestKeys.token) == "w")
        #expect(keychain.calls.suffix(4) == [.update, .add, .update, .copyData])
        #expect(keychain.count == 1)
    }

    @Test("an endless race ends in an error")
    func endlessRace() throws {
        let store = keychain.store()
        for _ in 0..<64 {
            keychain.fail(.add, with: -25299)
            keychain.fail(.update, with: -25300)
        }
        let code = try CryptError.code { try store.set("w", for: TestKeys.token) }
        #expect(code == .unavailable(.inUse(processID: nil)))
    }

    @Test(
        "every other status is passed on with its number",
        arguments: [-4, -36, -50, -108, -128, -2070, -25291, -25293, -34018, -1] as [Int32])
    func statuses(_ status: Int32) throws {
        let store = keychain.store()
        let calls: [FakeKeychainCall] = [.copyData, .update, .copyAccounts, .copyAccounts, .delete, .delete]
        for call in calls { keychain.fail(call, with: status) }
        let expected = CryptError.Code.system(status: status)
        #expect(try codes(of: store, CryptKey<Int>(key: "k")) == Array(repeating: expected, count: 6))
        keychain.fail(.update, with: -25300)
        keychain.fail(.add, with: status)
        #expect(try CryptError.code { try store.set("v", for: TestKeys.token) } == expected)
        #expect(CryptError(expected, .get).description.contains(String(status)))
    }

    @Test("a secret is created only once, also by a race and over another group's item")
    func createIfAbsent() throws {
        let store = keychain.store()
        keychain.fail(.add, with: -25299)  // Added by another process since it was found to be absent.
        #expect(try !store.createIfAbsent("late", for: TestKeys.token))
        #expect(keychain.count == 0)
        #expect(try keychain.store(accessGroup: "team.shared").createIfAbsent("v", for: TestKeys.token))
        #expect(try !store.createIfAbsent("own", for: TestKeys.token))
        #expect(try store.get(TestKeys.token) == "v")
        #expect(keychain.count == 1)
        keychain.fail(.copyAccounts, with: -36)
        #expect(try CryptError.code { try store.createIfAbsent("w", for: TestKeys.token) } == .system(status: -36))
        keychain.fail(.add, with: -36)
        let other = CryptKey<String>(key: "other")
        #expect(try CryptError.code { try store.createIfAbsent("w", for: other) } == .system(status: -36))
    }

    @Test("an item that the Keychain cannot decode is undecodable")
    func decode() throws {
        keychain.fail(.copyData, with: -26275)
        #expect(try CryptError.code { try keychain.store().get(TestKeys.token) } == .undecodable)
    }

    @Test("the status is described by name")
    func names() {
        let error = CryptError(.system(status: -34018), .set, key: "k")
        #expect(error.description == "set \"k\": status -34018 (errSecMissingEntitlement)")
        #expect(CryptError(.system(status: 7), .get).description == "get: status 7")
    }

    @Test("deleting all deletes only this service's items")
    func services() throws {
        let store = keychain.store(service: "one")
        let other = keychain.store(service: "two")
        try store.set("v", for: TestKeys.token)
        try other.set("w", for: TestKeys.token)
        #expect(try store.get(TestKeys.token) == "v")
        try store.deleteAll()
        #expect(try store.keys() == [])
        #expect(try other.get(TestKeys.token) == "w")
    }

    @Test("deleting all continues if the Keychain deletes one item at a time")
    func oneAtATime() throws {
        let store = keychain.store()
        for number in 0..<5 { try store.set(number, for: CryptKey(key: "\(number)")) }
        keychain.deleteOneAtATime()
        try store.deleteAll()
        #expect(keychain.count == 0)
    }

    /// A keychain whose items are there again after every call.
    private struct EndlessKeychain: SecItemCalls {
        func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus { .success }
        func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8]) { (.success, []) }
        func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String]) { (.success, []) }
        func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus { .success }
        func delete(_ query: SecItemQuery) -> KeychainStatus { .success }
    }

    @Test("deleting all ends in an error if the items do not go away")
    func endlessDeletion() throws {
        let store = KeychainCrypt(service: "tests", accessGroup: nil, calls: EndlessKeychain())
        #expect(try CryptError.code { try store.deleteAll() } == .unavailable(.inputOutput))
    }

    @Test("access groups are kept apart, and only the app's own can be used")
    func accessGroups() throws {
        let own = keychain.store(accessGroup: "app")
        let shared = keychain.store(accessGroup: "team.shared")
        let foreign = keychain.store(accessGroup: "other.team")
        try own.set("own", for: TestKeys.token)
        try shared.set("shared", for: TestKeys.token)
        #expect(try own.get(TestKeys.token) == "own")
        #expect(try shared.get(TestKeys.token) == "shared")
        #expect(try keychain.store().keys() == ["auth.access"])
        #expect(try CryptError.code { try foreign.set("x", for: TestKeys.token) } == .system(status: -34018))
        try shared.deleteAll()
        #expect(try own.get(TestKeys.token) == "own")
        let unentitled = FakeKeychain(accessGroups: []).store()
        #expect(try CryptError.code { try unentitled.get(TestKeys.token) } == .system(status: -34018))
    }

    @Test("an empty service, which would match everything, is a broken precondition", .onOwnThreads)
    func emptyService() async {
        await #expect(processExitsWith: .failure) {
            _ = FakeKeychain().store(service: "")
        }
    }

    @Test("reflections of store, keychain and items show no content")
    func reflection() throws {
        let store = keychain.store()
        try store.set("s3cr3t", for: TestKeys.token)
        var dumped = ""
        dump(store, to: &dumped)
        dump(keychain, to: &dumped)
        dump(SecItemValue(data: Array("s3cr3t".utf8), accessibility: .whenUnlocked), to: &dumped)
        #expect(!dumped.contains("s3cr3t") && !dumped.contains("115"))
        #expect(store.description == "KeychainCrypt(tests)")
        #expect(keychain.accessibility(account: "nobody") == nil)
    }
}
