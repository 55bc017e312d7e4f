import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("Opening a store that other processes have open")
struct SharedModeTests {
    private let fixture = SharedFixture()
    private let a = KVKey<Int>("a")

    @Test(
        "two processes may open a store if both share it; otherwise the error contains the owner",
        arguments: FileKVStore.Sharing.allCases, FileKVStore.Sharing.allCases)
    func modes(_ firstMode: FileKVStore.Sharing, _ secondMode: FileKVStore.Sharing) throws {
        let (first, second) = (fixture.process(11), fixture.process(22))
        do {
            let store = try fixture.open(first, firstMode)
            try store.set(a, value: 1)
            if firstMode == .shared, secondMode == .shared {
                #expect(try fixture.open(second, .shared).get(a) == 1)
            } else {
                #expect(code { _ = try fixture.open(second, secondMode) } == .unavailable(.inUse(processID: 11)))
                #expect(second.fileSystem.openDescriptors.isEmpty)
            }
            try store.set(a, value: 2)
        }
        // After the first is released, in any mode.
        #expect(try fixture.open(second, secondMode).get(a) == 2)
        #expect(first.fileSystem.openDescriptors.isEmpty && second.fileSystem.openDescriptors.isEmpty)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("a killed process does not block others", arguments: FileKVStore.Sharing.allCases)
    func killed(_ mode: FileKVStore.Sharing) throws {
        let (first, second) = (fixture.process(11), fixture.process(22))
        let store = try fixture.open(first, .shared)
        try store.set(a, value: 1)
        fixture.kill(first)
        #expect(try fixture.open(second, mode).get(a) == 1)
        withExtendedLifetime(store) {}
    }

    @Test("a process is identified by its start time, not only by its number")
    func startOfProcess() throws {
        let table = ProcessTable.system
        #expect(table.isRunning(table.own))
        #expect(table.own.id == ProcessInfo.processInfo.processIdentifier)
        #expect(!table.isRunning(ProcessIdentity(id: 0)) && !table.isRunning(ProcessIdentity(id: -1)))
        #if os(Linux)
        #expect(table.own.boot != 0 && table.own.start != 0)
        #expect(!table.isRunning(ProcessIdentity(id: table.own.id, boot: table.own.boot, start: table.own.start + 1)))
        #expect(!table.isRunning(ProcessIdentity(id: table.own.id, boot: table.own.boot &+ 1, start: table.own.start)))
        #endif
        // In doubt it counts as running.
        #expect(table.isRunning(ProcessIdentity(id: table.own.id)))
        #expect(table.isRunning(ProcessIdentity(id: 1)))
    }

    @Test("all objects for a store in one process must agree")
    func oneProcess() throws {
        let process = fixture.process(11)
        for (mode, other) in [(FileKVStore.Sharing.shared, FileKVStore.Sharing.exclusive), (.exclusive, .shared)] {
            let first = try fixture.open(process, mode)
            try first.set(a, value: 1)
            #expect(code { _ = try fixture.open(process, other) } == .unavailable(.inUse(processID: 11)))
            let second = try fixture.open(process, mode)
            try second.set(a, value: 2)
            #expect(first.get(a) == 2)
        }
        #expect(process.fileSystem.openDescriptors.isEmpty)
    }

    @Test("no lock is held between calls")
    func lockIsFree() throws {
        let (first, second) = try fixture.pair()
        let lock = try fixture.fileSystem.open("/store/#lock", .readWrite)
        func expectFree() throws {
            try fixture.fileSystem.lock(lock, .exclusive, waiting: false)
            try fixture.fileSystem.lock(lock, .unlocked, waiting: false)
        }
        try expectFree()
        try first.set(a, value: 1)
        try expectFree()
        _ = second.get(a)
        try expectFree()
        try second.compact()
        try expectFree()
        _ = first.get(a)
        #expect(try !first.compareAndSet(a, revision: 99, value: 2))
        try expectFree()
        try second.synchronize()
        try expectFree()
        try fixture.fileSystem.close(lock)
    }

    /// Acquires the lock of the store, as another process does, until the descriptor is closed.
    private func hold() throws -> Descriptor {
        let lock = try fixture.fileSystem.open("/store/#lock", .readWrite)
        try fixture.fileSystem.lock(lock, .exclusive, waiting: false)
        return lock
    }

    @Test("a process finds what another one has compacted and written although a third one holds the lock")
    func compactedBehindLock() throws {
        let (first, second) = try fixture.pair()
        for value in 0..<100 { try first.set(KVKey<Int>("\(value % 7)"), value: value) }
        #expect(second.get(KVKey<Int>("1")) == 99)
        try first.compact()
        try first.set(a, value: 1)
        let lock = try hold()
        #expect(second.get(a) == 1)
        #expect(try second.read(KVKey<Int>("1")) == 99)
        #expect(try second.integers() == first.integers())
        try fixture.fileSystem.close(lock)
        // The process appends to the log that it has adopted.
        try second.set(a, value: 2)
        #expect(first.get(a) == 2)
        #expect(fixture.recorder.issues.isEmpty)
        #expect(try fixture.open(fixture.process(3)).integers() == first.integers())
    }

    @Test("where only the lock helps, get does not wait for it and reports that once, and read waits until its timeout")
    func damagedBehindLock() throws {
        let first = try fixture.open(fixture.process(1))
        var options = fixture.options(2)
        options.lockTimeout = .seconds(1)
        let second = try FileKVStore(at: fixture.path, fileSystem: fixture.process(2).fileSystem, options: options)
        for value in 0..<20 { try first.set(KVKey<Int>("\(value)"), value: value) }
        try first.synchronize()
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        try first.compact()
        try fixture.overwrite("log", [0xFF, 0xFF], at: 64 + 22)
        // Otherwise it would read only what is new to it.
        try fixture.overwrite("#shared", [UInt8](repeating: 0, count: 24), at: 32)
        let lock = try hold()
        let clock = ContinuousClock()
        let time = clock.measure {
            for _ in 0..<10 { #expect(second.get(a) == 1 && second.contains(a)) }
        }
        #expect(time < .milliseconds(700))
        #expect(fixture.recorder.issues.count == 1)
        let wait = clock.measure {
            #expect(code { _ = try second.read(a) } == .unavailable(.inUse(processID: 1)))
        }
        #expect(wait >= .seconds(1))
        try fixture.fileSystem.close(lock)
        #expect(try second.read(a) == 1)
        #expect(fixture.recorder.damage.count == 1)
    }

    @Test("a background job reads what get could not wait for")
    func retriedInBackground() throws {
        let first = try fixture.open(fixture.process(1))
        var options = fixture.options(2)
        options.lockTimeout = .seconds(60)
        options.compactsInBackground = true
        let second = try FileKVStore(at: fixture.path, fileSystem: fixture.process(2).fileSystem, options: options)
        for value in 0..<20 { try first.set(KVKey<Int>("\(value)"), value: value) }
        #expect(second.contains(KVKey<Int>("0")))
        try first.set(a, value: 1)
        try first.compact()
        try fixture.overwrite("log", [0xFF, 0xFF], at: 64 + 22)
        let lock = try hold()
        #expect(second.get(a) == nil)
        try fixture.fileSystem.close(lock)
        second.engine.background.wait()
        #expect(second.get(a) == 1)
    }

    @Test("a store whose lock file was removed is locked by its directory, and by the next lock file")
    func removedLockFile() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        try fixture.fileSystem.unlink("/store/#lock")
        let directory = try fixture.fileSystem.open("/store", .readOnly, options: [.directory])
        try fixture.fileSystem.lock(directory, .exclusive, waiting: false)
        #expect(code { try first.set(a, value: 2) } == .unavailable(.inUse(processID: 2)))
        try fixture.fileSystem.close(directory)
        try first.set(a, value: 3)
        #expect(try second.read(a) == 3)
        try second.set(a, value: 4)
        #expect(first.get(a) == 4)
        let lock = try hold()
        #expect(code { try first.set(a, value: 5) } == .unavailable(.inUse(processID: 2)))
        #expect(code { try second.set(a, value: 6) } == .unavailable(.inUse(processID: 1)))
        try fixture.fileSystem.close(lock)
        #expect(try second.read(a) == 4)
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("an opening waits for a call of a sharer, but not until its timeout for an exclusive owner")
    func waitingOpening() throws {
        do {
            let owner = try fixture.open(fixture.process(1), .exclusive)
            var options = fixture.options(2)
            options.lockTimeout = .seconds(60)
            let time = ContinuousClock().measure {
                let found = code {
                    _ = try FileKVStore(at: fixture.path, fileSystem: fixture.process(2).fileSystem, options: options)
                }
                #expect(found == .unavailable(.inUse(processID: 1)))
            }
            #expect(time < .seconds(30))
            withExtendedLifetime(owner) {}
        }
        let first = try fixture.open(fixture.process(1))
        #expect(try fixture.bytes("#lock") == Array("shared\n     ".utf8))
        try first.set(a, value: 1)
        let lock = try hold()
        let inode = try fixture.fileSystem.status("/store/#lock").inode
        let base = fixture.process(2).fileSystem
        let reads = Counter()
        // A process that has waited for some time looks at the lock file, whether the holder shares the store.
        let watching = InterceptedFileSystem(base) { [fixture] (call) throws(FileSystemError) in
            guard call.operation == .read, let descriptor = call.descriptor,
                try base.status(of: .descriptor(descriptor)).inode == inode, reads.next() == 2
            else { return }
            try fixture.fileSystem.close(lock)
        }
        var options = fixture.options(2)
        options.lockTimeout = .seconds(60)
        let second = try FileKVStore(at: fixture.path, fileSystem: watching, options: options)
        #expect(second.get(a) == 1)
        #expect(reads.value >= 2)
    }

    @Test(
        "a directory that cannot be locked is no obstacle if the file system has no such locks",
        arguments: [.badFileDescriptor, .notSupported, .invalidArgument, .noLocks, .ioError] as [Errno],
        FileKVStore.Sharing.allCases)
    func unlockableDirectory(_ errno: Errno, _ sharing: FileKVStore.Sharing) throws {
        let base = fixture.process(1).fileSystem
        let fileSystem = InterceptedFileSystem(base) { (call) throws(FileSystemError) in
            guard call.operation == .lock, let descriptor = call.descriptor,
                try base.status(of: .descriptor(descriptor)).type == .directory
            else { return }
            throw FileSystemError(.lock, errno)
        }
        let found = code {
            let store = try FileKVStore(at: fixture.path, fileSystem: fileSystem, options: fixture.options(1, sharing))
            try store.set(a, value: 1)
            #expect(try store.read(a) == 1)
            try store.close()
        }
        #expect(found == (errno == .ioError ? .unavailable(.inputOutput) : nil))
        #expect(base.openDescriptors.isEmpty)
    }

    @Test("a lock held too long makes writes fail while reads continue")
    func lockTimeout() throws {
        let (first, second) = try fixture.pair()
        try first.set(a, value: 1)
        #expect(second.get(a) == 1)
        let lock = try fixture.fileSystem.open("/store/#lock", .readWrite)
        try fixture.fileSystem.lock(lock, .exclusive, waiting: false)
        #expect(code { try first.set(a, value: 2) } == .unavailable(.inUse(processID: 2)))
        #expect(first.get(a) == 1 && second.get(a) == 1)
        #expect(code { try second.removeAll() } != nil)
        #expect(code { try second.compact() } != nil)
        #expect(code { _ = try fixture.open(fixture.process(3)) } != nil)
        try fixture.fileSystem.lock(lock, .unlocked, waiting: false)
        try first.set(a, value: 3)
        #expect(second.get(a) == 3)
        try fixture.fileSystem.close(lock)
    }

    @Test("after a kill of an exclusive owner the store can be shared, without the reserved space")
    func reservedSpace() throws {
        let (owner, first, second) = (fixture.process(1), fixture.process(2), fixture.process(3))
        let exclusive = try fixture.open(owner, .exclusive)
        try exclusive.set(a, value: 1)
        #expect(try fixture.bytes("log").count % 65_536 == 0)
        fixture.kill(owner)
        let store = try fixture.open(first)
        #expect(try fixture.bytes("log").count < 200)
        try store.set(a, value: 2)
        #expect(try fixture.open(second).get(a) == 2)
        withExtendedLifetime(exclusive) {}
        #expect(fixture.recorder.issues.isEmpty)
    }

    @Test("only the last process to close the store records that everything is flushed")
    func closing() throws {
        func records() throws -> Int? {
            try KVInspection(of: URL(filePath: "/store"), fileSystem: fixture.fileSystem)?.recordCount
        }
        do {
            let first = try fixture.open(fixture.process(1))
            do {
                let second = try fixture.open(fixture.process(2))
                try second.set(a, value: 1)
            }
            #expect(try records() == 1)
            #expect(first.get(a) == 1)
        }
        #expect(try records() == 2)
        let bytes = try fixture.bytes("log")
        do {
            let (first, second) = try fixture.pair()
            #expect(first.get(a) == 1 && second.get(a) == 1)
        }
        #expect(try fixture.bytes("log") == bytes)
    }

    @Test("at most 249 processes share a store, and the slots of ended ones are free")
    func manyProcesses() throws {
        let processes = (1...249).map { fixture.process($0) }
        var stores = try processes.map { try fixture.open($0) }
        let error = try #require(throws: KVStoreError.self) { try fixture.open(fixture.process(1000)) }
        #expect((error.underlying as? FileSystemError)?.errno == .noLocks)
        #expect(error.detail == "249 other processes have the store open" && "\(error)".contains(": 249 other proc"))
        try stores[0].set(a, value: 1)
        for store in stores { #expect(store.get(a) == 1) }
        fixture.kill(processes[100])
        #expect(try fixture.open(fixture.process(1001)).get(a) == 1)
        stores.removeLast()
        #expect(try fixture.open(fixture.process(1002)).get(a) == 1)
    }
}
