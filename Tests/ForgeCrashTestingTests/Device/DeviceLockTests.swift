import ChildProcesses
import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("A locked device")
struct DeviceLockTests {
    private let device: SimulatedDevice

    init() throws { device = try SimulatedDevice() }

    /// Whether the content of an existing file can be read, by class and lock state.
    @Test(
        "lets files be read as far as their class allows",
        arguments: [
            (FileProtection.none, [LockState.beforeFirstUnlock, .locked, .unlocked]),
            (.completeUntilFirstUserAuthentication, [.locked, .unlocked]),
            (.completeUnlessOpen, [.unlocked]),
            (.complete, [.unlocked]),
        ])
    func reading(_ protection: FileProtection, _ readable: [LockState]) async throws {
        let data = Data("letter".utf8)
        try await device.fileStore(namespace: "files", fileProtection: protection).save(data, to: "a/letter")
        for lock in LockState.allCases {
            bring(device, to: lock)
            let store = device.fileStore(namespace: "files", fileProtection: protection)
            // Existence is always visible; unreadable content is never reported as "not found".
            #expect(store.exists("a/letter"))
            #expect(try await store.info("a/letter").sizeInBytes == 6)
            #expect(try await store.list(recursive: true).map(\.key) == ["a", "a/letter"])
            if readable.contains(lock) {
                #expect(try await store.load("a/letter") == data)
            } else {
                await #expect(performing: { try await store.load("a/letter") }, throws: isLocked)
                await #expect(
                    performing: { try await store.save(Data(), to: "a/letter", overwrite: false) },
                    throws: isLockedOrThere)
            }
        }
    }

    @Test(
        "lets files be created as far as their class allows",
        arguments: [
            (FileProtection.none, [LockState.beforeFirstUnlock, .locked, .unlocked]),
            (.completeUntilFirstUserAuthentication, [.locked, .unlocked]),
            (.completeUnlessOpen, [.beforeFirstUnlock, .locked, .unlocked]),
            (.complete, [.unlocked]),
        ])
    func creating(_ protection: FileProtection, _ writable: [LockState]) async throws {
        for lock in LockState.allCases {
            bring(device, to: lock)
            let store = device.fileStore(namespace: "files", fileProtection: protection)
            if writable.contains(lock) {
                try await store.save(Data("new".utf8), to: lock.rawValue)
            } else {
                await #expect(performing: { try await store.save(Data(), to: lock.rawValue) }, throws: isLocked)
                #expect(!store.exists(lock.rawValue))
            }
        }
        device.unlock()
        let keys = try await device.fileStore(namespace: "files").list().map(\.key)
        #expect(Set(keys) == Set(writable.map(\.rawValue)))
    }

    @Test("prevents further use of an open file, unless its class permits that", arguments: FileProtection.allCases)
    func openFiles(_ protection: FileProtection) throws {
        let fileSystem = device.fileSystem
        let path = device.path(of: .documents).appending("file")
        let file = try fileSystem.open(path, .readWrite, options: [.create])
        try fileSystem.writeBytes([1, 2, 3], to: file, at: 0)
        let mapping = try fileSystem.map(file, at: 0, count: 3)
        try fileSystem.setProtection(protection, of: path)
        device.lock()
        if protection == .complete {
            let calls: [() throws -> Void] = [
                { _ = try fileSystem.readBytes(of: file, at: 0, count: 3) },
                { try fileSystem.writeBytes([4], to: file, at: 0) },
                { try fileSystem.truncate(.descriptor(file), to: 0) },
                { try fileSystem.truncate(.path(path), to: 0) },
                { try fileSystem.allocate(file, at: 0, length: 10_000) },
                { _ = try fileSystem.open(path, .readOnly) },
                { try fileSystem.setProtection(.none, of: path) },
                { _ = try fileSystem.map(file, at: 0, count: 3) },
                { try mapping.writeBack() },
            ]
            for call in calls { #expect(performing: call, throws: { ($0 as? FileSystemError)?.isLocked ?? false }) }
        } else {
            try fileSystem.writeBytes([4], to: file, at: 3)
            #expect(try fileSystem.readBytes(of: file, at: 0, count: 8) == [1, 2, 3, 4])
            [UInt8(1)].withUnsafeBytes { mapping.store($0, at: 0) }
            #expect(mapping.withUnsafeBytes(0..<3) { Array($0) } == [1, 2, 3])
            try mapping.writeBack()
        }
        #expect(try fileSystem.seek(file, to: 0, from: .end) == (protection == .complete ? 3 : 4))
        try fileSystem.synchronize(file, .full)
        device.unlock()
        #expect(try fileSystem.readBytes(of: file, at: 0, count: 3) == [1, 2, 3])
        try fileSystem.close(file)
    }

    @Test(
        "ends a process that accesses a mapping of a file made inaccessible by the lock", .onOwnThreads,
        arguments: [true, false])
    func mappings(_ stores: Bool) async throws {
        await #expect(processExitsWith: .failure) { [stores] in
            let device = try SimulatedDevice()
            let fileSystem = device.fileSystem
            let path = device.path(of: .documents).appending("file")
            let file = try fileSystem.open(path, .readWrite, options: [.create])
            try fileSystem.writeBytes([1, 2, 3], to: file, at: 0)
            let mapping = try fileSystem.map(file, at: 0, count: 3)
            try fileSystem.setProtection(.complete, of: path)
            device.lock()
            if stores {
                [UInt8(1)].withUnsafeBytes { mapping.store($0, at: 0) }
            } else {
                _ = mapping.withUnsafeBytes(0..<3) { Array($0) }
            }
        }
    }

    @Test("does not map a file whose pages the lock would remove")
    func unmappable() throws {
        let fileSystem = device.fileSystem
        let path = device.path(of: .documents).appending("file")
        let file = try fileSystem.open(path, .readWrite, options: [.create])
        try fileSystem.writeBytes([1], to: file, at: 0)
        try fileSystem.setProtection(.complete, of: path)
        #expect {
            try fileSystem.map(file, at: 0, count: 1)
        } throws: {
            ($0 as? FileSystemError)?.errno == .operationNotSupportedByDevice
        }
    }

    @Test("keeps the protection class of a file, and new files inherit that of their directory")
    func inheritance() throws {
        let fileSystem = device.fileSystem
        let root = device.path(of: .documents)
        try fileSystem.createDirectory(root.appending("private"))
        try fileSystem.setProtection(.complete, of: root.appending("private"))
        try fileSystem.createDirectory(root.appending("private/inner"))
        try fileSystem.createNode(
            root.appending("private/inner/file"), at: .workingDirectory, type: .regular, permissions: .ownerReadWrite,
            deviceNumber: 0)
        #expect(try fileSystem.protection(of: root.appending("private/inner/file")) == .complete)
        try fileSystem.rename(root.appending("private/inner/file"), to: root.appending("file"))
        try fileSystem.link(root.appending("file"), to: root.appending("other"))
        try fileSystem.createSymbolicLink(root.appending("link"), to: "file")
        #expect(try fileSystem.protection(of: root.appending("link")) == .complete)
        #expect(try fileSystem.protection(of: root) == .completeUntilFirstUserAuthentication)
        device.lock()
        for name in ["file", "other", "link"] as [POSIXPath] {
            #expect(performing: { try fileSystem.readFile(root.appending(name)) }, throws: isLocked)
        }
        #expect(
            performing: {
                try fileSystem.createNode(
                    root.appending("private/node"), at: .workingDirectory, type: .regular,
                    permissions: .ownerReadWrite, deviceNumber: 0)
            }, throws: isLocked)
        // Names are not content.
        try fileSystem.rename(root.appending("file"), to: root.appending("renamed"))
        #expect(try fileSystem.readSymbolicLink(root.appending("link")) == "file")
        try fileSystem.unlink(root.appending("renamed"))
        try fileSystem.unlink(root.appending("other"))
    }

    @Test("is not reported for a wrong path")
    func otherErrors() throws {
        let fileSystem = device.fileSystem
        let root = device.path(of: .documents)
        let file = try fileSystem.open(root.appending("file"), .writeOnly, options: [.create])
        try fileSystem.close(file)
        try fileSystem.setProtection(.complete, of: root.appending("file"))
        device.lock()
        func errno(_ body: () throws -> Void) -> Errno? {
            do {
                try body()
                return nil
            } catch {
                return (error as? FileSystemError)?.errno
            }
        }
        #expect(errno { _ = try fileSystem.open(root.appending("none")) } == .noSuchFileOrDirectory)
        #expect(errno { _ = try fileSystem.open(root.appending("file/x")) } == .notDirectory)
        let exclusive: FileDescriptor.OpenOptions = [.create, .exclusiveCreate]
        #expect(
            errno { _ = try fileSystem.open(root.appending("file"), .writeOnly, options: exclusive) } == .fileExists)
        #expect(
            errno { _ = try fileSystem.open(root.appending("none/x"), .writeOnly, options: [.create]) }
                == .noSuchFileOrDirectory)
    }

    @Test("makes settings unavailable, never absent")
    func settings() throws {
        let launches = KVKey<Int>("launches")
        let settings = device.keyValueStore(fileProtection: .complete)
        try settings.set(launches, value: 3)
        try settings.synchronize()
        device.lock()
        #expect(settings.get(launches) == nil)
        #expect(!settings.contains(launches))
        let calls: [() throws -> Void] = [
            { _ = try settings.read(launches) }, { try settings.set(launches, value: 0) },
            { try settings.remove(launches) }, { try settings.removeAll() }, { _ = try settings.keys() },
            { _ = try settings.rawValue(named: "launches") }, { try settings.setRawValue([], named: "launches") },
            { try settings.removeValue(named: "launches") }, { try settings.synchronize() },
        ]
        for call in calls { #expect(performing: call, throws: isLocked) }
        let error = #expect(throws: KVStoreError.self) { try settings.read(launches) }
        #expect(error?.operation == .read && error?.key == "launches")
        device.unlock()
        #expect(try settings.read(launches) == 3)
        #expect(settings.contains(launches))
        try settings.set(launches, value: 4)
        #expect(settings.get(launches) == 4)
    }

    @Test("does not affect settings of the default class after the first unlock")
    func usualSettings() throws {
        let launches = KVKey<Int>("launches")
        try device.keyValueStore().set(launches, value: 3)
        device.lock()
        #expect(try device.keyValueStore().read(launches) == 3)
        device.reboot()
        #expect(performing: { try device.keyValueStore().read(launches) }, throws: isLocked)
        device.unlock()
        #expect(try device.keyValueStore().read(launches) == 3)
    }

    @Test("lets a key-value store continue after its writes were refused")
    func keyValueStoreThatIsOpen() throws {
        let fileSystem = device.fileSystem
        let path = device.path(of: .applicationSupport).appending("log")
        try fileSystem.createDirectory(path)
        try fileSystem.setProtection(.complete, of: path)
        let key = KVKey<String>("key")
        let store = try FileKVStore(at: path, fileSystem: fileSystem)
        try store.set(key, value: "one")
        device.lock()
        for _ in 0..<2 { #expect(performing: { try store.set(key, value: "two") }, throws: isLocked) }
        // Values in memory are known.
        #expect(try store.read(key) == "one")
        #expect(performing: { try FileKVStore(at: path.appending("new"), fileSystem: fileSystem) }, throws: isLocked)
        device.unlock()
        #expect(try store.read(key) == "one")
        try store.set(key, value: "three")
        #expect(try store.read(key) == "three")
    }

    @Test("makes secrets unavailable, never absent, according to their accessibility")
    func secrets() throws {
        let secrets = device.secrets()
        let whenUnlocked = CryptKey<String>(key: "token")
        let afterFirstUnlock = CryptKey<String>(key: "push", accessibility: .afterFirstUnlock)
        try secrets.set("t", for: whenUnlocked)
        try secrets.set("p", for: afterFirstUnlock)
        device.lock()
        #expect(performing: { try secrets.get(whenUnlocked) }, throws: isLocked)
        #expect(performing: { try secrets.contains(whenUnlocked) }, throws: isLocked)
        #expect(try secrets.get(afterFirstUnlock) == "p")
        device.reboot()
        #expect(performing: { try secrets.get(afterFirstUnlock) }, throws: isLocked)
        device.unlock()
        #expect(try secrets.get(whenUnlocked) == "t")
    }

    @Test("makes the user of a session unavailable, not logged out")
    func session() throws {
        let session = SessionManager(storage: device.sessionStorage(of: ConformanceUser.self))
        try session.saveUser(ConformanceUser(id: "1", name: "Ada"))
        device.lock()
        #expect(throws: SessionStorageError.self) { try session.loadUser() }
        device.unlock()
        #expect(try session.loadUser()?.name == "Ada")
    }

    @Test("makes a vault unavailable before the first unlock")
    func vault() throws {
        let token = CryptKey<String>(key: "token")
        try device.vault().set("t", for: token)
        device.lock()
        #expect(try device.vault().get(token) == "t")
        device.reboot()
        #expect(performing: { try device.vault() }, throws: isLocked)
        device.unlock()
        let vault = try device.vault()
        device.lock()
        #expect(try vault.get(token) == "t")
        device.unlock()
        let file = device.path(of: .applicationSupport).appending("Vaults/vault")
        try device.fileSystem.setProtection(.complete, of: file)
        device.lock()
        #expect(performing: { try vault.verify() }, throws: isLocked)
        #expect(performing: { try vault.set("u", for: token) }, throws: isLocked)
        device.unlock()
        #expect(try vault.get(token) == "t")
    }

    @Test("is unchanged by locking before the first unlock")
    func lockBeforeFirstUnlock() {
        device.reboot()
        device.lock()
        #expect(device.lockState == .beforeFirstUnlock)
        device.unlock()
        #expect(device.lockState == .unlocked)
    }
}
