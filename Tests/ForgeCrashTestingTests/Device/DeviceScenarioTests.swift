import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import TestDepth
import Testing

@Suite("A correctly written app")
struct DeviceScenarioTests {
    private let device: SimulatedDevice
    private let first: NotesApp

    /// An app in use: a user is logged in and has written two notes.
    init() async throws {
        device = try SimulatedDevice()
        first = NotesApp(on: device)
        #expect(try await first.start() == .welcome)
        #expect(try await first.start() == .logIn)
        try await first.logIn("Ada")
        try await first.write("first note", "1")
        try await first.write("second note", "2")
        #expect(try await first.start() == .notes(user: "Ada", count: 2))
    }

    @Test("waits while the device is locked, and continues when it is unlocked")
    func lock() async throws {
        device.lock()
        #expect(try await first.start() == .waitingForUnlock)
        await #expect(performing: { try await first.notes.load("1") }, throws: isLocked)
        await #expect(performing: { try await first.write("third note", "3") }, throws: isLocked)
        // A token that a background push needs.
        #expect(try first.secrets.get(NotesApp.token) == "token of Ada")
        device.unlock()
        #expect(try await first.start() == .notes(user: "Ada", count: 2))
        #expect(try await first.notes.load("1") == Data("first note".utf8))
    }

    @Test("started in the background after a reboot, waits for the first unlock and forgets nothing")
    func reboot() async throws {
        device.reboot()
        let second = NotesApp(on: device)
        #expect(try await second.start() == .waitingForUnlock)
        #expect(performing: { try second.secrets.get(NotesApp.token) }, throws: isLocked)
        device.unlock()
        #expect(try await second.start() == .notes(user: "Ada", count: 2))
        #expect(try await second.notes.load("2") == Data("second note".utf8))
        #expect(try second.secrets.get(NotesApp.token) == "token of Ada")
    }

    @Test("finds its secrets but not its files after a reinstallation, and does not treat them as a session")
    func reinstall() async throws {
        let oldURL = device.url(of: .documents)
        try device.reinstallApp()
        #expect(device.url(of: .documents) != oldURL)
        #expect(!device.fileSystem.fileExists(atPath: oldURL.path))
        #expect(try device.secrets().get(NotesApp.token) == "token of Ada")
        let second = NotesApp(on: device)
        #expect(try await second.start() == .welcome)
        #expect(try second.secrets.get(NotesApp.token) == nil)
        #expect(try await second.start() == .logIn)
        #expect(try await second.notes.list().isEmpty)
    }

    @Test("recreates its caches after they were purged while it runs")
    func purge() async throws {
        #expect(try first.thumbnails.cacheSize() > 0)
        try device.purgeCaches()
        #expect(try first.thumbnails.cacheSize() == 0)
        #expect(try await first.thumbnail("1") == Data("firs".utf8))
        #expect(try first.thumbnails.readCachedImage(id: "1") != nil)
        #expect(try await first.start() == .notes(user: "Ada", count: 2))
        let cache = device.fileStore(directory: .caches, namespace: "cache", fileProtection: .complete)
        try await cache.save(Data("a".utf8), to: "file")
        try device.purgeCaches()
        await #expect(performing: { try await cache.load("file") }, throws: hasCode(FileStoreError.Code.notFound))
        try await cache.save(Data("b".utf8), to: "file")
        device.lock()
        // The class is the store's, also for a recreated directory.
        await #expect(performing: { try await cache.load("file") }, throws: isLocked)
    }

    @Test("gets an error for a full disk, keeps its data, and continues when there is space again")
    func fullDisk() async throws {
        try device.fillDisk(leaving: 10_000)
        let noSpace = hasCode(FileStoreError.Code.noSpace)
        let large = String(repeating: "x", count: 20_000)
        await #expect(performing: { try await first.write(large, "1") }, throws: noSpace)
        #expect(try await first.notes.load("1") == Data("first note".utf8))
        try await first.notes.save(Data("fits".utf8), to: "3")
        try device.freeDisk()
        try await first.write(large, "1")
        #expect(try await first.notes.load("1").count == 20_000)
        try device.fillDisk(leaving: -1)
        await #expect(performing: { try await first.write("more", "4") }, throws: noSpace)
        try device.fillDisk(leaving: .max)
        try await first.write("more", "4")
    }

    @Test("has its files and migratable secrets on a new device, but neither caches nor device-bound secrets")
    func newDevice() async throws {
        let bound = CryptKey<String>(key: "device key", accessibility: .whenUnlockedThisDeviceOnly)
        try first.secrets.set("bound", for: bound)
        let oldURL = device.url(of: .documents)
        try device.restoreFromBackup(toNewDevice: true)
        #expect(device.url(of: .documents) != oldURL)
        let second = NotesApp(on: device)
        #expect(try await second.start() == .notes(user: "Ada", count: 2))
        #expect(try await second.notes.load("1") == Data("first note".utf8))
        #expect(try second.secrets.get(NotesApp.token) == "token of Ada")
        #expect(try second.secrets.get(bound) == nil)
        #expect(try second.thumbnails.cacheSize() == 0)
        #expect(try await second.thumbnail("2") == Data("seco".utf8))
        device.lock()
        await #expect(performing: { try await second.notes.load("1") }, throws: isLocked)
    }

