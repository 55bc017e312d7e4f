import Crypto
import Dispatch
import ForgeCrashTesting
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite("Several objects on one vault")
struct VaultSharingTests {
    @Test("each object sees the other's acknowledged writes at once", arguments: [true, false])
    func visibility(_ isOnDisk: Bool) throws {
        let place = isOnDisk ? VaultPlace(onDisk: "visibility") : VaultPlace()
        let (first, second) = (try place.vault(), try place.vault())
        for number in 0..<50 {
            let (writer, reader) = number.isMultiple(of: 2) ? (first, second) : (second, first)
            try writer.set("\(number)", for: TestKeys.token)
            #expect(try reader.get(TestKeys.token) == "\(number)")
            #expect(try writer.get(TestKeys.token) == "\(number)")
        }
        try first.delete(TestKeys.token)
        #expect(try second.get(TestKeys.token) == nil)
        try second.set("v", for: TestKeys.refresh)
        try first.deleteAll()
        #expect(try second.keys() == [])
    }

    @Test("a change is seen although size and times are unchanged")
    func sameTimes() throws {
        let place = VaultPlace(InMemoryFileSystem(options: .init(clock: { FileTime(seconds: 1) })))
        let (writer, reader) = (try place.vault(), try place.vault())
        for value in ["a", "b", "c", "a"] {
            try writer.set(value, for: TestKeys.token)
            #expect(try reader.get(TestKeys.token) == value)
        }
    }

    @Test("a verification reads a file again that looks unchanged, and its error names the call and the file")
    func verification() throws {
        let place = VaultPlace(InMemoryFileSystem(options: .init(clock: { FileTime(seconds: 1) })))
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        let byte = try place.bytes[200]
        let file = try place.fileSystem.open(place.path, .readWrite)
        try place.fileSystem.writeBytes([byte ^ 1], to: file, at: 200)
        try place.fileSystem.close(file)
        #expect(try vault.get(TestKeys.token) == "v")
        let error = #expect(throws: CryptError.self) { try vault.verify() }
        #expect(error?.code == .tampered && error?.operation == .verify)
        #expect(error?.path == place.path && error?.key == nil)
    }

