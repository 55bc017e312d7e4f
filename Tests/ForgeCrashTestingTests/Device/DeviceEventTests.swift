import Dispatch
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

@Suite("An event of a device")
struct DeviceEventTests {
    private let device: SimulatedDevice

    init() throws { device = try SimulatedDevice() }

    private func put(_ text: String, _ path: POSIXPath, on fileSystem: DeviceFileSystem) throws {
        let file = try fileSystem.open(path, .writeOnly, options: [.create])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(Array(text.utf8), to: file)
            try fileSystem.synchronize(file, .full)
        }
        let parent = try fileSystem.open(path.splitLast().parent)
        try fileSystem.closing(parent) { () throws(FileSystemError) in try fileSystem.synchronize(parent, .full) }
    }

    private func text(_ path: POSIXPath) throws -> String {
        String(decoding: try device.fileSystem.readFile(path), as: UTF8.self)
    }

    // MARK: Classes

    @Test("that removes files leaves no class to the files that come after them")
    func classesOfRemovedFiles() throws {
        let documents = device.path(of: .documents)
        for number in 0..<20 {
            try put("old", documents.appending(POSIXPath("\(number)")), on: device.fileSystem)
            try device.fileSystem.setProtection(.complete, of: documents.appending(POSIXPath("\(number)")))
        }
        try device.reinstallApp()
        let new = device.path(of: .documents)
        for number in 0..<20 {
            let (file, directory) = (new.appending(POSIXPath("f\(number)")), new.appending(POSIXPath("d\(number)")))
            try put("new", file, on: device.fileSystem)
            try device.fileSystem.createDirectory(directory)
            for path in [file, directory] {
                #expect(try device.fileSystem.protection(of: path) == .completeUntilFirstUserAuthentication)
            }
        }
        for number in 0..<20 { try device.fileSystem.unlink(new.appending(POSIXPath("f\(number)"))) }
        device.lock()
        try put("while locked", new.appending("later"), on: device.fileSystem)
        #expect(try text(new.appending("later")) == "while locked")
    }

    @Test("that cuts the power leaves each file its own class, whatever was lost beside it")
    func classesAfterPowerCut() throws {
        let documents = device.path(of: .documents)
        for round in 0..<3 {
            // Files that are lost, between files that are kept.
            for (index, protection) in FileProtection.allCases.enumerated() {
                let name = POSIXPath("\(round)-\(index)")
                let lost = try device.fileSystem.open(
                    documents.appending("lost-" + name), .writeOnly, options: [.create])
                try device.fileSystem.setProtection(.complete, of: documents.appending("lost-" + name))
                try device.fileSystem.close(lost)
                let directory = documents.appending("d" + name)
                try device.fileSystem.createDirectory(directory)
                try device.fileSystem.setProtection(protection, of: directory)
                try put("kept", directory.appending("f"), on: device.fileSystem)
                try put("sync", documents.appending("s" + name), on: device.fileSystem)
            }
            device.crash(.powerCut)
            device.unlock()
            for earlier in 0...round {
                for (index, protection) in FileProtection.allCases.enumerated() {
                    let directory = documents.appending(POSIXPath("d\(earlier)-\(index)"))
                    #expect(try device.fileSystem.protection(of: directory) == protection)
                    #expect(try device.fileSystem.protection(of: directory.appending("f")) == protection)
                    let plain = documents.appending(POSIXPath("s\(earlier)-\(index)"))
                    #expect(try device.fileSystem.protection(of: plain) == .completeUntilFirstUserAuthentication)
                }
            }
        }
    }

    @Test("that locks it refuses a class in which a file could not be created")
    func classWhileLocked() throws {
        let file = device.path(of: .documents).appending("f")
        try put("text", file, on: device.fileSystem)
        device.lock()
        #expect(performing: { try device.fileSystem.setProtection(.complete, of: file) }, throws: isLocked)
        #expect(try device.fileSystem.protection(of: file) == .completeUntilFirstUserAuthentication)
        try device.fileSystem.setProtection(.completeUnlessOpen, of: file)
        try device.fileSystem.setProtection(.complete, of: device.path(of: .documents))
        #expect(performing: { try device.fileSystem.setProtection(.none, of: file) }, throws: isLocked)
    }

    // MARK: The end of a process

    enum End: CaseIterable, Sendable {
        case reboot, kill, powerCut, reinstallation, update, temporaryFiles, restore
    }

    private func end(_ end: End) throws {
        switch end {
        case .reboot: device.reboot()
        case .kill: device.crash()
        case .powerCut: device.crash(.powerCut)
        case .reinstallation: try device.reinstallApp()
        case .update: try device.updateApp()
        case .temporaryFiles: try device.purgeTemporaryFiles()
        case .restore: try device.restoreFromBackup(toNewDevice: false)
        }
    }

    @Test("that ends the process ends its streams of changes with an error", arguments: End.allCases)
    func changes(_ event: End) async throws {
        let files = device.fileStore(namespace: "files")
        try await files.save(Data(), to: "a")
        let (watching, signal) = AsyncStream<Void>.makeStream()
        let task = Task {
            for try await change in files.changes() where change == .resync { signal.yield() }
        }
        for await _ in watching { break }
        try end(event)
        let error = await #expect(throws: FileStoreError.self) { try await task.value }
        #expect(error?.code == .unavailable(.inputOutput))
        // A stream that begins afterwards, too.
        await #expect(performing: { for try await _ in files.changes() {} }, throws: isEnded)
    }

    @Test("that ends the process ends its streams of keys", arguments: End.allCases)
    func streamsOfKeys(_ event: End) async throws {
        let key = KVKey<Int>("a")
        let store = device.keyValueStore()
        try store.set(key, value: 1)
        let changes = try #require(store.subscribe(to: .prefix("")))
        let layered = FallbackKVStore(store, defaults: InMemoryKVStore())
        let reactive = ReactiveKVStore(store)
        let (arrivals, arrival) = AsyncStream<Void>.makeStream()
        let streams = [store.values(of: key), reactive.stream(key), layered.values(of: key)].map { stream in
            Task {
                var values: [Int?] = []
                for await value in stream {
                    values.append(value)
                    arrival.yield()
                }
                return values
            }
        }
        let following = Task { for try await _ in changes {} }
        var count = 0
        for await _ in arrivals {
            count += 1
            if count == streams.count { break }
        }
        try end(event)
        for stream in streams { #expect(await stream.value == [1]) }
        await #expect(performing: { try await following.value }, throws: isEnded)
        // Those that begin afterwards, too, and without an element that says the key is absent.
        for await value in store.values(of: key) { Issue.record("\(String(describing: value))") }
        for await value in reactive.stream(key) { Issue.record("\(String(describing: value))") }
        let later = try #require(store.subscribe(to: .key("a")))
        await #expect(performing: { for try await _ in later {} }, throws: isEnded)
        for try await _ in later { Issue.record("it has ended") }
    }

    @Test("that locks the device interrupts the streams of a store of the class complete", arguments: [false, true])
    func streamsWhileLocked(_ beginsLocked: Bool) async throws {
        let key = KVKey<Int>("a")
        let store = device.keyValueStore(fileProtection: .complete)
        try store.set(key, value: 1)
        if beginsLocked { device.lock() }
        var values = store.values(of: key).makeAsyncIterator()
        var changes = try #require(store.subscribe(to: .prefix(""))).makeAsyncIterator()
        let first: Int? = beginsLocked ? nil : 1
        #expect(await values.next() == .some(first))
        device.lock()
        device.unlock()
        try store.set(key, value: 2)
        #expect(await values.next() == 2)
        #expect(try await changes.next() == .resync)
        try store.set(key, value: 3)
        #expect(await values.next() == 3)
        let entry = try store.entry(named: "a")
        #expect(try await changes.next() == .changed(name: "a", entry: entry, revision: nil))
    }

    @Test("that ends the process ends its writers, readers and listings with an error", arguments: End.allCases)
    func streams(_ event: End) async throws {
        let files = device.fileStore(namespace: "files")
        for name in ["a", "b", "d/c"] { try await files.save(Data(name.utf8), to: name) }
        let writer = try await files.writer(for: "w")
        try await writer.write(Data("w".utf8))
        let reader = try await files.reader(for: "a")
        var listing = files.files(in: "", FileListingOptions(recursive: true)).makeAsyncIterator()
        #expect(try await listing.next() != nil)
        try end(event)
        await #expect(performing: { try await writer.write(Data("x".utf8)) }, throws: isEnded)
        await #expect(performing: { try await writer.commit() }, throws: isEnded)
        await #expect(performing: { _ = try await reader.read(0..<1) }, throws: isEnded)
        do {
            while try await listing.next() != nil {}
            Issue.record("the listing went on")
        } catch {
            #expect(isEnded(error))
        }
        #expect(!device.fileStore(namespace: "files").exists("w"))
    }

    @Test("that ends the process ends its calls that wait for a lock with an error", arguments: End.allCases)
    func waiting(_ event: End) async throws {
        let path = device.groupPath.appending("lock")
        let (app, widget) = (device.fileSystem, device.startExtension())
        let held = try widget.open(path, .readWrite, options: [.create])
        try widget.lock(held, .exclusive, waiting: false)
        let own = try app.open(path, .readWrite)
        let (beginning, signal) = AsyncStream<Void>.makeStream()
        let task = Task {
            await withCheckedContinuation { continuation in
                // A thread of its own: the call blocks it.
                DispatchQueue(label: "waiting").async {
                    signal.yield()
                    continuation.resume(returning: Result { try app.lock(own, .exclusive, waiting: true) })
                }
            }
        }
        for await _ in beginning { break }
        // The call most probably waits by then; if not, it throws the same error.
        for _ in 0..<1_000 { await Task.yield() }
        try end(event)
        let result = await task.value
        let error = #expect(throws: FileSystemError.self) { try result.get() }
        #expect(error?.errno == .ioError && error?.underlying is ProcessEnded)
        if event == .kill || event == .temporaryFiles { try widget.lock(held, .unlocked, waiting: false) }
    }

    // MARK: The app

    @Test("that updates the app keeps everything under new paths, also through a power cut")
    func update() async throws {
        let key = KVKey<Int>("count")
        let old = device.url(of: .documents)
        try device.keyValueStore().set(key, value: 1)
        try device.keyValueStore().synchronize()
        try await device.fileStore(namespace: "files", fileProtection: .complete).save(Data("a".utf8), to: "a")
        try device.secrets().set("s", for: CryptKey<String>(key: "s"))
        try device.updateApp()
        #expect(device.url(of: .documents) != old)
        #expect(!device.fileSystem.fileExists(atPath: old.path))
        for powerCut in [false, true] {
            if powerCut { device.crash(.powerCut) }
            device.unlock()
            let files = device.fileStore(namespace: "files", fileProtection: .complete)
            #expect(try device.keyValueStore().read(key) == 1)
            #expect(try await files.load("a") == Data("a".utf8))
            #expect(try device.secrets().get(CryptKey<String>(key: "s")) == "s")
            device.lock()
            await #expect(performing: { try await files.load("a") }, throws: isLocked)
        }
    }

    @Test("that purges temporary files ends the process and keeps everything else")
    func temporaryFiles() throws {
        let container = device.path(of: .documents).splitLast().parent
        try put("kept", device.path(of: .documents).appending("f"), on: device.fileSystem)
        try put("purged", container.appending("tmp/f"), on: device.fileSystem)
        let old = device.fileSystem
        try device.purgeTemporaryFiles()
        #expect(throws: FileSystemError.self) { try old.status(container) }
        #expect(!device.fileSystem.fileExists(atPath: String(container.appending("tmp/f"))))
        #expect(device.fileSystem.fileExists(atPath: String(container.appending("tmp"))))
        #expect(try text(device.path(of: .documents).appending("f")) == "kept")
    }

    @Test("that ends the app lets an extension go on, with the files that they share")
    func extensions() throws {
        let path = device.groupPath.appending("shared")
        try put("app", path, on: device.fileSystem)
        let widget = device.startExtension()
        #expect(String(decoding: try widget.readFile(path), as: UTF8.self) == "app")
        device.crash()
        try put("widget", path, on: widget)
        #expect(try text(path) == "widget")
        device.endExtension(widget)
        #expect(throws: FileSystemError.self) { try widget.status(path) }
        let second = device.startExtension()
        try device.updateApp()
        #expect(throws: FileSystemError.self) { try second.status(path) }
        #expect(try text(path) == "widget")
        try device.reinstallApp()
        #expect(!device.fileSystem.fileExists(atPath: String(path)))
        #expect(device.fileSystem.fileExists(atPath: String(device.groupPath)))
    }

    @Test("that purges the caches leaves no size to images that a read has missed since")
    func purgedImages() throws {
        let images = ImageCacheManager(
            fileSystem: device.fileSystem, cacheDirectory: device.url(of: .caches).appending(component: "Images"),
            limits: CacheLimits(sizeInBytes: 1 << 20, count: 3))
        for id in ["a", "b", "c"] {
            try images.cacheImage(id: id, data: Data(count: 100))
            #expect(try images.readCachedImage(id: id) != nil)
        }
        try device.purgeCaches()
        for id in ["a", "b", "c"] { #expect(try images.readCachedImage(id: id) == nil) }
        #expect(try images.cacheSize() == 0)
        for id in ["d", "e", "f"] { try images.cacheImage(id: id, data: Data(count: 100)) }
        for id in ["d", "e", "f"] { #expect(try images.readCachedImage(id: id) != nil) }
    }

    // MARK: The passcode

    @Test("that removes the passcode leaves a device that cannot be locked")
    func passcode() throws {
        let file = device.path(of: .documents).appending("f")
        try put("text", file, on: device.fileSystem)
        try device.fileSystem.setProtection(.complete, of: file)
        let secret = CryptKey<String>(key: "s")
        let needing = CryptKey<String>(key: "p", accessibility: .whenPasscodeSetThisDeviceOnly)
        try device.secrets().set("s", for: secret)
        try device.secrets().set("p", for: needing)
        device.removePasscode()
        for event in [{ device.lock() }, { device.reboot() }, { device.crash(.powerCut) }] {
            event()
            #expect(device.lockState == .unlocked)
            #expect(try text(file) == "text")
            #expect(try device.secrets().get(secret) == "s")
            #expect(try device.secrets().get(needing) == nil)
        }
        let settings = [device.setPasscode, device.setPasscode, device.removePasscode, device.setPasscode]
        for change in settings {
            device.lock()
            change()
            #expect(device.lockState == .unlocked)
        }
        device.lock()
        #expect(device.lockState == .locked)
        #expect(performing: { try text(file) }, throws: isLocked)
        #expect(performing: { try device.secrets().get(secret) }, throws: isLocked)
    }

    // MARK: Backups

    @Test("that restores a backup of another device restores no secret that is bound to that device")
    func otherDevice() throws {
        let moving = CryptKey<String>(key: "moving", accessibility: .afterFirstUnlock)
        let bound = CryptKey<String>(key: "bound", accessibility: .afterFirstUnlockThisDeviceOnly)
        for key in [moving, bound] { try device.secrets().set("old", for: key) }
        let backup = try device.backUp()
        let other = try SimulatedDevice()
        try other.restoreFromBackup(backup, toNewDevice: false)
        #expect(try other.secrets().get(moving) == "old")
        #expect(try other.secrets().get(bound) == nil)
        try device.restoreFromBackup(backup, toNewDevice: false)
        #expect(try device.secrets().get(bound) == "old")
        try device.restoreFromBackup(backup, toNewDevice: true)
        #expect(try device.secrets().get(bound) == nil)
        try device.restoreFromBackup(backup, toNewDevice: false)
        #expect(try device.secrets().get(bound) == nil, "the device is another one since")
    }

    @Test("that restores an unencrypted backup restores secrets to the same device only")
    func unencrypted() throws {
        let moving = CryptKey<String>(key: "moving", accessibility: .afterFirstUnlock)
        try device.secrets().set("old", for: moving)
        let backup = try device.backUp(encrypted: false)
        let other = try SimulatedDevice()
        try other.restoreFromBackup(backup, toNewDevice: false)
        #expect(try other.secrets().get(moving) == nil)
        device.lock()
        try device.restoreFromBackup(backup, toNewDevice: false)
        #expect(device.lockState == .unlocked)
        #expect(try device.secrets().get(moving) == "old")
    }

    @Test("that restores a backup restores the files of the app group, but nothing that is excluded from backups")
    func excluded() throws {
        let documents = device.path(of: .documents)
        for name in ["kept", "excluded"] as [POSIXPath] {
            try device.fileSystem.createDirectory(documents.appending(name))
        }
        for name in ["kept/f", "kept/g", "excluded/f"] as [POSIXPath] {
            try put("text", documents.appending(name), on: device.fileSystem)
        }
        try put("shared", device.groupPath.appending("f"), on: device.fileSystem)
        for name in ["kept/g", "excluded"] as [POSIXPath] {
            try device.fileSystem.excludeFromBackup(documents.appending(name))
        }
        let attributes: [String: [UInt8]] = ["a": [1], "b": [2, 3]]
        let file = try device.fileSystem.open(documents.appending("kept/f"), .readWrite)
        for (name, value) in attributes { try device.fileSystem.setExtendedAttribute(name, to: value, of: file) }
        try device.fileSystem.close(file)
        try device.fileSystem.createNode(
            documents.appending("kept/pipe"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite,
            deviceNumber: 0)
        try device.restoreFromBackup(toNewDevice: true)
        let restored = device.path(of: .documents)
        #expect(try text(restored.appending("kept/f")) == "text")
        let copy = try device.fileSystem.open(restored.appending("kept/f"))
        for (name, value) in attributes {
            #expect(try device.fileSystem.extendedAttribute(name, of: copy) == value)
        }
        try device.fileSystem.close(copy)
        #expect(try text(device.groupPath.appending("f")) == "shared")
        for name in ["kept/g", "kept/pipe", "excluded"] as [POSIXPath] {
            #expect(!device.fileSystem.fileExists(atPath: String(restored.appending(name))))
        }
    }

    @Test("that restores a backup restores no store that excludes its root, and each other one")
    func excludedStores() async throws {
        let key = KVKey<Int>("count")
        func keyValueStore(_ name: String, isExcluded: Bool) throws -> FileKVStore {
            var options = FileKVStore.Options.silent
            options.isExcludedFromBackup = isExcluded
            return try FileKVStore(
                at: device.path(of: .documents).appending(POSIXPath(name)), fileSystem: device.fileSystem,
                options: options)
        }
        func fileStore(_ name: String, isExcluded: Bool) -> DiskFileStore {
            device.fileStore(namespace: name, options: FileStoreOptions(isExcludedFromBackup: isExcluded))
        }
        for isExcluded in [false, true] {
            let store = try keyValueStore("values \(isExcluded)", isExcluded: isExcluded)
            try store.set(key, value: 1)
            try store.close()
            let files = fileStore("files-\(isExcluded)", isExcluded: isExcluded)
            // The second one replaces a file.
            for text in ["a", "b"] { try await files.save(Data(text.utf8), to: "directory/file") }
        }
        try device.restoreFromBackup(toNewDevice: true)
        #expect(try keyValueStore("values false", isExcluded: false).read(key) == 1)
        #expect(try keyValueStore("values true", isExcluded: false).read(key) == nil)
        #expect(try await fileStore("files-false", isExcluded: false).load("directory/file") == Data("b".utf8))
        #expect(try await fileStore("files-true", isExcluded: false).list().isEmpty)
    }
}

/// A name with a prefix.
private func + (prefix: String, name: POSIXPath) -> POSIXPath { POSIXPath(prefix + String(name)) }