    @Test("has everything except its caches on the same device, as at the time of the backup")
    func sameDevice() async throws {
        let bound = CryptKey<String>(key: "device key", accessibility: .whenUnlockedThisDeviceOnly)
        let passcode = CryptKey<String>(key: "passcode", accessibility: .whenPasscodeSetThisDeviceOnly)
        try first.secrets.set("bound", for: bound)
        try first.secrets.set("never leaves", for: passcode)
        try device.fileSystem.createSymbolicLink(device.path(of: .documents).appending("link"), to: "notes/1")
        try await first.notes.save(Data("first note".utf8), to: "1", attributes: ["color": "red"])
        try device.fileSystem.setPermissions(
            FilePermissions(rawValue: 0o640), of: .path(device.path(of: .documents).appending("notes/1")))
        let before = try device.fileSystem.status(device.path(of: .documents).appending("notes/1"))
        let folder = try device.fileSystem.status(device.path(of: .documents).appending("notes"))
        let backup = try device.backUp()
        try await first.write("third note", "3")
        try await first.notes.delete("1")
        try device.restoreFromBackup(backup, toNewDevice: false)
        let restored = try device.fileSystem.status(device.path(of: .documents).appending("notes"))
        #expect(restored.modified == folder.modified && restored.permissions == folder.permissions)
        let second = NotesApp(on: device)
        #expect(try await second.start() == .notes(user: "Ada", count: 2))
        #expect(try second.secrets.get(bound) == "bound")
        #expect(try second.secrets.get(passcode) == nil)
        #expect(try await second.notes.attributes(of: "1") == ["color": "red"])
        let after = try device.fileSystem.status(device.path(of: .documents).appending("notes/1"))
        #expect(after.modified == before.modified)
        #expect(after.permissions == before.permissions)
        #expect(try device.fileSystem.readSymbolicLink(device.path(of: .documents).appending("link")) == "notes/1")
    }

    @Test("finds acknowledged data after a crash, and the old process can access nothing")
    func crash() async throws {
        let key = KVKey<Int>("count")
        let descriptor = try device.fileSystem.open(device.path(of: .documents))
        try first.settings.set(key, value: 1)
        device.crash()
        // Objects of the old process.
        #expect(performing: { try first.settings.read(key) }, throws: isEnded)
        #expect(performing: { try first.settings.set(key, value: 2) }, throws: isEnded)
        await #expect(performing: { try await first.notes.load("1") }, throws: isEnded)
        await #expect(performing: { try await first.notes.save(Data(), to: "1") }, throws: isEnded)
        #expect(device.fileSystem.openDescriptors.isEmpty)
        #expect(throws: FileSystemError.self) { try device.fileSystem.close(descriptor) }
        let second = NotesApp(on: device)
        #expect(try await second.start() == .notes(user: "Ada", count: 2))
        #expect(try second.settings.read(key) == 1)
        #expect(try await second.notes.load("1") == Data("first note".utf8))
    }

    @Test("cannot open the vault without its device-bound key, gets an error, and can start over without destroying it")
    func vaultWithoutItsKey() throws {
        let secret = CryptKey<String>(key: "secret")
        let access = CryptAccessibility.afterFirstUnlockThisDeviceOnly
        try device.vault(keyAccessibility: access).set("value", for: secret)
        try device.vault(named: "moving").set("value", for: secret)
        try device.restoreFromBackup(toNewDevice: true)
        #expect(try device.vault(named: "moving").get(secret) == "value")
        let vault = try device.vault(keyAccessibility: access)
        #expect(performing: { try vault.get(secret) }, throws: hasCode(.wrongKey))
        try vault.deleteAll()
        try vault.set("new", for: secret)
        #expect(try vault.get(secret) == "new")
        let directory = device.path(of: .applicationSupport).appending("Vaults")
        let names = try device.disk.withDirectory(directory) { (descriptor) throws(FileSystemError) in
            try device.disk.entries(of: descriptor)
        }.map { String($0.name) }
        #expect(names.contains { $0.contains("aside") })
    }
}

@Suite("The stores of a device keep every promise")
struct DeviceConformanceTests {
    @Test(arguments: ConformanceChecks.transactionalKeyValueStore)
    func keyValueStore(_ check: ConformanceCheck<any KVTransactionalStoring>) async throws {
        try await check.run(on: SimulatedDevice().keyValueStore(named: "ä/../x", fileProtection: .complete))
    }