    @Test("a read does not wait for a change that waits for another process")
    func readBesideWaitingChange() throws {
        let fileSystem = RecordingFileSystem()
        let place = VaultPlace(fileSystem)
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        let other = try fileSystem.open("/app/secrets/#lock-vaults", .readWrite, options: [])
        try fileSystem.lock(other, .exclusive, waiting: false)
        let (isWaiting, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        fileSystem.onCall { (operation, _) throws(FileSystemError) in
            if operation == .lock { isWaiting.signal() }
        }
        let hasEnded = Mutex(false)
        Thread.detachNewThread {
            do { try vault.set("w", for: TestKeys.token) } catch { Issue.record(error) }
            hasEnded.withLock { $0 = true }
            isDone.signal()
        }
        isWaiting.wait()
        let release = Mutex<(@Sendable () -> Void)?>({
            fileSystem.onCall(nil)
            do { try fileSystem.lock(other, .unlocked, waiting: false) } catch { Issue.record(error) }
        })
        // Ends the test if the read waits.
        DispatchQueue.global().asyncAfter(deadline: .now() + 10) { release.withLock { $0.take() }?() }
        #expect(try vault.get(TestKeys.token) == "v")
        #expect(!hasEnded.withLock { $0 })
        release.withLock { $0.take() }?()
        isDone.wait()
        #expect(try vault.get(TestKeys.token) == "w")
    }

    @Test("no writer loses another's change", arguments: [true, false])
    func lostUpdates(_ isOnDisk: Bool) throws {
        let place = isOnDisk ? VaultPlace(onDisk: "updates") : VaultPlace()
        let vaults = try (0..<2).map { _ in try place.vault() }
        let failures = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for number in 0..<25 {
                do {
                    try vaults[thread % 2].set(number, for: CryptKey(key: "\(thread).\(number)"))
                    if number > 0 { try vaults[(thread + 1) % 2].delete(CryptKey<Int>(key: "\(thread).\(number - 1)")) }
                    try vaults[thread % 2].set(number, for: CryptKey(key: "kept.\(thread).\(number)"))
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(failures.withLock { $0 } == [])
        let kept = (0..<4).flatMap { thread in (0..<25).map { "kept.\(thread).\($0)" } }
        #expect(try Set(place.vault().keys()) == Set(kept + (0..<4).map { "\($0).24" }))
        #expect(try place.vault().verify() == 104)
        let generation = try VaultInformation(of: place.url, fileSystem: place.fileSystem)?.generation
        #expect(generation == 4 * (25 + 24 + 25))
    }

    @Test("of the vaults that create a secret at once, exactly one does", arguments: [true, false])
    func createIfAbsent(_ isOnDisk: Bool) throws {
        let place = isOnDisk ? VaultPlace(onDisk: "creation") : VaultPlace()
        let vaults = try (0..<4).map { _ in try place.vault() }
        let created = Mutex<[Int]>([])
        let failures = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for number in 0..<8 {
                do {
                    let key = CryptKey<Int>(key: "\(number)")
                    guard try vaults[thread].createIfAbsent(thread, for: key) else { continue }
                    created.withLock { $0.append(number) }
                    guard try vaults[thread].get(key) == thread else { throw Lost() }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(failures.withLock { $0 } == [])
        #expect(created.withLock { $0.sorted() } == Array(0..<8))
        // Each creation is one write, and calls for present secrets are none.
        #expect(try VaultInformation(of: place.url, fileSystem: place.fileSystem)?.generation == 8)
    }

    @Test("createIfAbsent of a present secret needs no lock and writes nothing")
    func presentSecret() throws {
        let fileSystem = RecordingFileSystem()
        let place = VaultPlace(fileSystem)
        try place.vault().set("v", for: TestKeys.token)
        let before = try place.bytes
        let vault = try place.vault()
        fileSystem.fail(.lock, .ioError)
        #expect(try !vault.createIfAbsent("w", for: TestKeys.token))
        fileSystem.onCall(nil)
        #expect(try place.bytes == before)
        #expect(try vault.get(TestKeys.token) == "v")
    }

    private struct Lost: Error {}

    @Test("another process waits for the lock and then sees the write")
    func otherProcess() throws {
        let fileSystem = InMemoryFileSystem()
        let (mine, other) = (VaultPlace(fileSystem), VaultPlace(fileSystem.process()))
        let (first, second) = (try mine.vault(), try other.vault())
        try first.set("v", for: TestKeys.token)
        #expect(try second.get(TestKeys.token) == "v")
        try second.set("w", for: TestKeys.token)
        #expect(try first.get(TestKeys.token) == "w")
    }

    @Test("two vaults in one directory are independent")
    func neighbours() throws {
        let place = VaultPlace()
        let neighbour = try VaultCrypt(
            at: place.directory.appending(path: "other.vault"), key: VaultPlace.otherKey, fileSystem: place.fileSystem)
        try place.vault().set("v", for: TestKeys.token)
        try neighbour.set("w", for: TestKeys.token)
        try place.vault().deleteAll()
        #expect(try neighbour.get(TestKeys.token) == "w")
    }

    @Test("a removed vault is empty, and a restored one is read again")
    func replacedFromOutside() throws {
        let place = VaultPlace()
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        let bytes = try place.bytes
        try place.fileSystem.unlink(place.path)
        #expect(try vault.get(TestKeys.token) == nil)
        try place.put(bytes)
        #expect(try vault.get(TestKeys.token) == "v")
        var damaged = bytes
        damaged[200] ^= 1
        try place.put(damaged)
        #expect(try CryptError.code { try vault.get(TestKeys.token) } == .tampered)
    }

    @Test("no descriptor is left open", arguments: [0, 1])
    func descriptors(_ failing: Int) throws {
        let fileSystem = InMemoryFileSystem()
        let place = VaultPlace(fileSystem)
        try place.vault().set("v", for: TestKeys.token)
        do {
            let vault = try place.vault(failing == 0 ? VaultPlace.key : VaultPlace.otherKey)
            for _ in 0..<10 {
                _ = try CryptError.code { try vault.get(TestKeys.token) }
                _ = try CryptError.code { try vault.set("w", for: TestKeys.token) }
            }
            #expect(fileSystem.openDescriptors.count <= 1)
        }
        #expect(fileSystem.openDescriptors.isEmpty)
    }
}

/// A writer is killed between its rename and its flush, a second program relies on the existing name, and the power is
/// cut.
@Suite("Names that a killed writer did not flush")
struct VaultDurabilityTests {
    private static let keyURL = URL(filePath: "/app/secrets/vault.key")
    private static let vaultURL = URL(filePath: "/app/secrets/app.vault")

    /// Calls `body` on a file system that fails each flush from this number on, and expects it to throw.
    private static func killed(
        at flush: Int, _ fileSystem: any POSIXFileSystem, _ body: (any POSIXFileSystem) throws -> Void
    ) {
        let failing = RecordingFileSystem(fileSystem)
        let count = Counter()
        failing.onCall { (operation, path) throws(FileSystemError) in
            if operation == .synchronize, count.next() >= flush {
                throw FileSystemError(operation, .ioError, path: path)
            }
        }
        do { try body(failing) } catch {}
    }

    @Test("an existing key file is durable before a vault is sealed with it", arguments: 1...8)
    func keyFile(flush: Int) async throws {
        try await forEachCrash(depth: 1) { fileSystem, run in
            Self.killed(at: flush, fileSystem) {
                _ = try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: $0)
            }
            let key = try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: fileSystem)
            run.acknowledge(key.withUnsafeBytes { Data($0) }.base64EncodedString())
        } recover: { fileSystem, crash in
            guard let sealed = crash.acknowledged.last else { return }
            let key = try VaultKeyFile.load(at: Self.keyURL, fileSystem: fileSystem)
            #expect(key?.withUnsafeBytes { Data($0) }.base64EncodedString() == sealed)
        }
    }

    @Test("an existing key file is flushed with its parent directories")
    func flushesChain() throws {
        let fileSystem = RecordingFileSystem()
        let load = { try VaultKeyFile.loadOrCreate(at: Self.keyURL, fileSystem: fileSystem) }
        _ = try load()
        let flushes = Counter()
        fileSystem.onCall { (operation, _) throws(FileSystemError) in
            if operation == .synchronize { _ = flushes.next() }
        }
        _ = try load()
        // The file, /app/secrets, /app and /.
        #expect(flushes.next() == 5)
        fileSystem.fail(.synchronize, .ioError, number: 2)
        #expect(try CryptError.code(of: load) == .durabilityUnknown)
        fileSystem.fail(.synchronize, .readOnlyFileSystem)
        _ = try load()
    }

    @Test("a deletion that finds nothing to delete is durable", arguments: ["delete", "deleteAll"], 1...5)
    func deletion(call: String, flush: Int) async throws {
        let key = VaultPlace.key
        @Sendable func delete(_ fileSystem: any POSIXFileSystem) throws {
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            if call == "delete" { try vault.delete(TestKeys.token) } else { try vault.deleteAll() }
        }
        try await forEachCrash(depth: 1) { fileSystem in
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            try vault.set("old", for: TestKeys.token)
        } run: { fileSystem, run in
            Self.killed(at: flush, fileSystem) { try delete($0) }
            try delete(fileSystem)
            run.acknowledge("deleted")
        } recover: { fileSystem, crash in
            let vault = try VaultCrypt(at: Self.vaultURL, key: key, fileSystem: fileSystem)
            if crash.acknowledged.contains("deleted") { #expect(try vault.get(TestKeys.token) == nil) }
        }
    }

    @Test("setting a damaged vault aside twice is durable", arguments: 1...3)
    func setAside(flush: Int) async throws {
        try await forEachCrash(depth: 1) { fileSystem in
            let vault = try VaultCrypt(at: Self.vaultURL, key: VaultPlace.otherKey, fileSystem: fileSystem)
            try vault.set("old", for: TestKeys.token)
        } run: { fileSystem, run in
            Self.killed(at: flush, fileSystem) {
                try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: $0).deleteAll()
            }
            try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: fileSystem).deleteAll()
            run.acknowledge("deleted")
        } recover: { fileSystem, crash in
            let vault = try VaultCrypt(at: Self.vaultURL, key: VaultPlace.key, fileSystem: fileSystem)
            if crash.acknowledged.contains("deleted") { #expect(try vault.keys().isEmpty) }
        }
    }
}
