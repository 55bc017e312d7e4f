import ForgeFileSystem
import Foundation
import Logging
import Synchronization
import SystemPackage

@testable import ForgeKVStore

/// Processes that share a store on an in-memory file system.
final class SharedFixture: Sendable {
    let fileSystem = InMemoryFileSystem()
    let recorder = IssueRecorder()
    let path: POSIXPath = "/store"

    /// The numbers of the running processes.
    private let running = Mutex<Set<Int32>>([])

    /// A process, with a unique number.
    struct Process: Sendable {
        let fileSystem: InMemoryFileSystem
        let id: Int32
    }

    func process(_ id: Int32) -> Process {
        running.withLock { _ = $0.insert(id) }
        return Process(fileSystem: fileSystem.process(), id: id)
    }

    /// Ends a process as `kill -9` does.
    func kill(_ process: Process) {
        running.withLock { _ = $0.remove(process.id) }
        process.fileSystem.endProcess()
    }

    func options(
        _ id: Int32, _ sharing: FileKVStore.Sharing = .shared, compactionFloorInBytes: Int = 1 << 20
    ) -> FileKVStore.Options {
        var options = recorder.options(compactionFloorInBytes: compactionFloorInBytes)
        options.sharing = sharing
        options.lockTimeout = .milliseconds(20)
        // Changes are found by signals.
        options.pollingInterval = .seconds(86_400)
        options.processes = ProcessTable(own: ProcessIdentity(id: id, boot: 1, start: 2)) { [self] process in
            process.boot == 1 && process.start == 2 && running.withLock { $0.contains(process.id) }
        }
        return options
    }

    func open(
        _ process: Process, _ sharing: FileKVStore.Sharing = .shared, compactionFloorInBytes: Int = 1 << 20
    ) throws -> FileKVStore {
        try FileKVStore(
            at: path, fileSystem: process.fileSystem,
            options: options(process.id, sharing, compactionFloorInBytes: compactionFloorInBytes))
    }

    /// Two stores in two processes.
    func pair(compactionFloorInBytes: Int = 1 << 20) throws -> (FileKVStore, FileKVStore) {
        (
            try open(process(1), compactionFloorInBytes: compactionFloorInBytes),
            try open(process(2), compactionFloorInBytes: compactionFloorInBytes)
        )
    }

    /// Overwrites bytes of a file like another program.
    func overwrite(_ name: POSIXPath, _ bytes: [UInt8], at offset: Int64) throws {
        let file = try fileSystem.open(path.appending(name), .writeOnly)
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(bytes, to: file, at: offset)
        }
    }

    func byte(of name: POSIXPath, at offset: Int) throws -> UInt8 {
        let file = try fileSystem.open(path.appending(name))
        return try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.readBytes(of: file, at: Int64(offset), count: 1)[0]
        }
    }

    func bytes(_ name: POSIXPath) throws -> [UInt8] { try fileSystem.readFile(path.appending(name)) }
}

/// The code of the error that a call throws; nil if it succeeds.
func code(_ body: () throws -> Void) -> KVStoreError.Code? {
    do {
        try body()
        return nil
    } catch {
        return (error as? KVStoreError)?.code
    }
}

/// A signal between threads.
final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .acquiring) }

    func set() { value.store(true, ordering: .releasing) }
}

/// A counter that starts at 1.
final class Counter: Sendable {
    private let number = Atomic(0)

    /// How often ``next()`` was called.
    var value: Int { number.load(ordering: .relaxed) }

    func next() -> Int { number.wrappingAdd(1, ordering: .relaxed).newValue }
}
