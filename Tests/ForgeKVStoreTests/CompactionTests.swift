import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

@Suite("A log compacted under failures")
struct CompactionTests {
    private struct Broken: Error {}

    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()
    private let text = KVKey<String>("text")

    private func open(
        on fileSystem: any POSIXFileSystem, onIssue: (@Sendable (KVStoreIssue) -> Void)? = nil
    ) throws -> FileKVStore {
        var options = recorder.options()
        options.reserveLittle()
        if let onIssue { options.onIssue = onIssue }
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    private func key(_ number: Int) -> KVKey<Int> { KVKey("key.\(number)") }

    /// Creates a store of twenty numbers, one of them damaged.
    private func damage() throws {
        do {
            let store = try open(on: fileSystem)
            for number in 0..<20 { try store.set(key(number), value: number) }
        }
        let descriptor = try fileSystem.open("/store/log", .readWrite)
        let offset = Int64(LogHeader.size + LogRecord.frameSize + 12)
        try withUnsafeBytes(of: UInt8(0xff)) { (byte) throws(FileSystemError) in
            try fileSystem.writeFully(descriptor, from: byte, at: offset)
        }
        try fileSystem.close(descriptor)
    }

    // MARK: Damage

    @Test("a new log replaces a leftover of its name", arguments: [LogTemporaryFile.newLog, .init("#log-new-1-2-3-4")])
    func leftover(name: POSIXPath) throws {
        let memory = InMemoryFileSystem()
        let file = try memory.open(name, .writeOnly, options: [.create])
        try memory.writeBytes([1, 2, 3], to: file, at: 0)
        try memory.close(file)
        let new = try LogTemporaryFile.create(name, at: .workingDirectory, on: memory)
        #expect(try memory.status(of: .descriptor(new)).sizeInBytes == 0)
        #expect(try memory.status(name).sizeInBytes == 0)
    }

    @Test("copies records of any size, wherever the pieces end in which they are read", arguments: [0, 1, 19, 20, 25])
    func pieces(_ rest: Int) throws {
        let memory = InMemoryFileSystem()
        let old = LogHeader(fileID: LogFileID(random: { 1 }), generation: 1)
        let new = LogHeader(fileID: LogFileID(random: { 2 }), generation: 2)
        // The first piece, a mebibyte, ends after so many bytes of the second record; the third one is longer.
        let sizes = [(1 << 20) - rest - LogRecord.size(nameCount: 1, valueSize: 0), 2, 5 << 18, 3]
        func content(_ header: LogHeader) -> [UInt8] {
            var bytes = header.encoded()
            for (index, size) in sizes.enumerated() {
                LogRecord.append(
                    .set(KeyName("\(index)"), [UInt8](repeating: UInt8(index + 1), count: size)),
                    sequence: UInt64(index + 1), unflushedCount: UInt32(index), checksum: header.fileID.checksum,
                    to: &bytes)
            }
            return bytes
        }
        let bytes = content(old)
        let source = try memory.open("/old", .readWrite, options: [.create])
        try memory.writeBytes(bytes, to: source, at: 0)
        let file = LogFile(source, header: old, on: memory)
        let directory = try memory.open("/", .readOnly, options: [.directory])
        var replacement = try LogReplacement(new, at: directory, on: memory)
        try replacement.append(Int64(LogHeader.size)..<Int64(bytes.count), of: file)
        let size = replacement.size
        let log = try replacement.moveIntoPlace(LogSpace.Options(isMapped: false))
        let (end, sequence, flushed, endsFlushed) = (log.end, log.sequence, log.flushedSequence, log.endsFlushed)
        #expect(size == Int64(bytes.count) && end == size)
        #expect(sequence == 4 && flushed == 0 && !endsFlushed)
        #expect(Data(try memory.readFile("/log")) == Data(content(new)))

        // A byte of the last record that the device has lost.
        try memory.writeBytes([0], to: source, at: Int64(bytes.count - 1))
        var other = try LogReplacement(new, at: directory, on: memory)
        var failure: FileSystemError?
        do throws(FileSystemError) {
            try other.append(Int64(LogHeader.size)..<Int64(bytes.count), of: file)
        } catch {
            failure = error
        }
        #expect(failure?.errno == .ioError)
    }

    /// The number of times that the log of a store was replaced, and 1.
    private func generation(_ fixture: LogFixture) throws -> UInt64? {
        guard case .valid(let header) = LogHeader.read(try fixture.bytes()) else { return nil }
        return header.generation
    }

    /// Stores two values under one name whose records have these sizes.
    private func overwrite(_ first: Int, by second: Int, in store: FileKVStore) throws {
        for size in [first, second] {
            let count = size - LogRecord.size(nameCount: 1, valueSize: 0)
            try store.setRawValue([UInt8](repeating: 7, count: count), named: "a")
        }
    }

    @Test(
        "is done at closing if more than half of the log is superseded, and more than 4,096 bytes",
        arguments: [(4096, 100, 1), (4097, 100, 2), (5000, 5000, 1), (5001, 5000, 2)] as [(Int, Int, UInt64)])
    func atClosing(_ superseded: Int, _ live: Int, _ expected: UInt64) throws {
        let fixture = LogFixture()
        let store = try fixture.open()
        try overwrite(superseded, by: live, in: store)
        #expect(try generation(fixture) == 1)
        try store.close()
        #expect(try generation(fixture) == expected)
        #expect(try fixture.bytes().count == 64 + live + 24 + (expected == 1 ? superseded : 0))
    }

    @Test(
        "is done by the write with which the superseded bytes exceed the current ones by more than the floor",
        arguments: [(3000, 1), (3001, 2)] as [(Int, UInt64)])
    func byWrite(_ superseded: Int, _ expected: UInt64) throws {
        let fixture = LogFixture()
        let store = try FileKVStore(
            at: fixture.path, fileSystem: fixture.fileSystem,
            options: recorder.options(compactionFloorInBytes: 1000))
        try overwrite(superseded, by: 2000, in: store)
        #expect(try generation(fixture) == expected)
        #expect(try store.rawValue(named: "a")?.count == 2000 - 25)
    }

    @Test("keeps values as stored, although they were read as other types")
    func readAsOtherTypes() throws {
        let fixture = LogFixture()
        let (third, zero) = (KVKey<Double>("third"), KVKey<Double>("zero"))
        do {
            let store = try fixture.open()
            try store.set(third, value: 1.0 / 3)
            try store.set(zero, value: -0.0)
        }
        do {
            // Only a value loaded from the log is replaced in memory by its decoded form.
            let store = try fixture.open()
            _ = store.get(KVKey<Float>("third"))
            _ = store.get(KVKey<Int>("zero"))
            _ = store.get(KVKey<Bool>("zero"))
            try store.compact()
        }
        let store = try fixture.open()
        #expect(store.get(third) == 1.0 / 3)
        #expect(store.get(zero)?.sign == .minus)
    }

    @Test("damage that cannot be set aside leaves the log unchanged, and the store read-only", arguments: [1, 2])
    func damageThatStays(_ failingRename: Int) throws {
        try damage()
        let log = try fileSystem.readFile("/store/log")
        // The first rename names the quarantine file, the second one the new log.
        let plan = FaultPlan([.on(.rename, call: failingRename, do: .fail(.noSpace))])
        do {
            let store = try open(on: FaultingFileSystem(fileSystem, plan: plan))
            #expect(throws: KVStoreError.self) { try store.compact() }
            #expect(throws: KVStoreError.self) { try store.set(key(5), value: 0) }
            #expect(store.get(key(5)) == 5)
            #expect(try store.keys().count == 19)
        }
        try plan.requireAllFired()
        #expect(try fileSystem.readFile("/store/log") == log)
        #expect(recorder.descriptions.filter { $0.hasPrefix("read-only") }.count == 1, "\(recorder.descriptions)")
        let again = try open(on: fileSystem)
        #expect(try again.keys().count == 19)
        try again.set(key(1), value: 1)
        #expect(recorder.damage.allSatisfy { $0.kind == .records })
    }

    @Test("by the issue handler, again", .timeLimit(.minutes(TestDepth.hangLimitInMinutes)))
    func compactingAgain() throws {
        try damage()
        let owner = Mutex<FileKVStore?>(nil)
        let recorder = recorder
        let store = try open(on: fileSystem) { issue in
            recorder.record(issue)
            do { try owner.withLock { $0 }?.compact() } catch { Issue.record(error) }
        }
        owner.withLock { $0 = store }
        try store.compact()
        #expect(recorder.damage.map(\.kind) == [.records])
        #expect(try store.keys().count == 19)
        owner.withLock { $0 = nil }
    }

    @Test("does not compensate for a failed flush")
    func failedFlush() throws {
        let watched = FailingFileSystem(fileSystem)
        let store = try open(on: watched)
        try store.set(key(0), value: 0)
        let flushes = Atomic(0)
        watched.fail { operation, _ in
            guard operation == .synchronize else { return nil }
            switch flushes.wrappingAdd(1, ordering: .relaxed).newValue {
            // While the new log is flushed, the old one cannot be.
            case 1: #expect(throws: KVStoreError.self) { try store.synchronize() }
            case 2: return .ioError
            default: break
            }
            return nil
        }
        #expect(throws: KVStoreError.self) { try store.compact() }
        watched.fail(nil)
        let error = try #require(throws: KVStoreError.self) { try store.set(key(0), value: 1) }
        #expect(error.code == .unavailable(.poisoned))
        #expect(store.get(key(0)) == 0)
    }

    // MARK: Crashes

    @Test("without success, at closing, is nevertheless durable")
    func closing() async throws {
        try await forEachCrash(
            limit: TestDepth.limit(60, deep: 1000),
            run: { fileSystem, run in
                let plan = FaultPlan([.on(.rename, call: 3, do: .fail(.noSpace))])
                do {
                    let store = try open(on: FaultingFileSystem(fileSystem, plan: plan))
                    for number in 0..<4 { try store.set(text, value: String(repeating: "\(number)", count: 3000)) }
                }
                try plan.requireAllFired()
                run.acknowledge("closed")
            },
            recover: { fileSystem, crash in
                let value = try open(on: fileSystem).read(text)
                if crash.acknowledged.contains("closed"), value?.first != "3" { throw Broken() }
            })
    }

    @Test("during a write appends no flush marker for bytes that are not durable")
    func writtenMeanwhile() async throws {
        try await forEachCrash(
            limit: TestDepth.limit(60, deep: 1000),
            run: { fileSystem, run in
                let watched = FailingFileSystem(fileSystem)
                let store = try open(on: watched)
                try store.set(key(0), value: 0)
                try store.synchronize()
                let isWritten = Atomic(false)
                watched.fail { operation, _ in
                    guard operation == .synchronize, !isWritten.exchange(true, ordering: .relaxed) else { return nil }
                    do {
                        try store.set(text, value: String(repeating: "x", count: 9000))
                    } catch {
                        return .ioError
                    }
                    return nil
                }
                try store.compact()
                watched.fail(nil)
                run.acknowledge("compacted")
            },
            recover: { fileSystem, crash in
                let recorder = IssueRecorder()
                let store = try open(on: fileSystem, onIssue: recorder.record)
                guard recorder.damage.isEmpty else { throw Broken() }
                let value = try store.read(text)
                if crash.acknowledged.contains("compacted"), value?.utf8.count != 9000 { throw Broken() }
            })
    }
}
