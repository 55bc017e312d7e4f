import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("The log of a copy, written without a table")
struct LogCopyTests {
    private let a = KVKey<Int>("a")
    private let b = KVKey<Int>("b")
    private let c = KVKey<String>("c")
    private let path: POSIXPath = "/copy"

    private func batch(_ changes: (inout KVBatch) throws -> Void) rethrows -> KVBatch {
        var batch = KVBatch()
        try changes(&batch)
        return batch
    }

    /// Writes records of each form: one change, a removal, several changes, and none.
    private func write(on fileSystem: any POSIXFileSystem) throws {
        try fileSystem.makeStoreDirectories(path)
        var copy = try LogCopy(in: path, fileSystem: fileSystem)
        try copy.append(batch { try $0.set(a, value: 1) })
        try copy.append(batch { try $0.set(b, value: 2) })
        try copy.append(KVBatch())
        try copy.append(batch { $0.remove(b) })
        try copy.append(
            batch {
                try $0.set(a, value: 3)
                try $0.set(c, value: String(repeating: "c", count: 2 << 20))
            })
        try copy.finish()
    }

    private func expectCopy(_ store: FileKVStore) throws {
        #expect(try store.keys().sorted() == ["a", "c"])
        #expect(try store.read(a) == 3)
        #expect(try store.read(c)?.utf8.count == 2 << 20)
    }

    private func open(_ fileSystem: any POSIXFileSystem, _ recorder: IssueRecorder) throws -> FileKVStore {
        try FileKVStore(at: path, fileSystem: fileSystem, options: recorder.options())
    }

    @Test("is that of a closed store with the last value of each key, and can be continued")
    func values() throws {
        let fileSystem = InMemoryFileSystem()
        let recorder = IssueRecorder()
        try write(on: fileSystem)
        // A closed store has no space behind the records, and a marker at their end.
        let written = try fileSystem.readFile("/copy/log")
        do {
            let store = try open(fileSystem, recorder)
            try expectCopy(store)
            try store.close()
        }
        #expect(try fileSystem.readFile("/copy/log") == written)
        do {
            let store = try open(fileSystem, recorder)
            try store.set(b, value: 4)
            try store.close()
        }
        let store = try open(fileSystem, recorder)
        #expect(try store.keys().sorted() == ["a", "b", "c"])
        #expect(try store.read(b) == 4)
        #expect(recorder.descriptions == [])
    }

    @Test("survives a power cut once it is finished")
    func durability() throws {
        let device = try SimulatedDevice()
        try write(on: device.fileSystem)
        device.crash(.powerCut)
        device.unlock()
        let recorder = IssueRecorder()
        try expectCopy(try open(device.fileSystem, recorder))
        #expect(recorder.descriptions == [])
    }

    @Test("has the identity of no other one")
    func identity() throws {
        let fileSystem = InMemoryFileSystem()
        var copies: Set<[UInt8]> = []
        for name in ["/1", "/2"] as [POSIXPath] {
            try fileSystem.makeStoreDirectories(name)
            var copy = try LogCopy(in: name, fileSystem: fileSystem)
            try copy.append(batch { try $0.set(a, value: 1) })
            try copy.finish()
            copies.insert(try fileSystem.readFile(name.appending("log")))
        }
        #expect(copies.count == 2)
    }

    @Test("a failed record throws an error with the directory, and leaves the records before and after it")
    func failure() throws {
        let fileSystem = FailingFileSystem()
        try fileSystem.makeStoreDirectories(path)
        var copy = try LogCopy(in: path, fileSystem: fileSystem)
        try copy.append(batch { try $0.set(a, value: 1) })
        let second = try batch { try $0.set(b, value: 2) }
        fileSystem.fail(.write, .noSpace)
        var failed: KVStoreError?
        do throws(KVStoreError) { try copy.append(second) } catch { failed = error }
        #expect(failed?.isOutOfSpace == true && failed?.operation == .batch && failed?.store == "/copy")
        fileSystem.fail(nil)
        try copy.append(batch { try $0.set(c, value: "c") })
        try copy.finish()
        let recorder = IssueRecorder()
        let store = try open(fileSystem, recorder)
        #expect(try store.keys().sorted() == ["a", "c"])
        #expect(recorder.descriptions == [])
    }

    @Test("a failed flush throws: the copy is not known to be durable")
    func failedFlush() throws {
        let fileSystem = FailingFileSystem()
        try fileSystem.makeStoreDirectories(path)
        var copy = try LogCopy(in: path, fileSystem: fileSystem)
        try copy.append(batch { try $0.set(a, value: 1) })
        fileSystem.fail(.synchronize)
        var failed: KVStoreError?
        do throws(KVStoreError) { try copy.finish() } catch { failed = error }
        #expect(failed?.operation == .synchronize && failed?.store == "/copy")
    }

    @Test("leaves no file open if it cannot be begun", arguments: [FileSystemOperation.write, .rename])
    func failingStart(_ operation: FileSystemOperation) throws {
        let memory = InMemoryFileSystem()
        try memory.makeStoreDirectories(path)
        let failing = FailingFileSystem(memory)
        failing.fail(operation)
        var failed: KVStoreError?
        do throws(KVStoreError) {
            var copy = try LogCopy(in: path, fileSystem: failing)
            try copy.finish()
        } catch {
            failed = error
        }
        #expect(failed?.operation == .open && failed?.code == .unavailable(.inputOutput))
        #expect(memory.openDescriptors.isEmpty)
    }

    @Test("the directory must exist")
    func missingDirectory() {
        var failed: KVStoreError?
        do throws(KVStoreError) {
            var copy = try LogCopy(in: path, fileSystem: InMemoryFileSystem())
            try copy.finish()
        } catch {
            failed = error
        }
        #expect(failed?.operation == .open && failed?.store == "/copy")
    }
}