    @Test(arguments: ConformanceSuite.secretStore.checks)
    func secrets(_ check: ConformanceCheck<any CryptStoring>) async throws {
        try await check.run(on: SimulatedDevice().secrets())
    }

    @Test(arguments: ConformanceSuite.sessionStorage.checks)
    func sessions(_ check: ConformanceCheck<any SessionStorage<ConformanceUser>>) async throws {
        try await check.run(on: SimulatedDevice().sessionStorage(of: ConformanceUser.self))
    }

    @Test(
        arguments: TestDepth.sample(
            TestDepth.leavingOut("a hundred thousand opens", of: ConformanceChecks.fileSystem), every: 3))
    func fileSystem(_ check: ConformanceCheck<FileSystemUnderTest>) async throws {
        let device = try SimulatedDevice()
        var subject = FileSystemUnderTest(device.fileSystem, root: device.path(of: .documents))
        subject.profile = .darwin
        subject.isNormalisationInsensitive = true
        try await check.run(on: subject)
    }

    @Test("the key-value store is the same object within a process, and another in the next")
    func identity() throws {
        let device = try SimulatedDevice()
        #expect(device.keyValueStore(named: "a") === device.keyValueStore(named: "a"))
        #expect(device.keyValueStore(named: "a") !== device.keyValueStore(named: "b"))
        // The name of a directory is not empty.
        try device.keyValueStore(named: "").set(KVKey<Int>("a"), value: 1)
        #expect(try device.keyValueStore(named: "=").read(KVKey<Int>("a")) == nil)
        let directory = device.path(of: .applicationSupport).appending("KeyValueStores")
        #expect(try device.fileSystem.exists(directory.appending("=")))
        let store = device.keyValueStore(named: "a")
        device.crash()
        #expect(device.keyValueStore(named: "a") !== store)
    }
}

@Suite("A power cut of a device")
struct DevicePowerCutTests {
    private let key = KVKey<Int>("count")

    @Test("keeps only synchronised data")
    func unsynchronised() async throws {
        let device = try SimulatedDevice()
        let settings = device.keyValueStore()
        try settings.set(key, value: 1)
        try settings.synchronize()
        try settings.set(key, value: 2)
        let files = device.fileStore(namespace: "files", fileProtection: .complete)
        try await files.save(Data("durable".utf8), to: "a")
        let careless = device.fileStore(
            namespace: "careless", options: FileStoreOptions(durability: .none))
        try await careless.save(Data("lost".utf8), to: "a")
        device.crash(.powerCut)
        #expect(device.lockState == .beforeFirstUnlock)
        #expect(performing: { try device.keyValueStore().read(key) }, throws: isLocked)
        device.unlock()
        #expect(try device.keyValueStore().read(key) == 1)
        let after = device.fileStore(namespace: "files", fileProtection: .complete)
        #expect(try await after.load("a") == Data("durable".utf8))
        #expect(!device.fileStore(namespace: "careless").exists("a"))
        device.lock()
        // The class is an attribute of the file, and equally durable.
        await #expect(performing: { try await after.load("a") }, throws: isLocked)
    }

    @Test("can happen again, to later writes")
    func again() async throws {
        let device = try SimulatedDevice()
        for number in 1...5 {
            let files = device.fileStore(namespace: "files")
            try await files.save(Data("\(number)".utf8), to: "\(number)")
            #expect(try await files.list().count == number)
            try device.keyValueStore().set(key, value: number)
            device.crash(number.isMultiple(of: 2) ? .processKill : .powerCut)
            device.unlock()
            #expect(try device.keyValueStore().read(key) == (number.isMultiple(of: 2) ? number : nil))
            try device.keyValueStore().removeAll()
            try device.keyValueStore().synchronize()
        }
    }

    @Test("leaves a full disk full")
    func fullDisk() async throws {
        let device = try SimulatedDevice()
        try device.fillDisk(leaving: 20_000)
        device.crash(.powerCut)
        device.unlock()
        let noSpace = hasCode(FileStoreError.Code.noSpace)
        let files = device.fileStore(namespace: "files")
        await #expect(performing: { try await files.save(Data(count: 40_000), to: "a") }, throws: noSpace)
        try device.freeDisk()
        try await files.save(Data(count: 40_000), to: "a")
    }

    @Test("keeps all data of an app that synchronises")
    func reinstallAndRestore() async throws {
        let device = try SimulatedDevice()
        try device.reinstallApp()
        device.crash(.powerCut)
        device.unlock()
        #expect(device.fileSystem.fileExists(atPath: device.url(of: .caches).path))
        try await device.fileStore(namespace: "files").save(Data("1".utf8), to: "a")
        try device.restoreFromBackup(toNewDevice: true)
        device.crash(.powerCut)
        device.unlock()
        #expect(try await device.fileStore(namespace: "files").load("a") == Data("1".utf8))
    }
}
