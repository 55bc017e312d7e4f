import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@Suite struct FailureTests {
    private let fileSystem = FailingFileSystem()
    private let recorder = IssueRecorder()
    private let a = KVKey<Int>("a")

    private func open(compactionFloorInBytes: Int = 1 << 20, isMapped: Bool = true) throws -> FileKVStore {
        var options = recorder.options(compactionFloorInBytes: compactionFloorInBytes)
        options.isMapped = isMapped
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    private func code(_ body: () throws -> Void) -> KVStoreError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? KVStoreError)?.code
        }
    }

    @Test("a failed write keeps the old value, in memory and on disk, and the next one succeeds")
    func failingWrite() throws {
        do {
            let store = try open(isMapped: false)
            try store.set(a, value: 1)
            fileSystem.fail(.write, .noSpace)
            #expect(code { try store.set(a, value: 2) } == .unavailable(.inputOutput))
            #expect(code { try store.remove(a) } == .unavailable(.inputOutput))
            #expect(code { try store.removeAll() } == .unavailable(.inputOutput))
            #expect(store.get(a) == 1)
            fileSystem.fail(nil)
            #expect(store.get(a) == 1)
            try store.set(KVKey<Int>("b"), value: 3)
        }
        #expect(try open().integers() == ["a": 1, "b": 3])
        #expect(recorder.issues.isEmpty)
    }

    @Test("a failed write-back poisons the log: a later flush does not cover the stores")
    func failingWriteBack() throws {
        let store = try open()
        fileSystem.fail(.writeBack)
        #expect(throws: KVStoreError.self) {
            for number in 0..<100 {
                try store.setRawValue([UInt8](repeating: 1, count: 200_000), named: "key.\(number)")
            }
        }
        fileSystem.fail(nil)
        #expect(code { try store.set(a, value: 1) } == .unavailable(.poisoned))
        #expect(code { try store.synchronize() } == .unavailable(.poisoned))
    }

    @Test("without space for the block that is kept for removals there is none, until the next opening")
    func failingReserve() throws {
        func hasReserve() throws -> Bool { try fileSystem.exists("/store/#reserve") }
        fileSystem.fail { operation, path in operation == .write && path == "#reserve" ? .noSpace : nil }
        do {
            let store = try open()
            #expect(try !hasReserve())
            try store.set(a, value: 1)
        }
        fileSystem.fail(nil)
        #expect(try open().get(a) == 1)
        #expect(try hasReserve())
        #expect(recorder.issues.isEmpty)
    }

    @Test(
        "if no space can be reserved, a write fails and keeps the old value, and the next one succeeds",
        arguments: [FileSystemOperation.allocate, .write, .map])
    func failingReservation(_ operation: FileSystemOperation) throws {
        let large = KVKey<Data>("large")
        do {
            let store = try open()
            try store.set(a, value: 1)
            fileSystem.fail(operation, .noSpace)
            #expect(code { try store.set(large, value: Data(count: 1_000_000)) } == .unavailable(.inputOutput))
            #expect(!store.contains(large))
            #expect(store.get(a) == 1)
            // This record still fits.
            try store.set(a, value: 2)
            fileSystem.fail(nil)
            try store.set(large, value: Data(count: 1_000_000))
        }
        let store = try open()
        #expect(store.get(a) == 2)
        #expect(store.get(large) == Data(count: 1_000_000))
        #expect(recorder.issues.isEmpty)
    }

    @Test(
        "records are written if files cannot be mapped",
        arguments: [Errno.operationNotSupportedByDevice, .notSupported])
    func unmappable(_ errno: Errno) throws {
        do {
            let store = try open()
            fileSystem.fail(.map, errno)
            try store.set(a, value: 1)
            fileSystem.fail(.write, .noSpace)
            #expect(code { try store.set(a, value: 2) } == .unavailable(.inputOutput))
            fileSystem.fail(nil)
            try store.set(a, value: 3)
        }
        #expect(try open().integers() == ["a": 3])
        #expect(recorder.issues.isEmpty)
    }

    @Test("a full disk accepts part of a record, which is then truncated")
    func fullDisk() throws {
        let disk = InMemoryFileSystem()
        let options = recorder.options()
        do {
            let store = try FileKVStore(at: "/store", fileSystem: disk, options: options)
            try store.set(a, value: 1)
            let size = try disk.status("/store/log").sizeInBytes
            try disk.setQuota(.init(sizeInBytes: try disk.usage().sizeInBytes))
            let error = try #require(throws: KVStoreError.self) {
                try store.set(KVKey<Data>("large"), value: Data(count: 1_000_000))
            }
            #expect((error.underlying as? FileSystemError)?.errno == .noSpace)
            #expect(try disk.status("/store/log").sizeInBytes == size)
            #expect(store.get(a) == 1)
            #expect(!store.contains(KVKey<Data>("large")))
            try store.set(a, value: 2)
        }
        #expect(try FileKVStore(at: "/store", fileSystem: disk, options: options).integers() == ["a": 2])
        #expect(recorder.issues.isEmpty)
    }

    @Test("if a failed record cannot be truncated, nothing more is written")
    func failingCut() throws {
        do {
            let store = try open(isMapped: false)
            try store.set(a, value: 1)
            fileSystem.fail { operation, _ in operation == .write || operation == .truncate ? .ioError : nil }
            #expect(code { try store.set(a, value: 2) } == .unavailable(.inputOutput))
            fileSystem.fail(nil)
            #expect(code { try store.set(a, value: 3) } == .unavailable(.poisoned))
            #expect(code { try store.remove(a) } == .unavailable(.poisoned))
            #expect(code { try store.remove(KVKey<Int>("never there")) } == .unavailable(.poisoned))
            #expect(code { try store.removeAll() } == .unavailable(.poisoned))
            #expect(code { try store.synchronize() } == .unavailable(.poisoned))
            #expect(code { try store.compact() } == .unavailable(.poisoned))
            #expect(try store.read(a) == 1)
        }
        let store = try open()
        #expect(store.get(a) == 1)
        try store.set(a, value: 4)
    }

    @Test("after a failed flush no write is acknowledged, and reads continue")
    func failingFlush() throws {
        do {
            let store = try open()
            try store.set(a, value: 1)
            fileSystem.fail(.synchronize)
            #expect(code { try store.synchronize() } == .durabilityUnknown)
            fileSystem.fail(nil)
            #expect(code { try store.synchronize() } == .unavailable(.poisoned))
            #expect(code { try store.set(a, value: 2) } == .unavailable(.poisoned))
            #expect(store.get(a) == 1)
        }
        #expect(try open().get(a) == 1)
    }

    @Test("flushing without earlier writes has no effect")
    func idleFlush() throws {
        let store = try open()
        fileSystem.fail(.synchronize)
        try store.synchronize()
        fileSystem.fail(nil)
        try store.set(a, value: 1)
        try store.synchronize()
        fileSystem.fail(.synchronize)
        try store.synchronize()
    }

    @Test(
        "a failed compaction is reported and loses nothing, and the write that triggered it succeeds",
        arguments: [FileSystemOperation.rename, .write])
    func failingCompaction(_ operation: FileSystemOperation) throws {
        do {
            let store = try open(compactionFloorInBytes: 200)
            try store.set(a, value: 0)
            fileSystem.fail { candidate, path in
                // Only operations on the new log.
                candidate == operation && (path.map { String($0).hasPrefix("#log-new") } ?? false) ? .ioError : nil
            }
            for value in 1...100 { try store.set(a, value: value) }
            #expect((1...4).contains(recorder.issues.count), "not at every write: \(recorder.issues.count)")
            #expect(code { try store.compact() } == .unavailable(.inputOutput))
            fileSystem.fail(nil)
            try store.set(a, value: 101)
            #expect(store.get(a) == 101)
            try store.compact()
        }
        #expect(try open().integers() == ["a": 101])
        #expect(try fileSystem.status("/store/log").sizeInBytes < 200)
    }

    @Test("if it is unknown whether the new or the old log persists, nothing more is written")
    func compactionInDoubt() throws {
        do {
            let store = try open()
            try store.set(a, value: 1)
            fileSystem.fail { operation, path in operation == .synchronize && path == "/store" ? .ioError : nil }
            #expect(code { try store.compact() } == .durabilityUnknown)
            fileSystem.fail(nil)
            #expect(code { try store.set(a, value: 2) } == .unavailable(.poisoned))
            #expect(store.get(a) == 1)
        }
        #expect(try open().integers() == ["a": 1])
    }

    @Test(
        "a store that cannot be opened reports the reason, and is unchanged",
        arguments: [
            FileSystemOperation.open, .read, .status, .lock, .list, .createDirectory, .truncate, .write, .synchronize,
        ])
    func failingOpen(_ operation: FileSystemOperation) throws {
        try open().set(a, value: 1)
        let before = try fileSystem.readFile("/store/log")
        fileSystem.fail(operation)
        do {
            _ = try open()
        } catch let error as KVStoreError {
            #expect(error.code == .unavailable(.inputOutput))
            #expect(error.operation == .open)
            #expect(error.store == "/store")
        }
        fileSystem.fail(nil)
        #expect(try fileSystem.readFile("/store/log") == before)
        #expect(try open().integers() == ["a": 1])
        #expect((fileSystem.forwarded as? InMemoryFileSystem)?.openDescriptors.isEmpty == true)
    }

    @Test("a store that cannot be excluded from backups is not opened, and leaves no file open")
    func failingExclusion() throws {
        let memory = InMemoryFileSystem()
        let full = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .setExtendedAttribute else { return }
            throw FileSystemError(.setExtendedAttribute, .noSpace)
        }
        var options = recorder.options()
        options.isExcludedFromBackup = true
        let error = #expect(throws: KVStoreError.self) {
            try FileKVStore(at: "/store", fileSystem: full, options: options)
        }
        #expect(error?.isOutOfSpace == true && error?.operation == .open && error?.store == "/store")
        #expect(memory.openDescriptors.isEmpty && !memory.fileExists(atPath: "/store/log"))
    }

    @Test("a damaged log that cannot be set aside is served read-only, and is left unchanged")
    func failingQuarantine() throws {
        do {
            let store = try open()
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
        }
        let descriptor = try fileSystem.open("/store/log", .readWrite)
        _ = try [UInt8(0xFF)].withUnsafeBytes { bytes in try fileSystem.write(descriptor, from: bytes, at: 64 + 30 + 22)
        }
        try fileSystem.close(descriptor)
        let damaged = try fileSystem.readFile("/store/log")
        fileSystem.fail { operation, path in
            operation == .write && (path.map { String($0).hasPrefix("#log-new") } ?? false) ? .noSpace : nil
        }
        do {
            let store = try open()
            #expect(try store.integers().count == 2)
            #expect(recorder.descriptions.contains { $0.hasPrefix("read-only") })
            #expect(code { try store.set(a, value: 2) } == .unavailable(.inputOutput))
            #expect(code { try store.removeAll() } == .unavailable(.inputOutput))
        }
        #expect(try fileSystem.readFile("/store/log") == damaged)
        fileSystem.fail(nil)
        let store = try open()
        #expect(try store.integers().count == 2)
        #expect(try store.damageReports().count == 1)
        try store.set(a, value: 2)
    }

    @Test("a file that is no log, and cannot be moved aside, is left unchanged")
    func failingMove() throws {
        do { try open().set(a, value: 1) }
        let content = [UInt8](repeating: 7, count: 200)
        let file = try fileSystem.open("/store/log", .writeOnly, options: [.truncate])
        try fileSystem.writeBytes(content, to: file, at: 0)
        try fileSystem.close(file)
        fileSystem.fail { operation, path in operation == .rename && path == "log" ? .ioError : nil }
        let error = #expect(throws: KVStoreError.self) { _ = try open() }
        #expect(error?.code == .unavailable(.inputOutput) && error?.operation == .setAside)
        fileSystem.fail(nil)
        #expect(try fileSystem.readFile("/store/log") == content)
        #expect(try open().damageReports().map(\.kind) == [.log])
        #expect(try open().keys().isEmpty)
    }

    @Test("damaged bytes that the log loses while they are set aside leave the rest to be read")
    func lostDamage() throws {
        let memory = InMemoryFileSystem()
        do {
            let store = try FileKVStore(at: "/store", fileSystem: memory, options: recorder.options())
            for name in ["a", "b", "c"] { try store.set(KVKey<Int>(name), value: 1) }
        }
        let file = try memory.open("/store/log", .writeOnly)
        try memory.writeBytes([0xFF], to: file, at: 64 + 30 + 22)
        try memory.close(file)
        let racing = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            guard call.operation == .open, call.path == "#quarantine-new" else { return }
            try memory.truncate(.path("/store/log"), to: 64)
        }
        let store = try FileKVStore(at: "/store", fileSystem: racing, options: recorder.options())
        #expect(try store.integers().count == 2)
        #expect(recorder.descriptions.contains { $0.hasPrefix("read-only") })
        #expect(code { try store.set(a, value: 2) } == .unavailable(.inputOutput))
        #expect(try store.damageReports().isEmpty)
    }

    @Test(
        "whichever call fails, acknowledged writes are kept and refused ones are not",
        arguments: [Errno.ioError, .noSpace])
    func everyFailingCall(_ errno: Errno) throws {
        var call = 0
        while true {
            let fileSystem = FailingFileSystem()
            let options = recorder.options(compactionFloorInBytes: 100)
            let counter = Mutex(0)
            let failing = call
            fileSystem.fail { _, _ in
                counter.withLock { count in
                    defer { count += 1 }
                    return count == failing ? errno : nil
                }
            }
            var acknowledged: [String: Int] = [:]
            var isUncertain = false
            do {
                let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
                for index in 0..<12 {
                    let name = ["a", "b", "c"][index % 3]
                    do {
                        if index == 7 {
                            try store.remove(KVKey<Int>(name))
                            acknowledged[name] = nil
                        } else {
                            try store.set(KVKey<Int>(name), value: index)
                            acknowledged[name] = index
                        }
                        if index == 5 { try store.synchronize() }
                    } catch let error as KVStoreError {
                        isUncertain = isUncertain || error.code == .durabilityUnknown
                    }
                    #expect(try store.integers() == acknowledged, "call \(call), operation \(index)")
                }
            } catch is KVStoreError {}
            fileSystem.fail(nil)
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            #expect(try store.integers() == acknowledged, "call \(call)")
            guard counter.withLock({ $0 }) > call else { break }
            call += 1
        }
        #expect(call > 30)
    }
}
