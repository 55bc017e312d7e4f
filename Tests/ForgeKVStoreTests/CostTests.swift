import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@testable import ForgeKVStore

/// The costs of operations in calls and bytes, which are deterministic.
@Suite struct CostTests {
    struct Pair: Codable, Sendable, Equatable {
        var name: String
        var count: Int
    }

    /// The size of the value in a record of 64 bytes with a name of 5 bytes.
    private static let valueSize = 64 - LogRecord.size(nameCount: 5, valueSize: 0)
    private static let value = [UInt8](repeating: 7, count: valueSize)

    private static func name(_ number: Int) -> String { String("\(100_000 + number)".dropFirst()) }

    // MARK: Reading

    /// A value that counts how often it is decoded.
    struct Counting: Codable, Sendable {
        static let decodes = Mutex(0)
        var count = 0
        init() {}
        init(from decoder: any Decoder) throws {
            Self.decodes.withLock { $0 += 1 }
            count = try decoder.singleValueContainer().decode(Int.self)
        }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(count)
        }
    }

    @Test("a value is decoded by the first read alone")
    func decodedOnce() throws {
        let key = KVKey<Counting>("a")
        let store = try Costs().open()
        try store.set(key, value: Counting())
        let bytes = try store.rawValue(named: "a") ?? []
        try store.setRawValue(bytes, named: "a")
        let before = Counting.decodes.withLock { $0 }
        for _ in 0..<10 { #expect(store.get(key)?.count == 0) }
        #expect(Counting.decodes.withLock { $0 } == before + 1)
    }

    // MARK: Writing

    @Test("10,000 sets of 64 bytes into mapped space: one store each, and space is reserved twice")
    func mappedSets() throws {
        let costs = Costs()
        let store = try costs.open()
        costs.forget()
        for number in 0..<10_000 { try store.setRawValue(Self.value, named: Self.name(number)) }
        // 260 KiB and slightly more each time, including the reserve for removals, filled with zeros 64 KiB at a time.
        // Windows without unflushed records are written back, which costs nothing in memory, and unmapped.
        #expect(costs.calls == [.store: 10_000, .allocate: 2, .map: 2, .write: 11, .writeBack: 1])
        #expect(costs.bytes(.store) == 640_000)
    }

    @Test("10,000 sets of 64 bytes without mapping: one write each")
    func writtenSets() throws {
        let costs = Costs()
        let store = try costs.open(isMapped: false)
        costs.forget()
        for number in 0..<10_000 { try store.setRawValue(Self.value, named: Self.name(number)) }
        #expect(costs.calls == [.write: 10_000])
        #expect(costs.bytes(.write) == 640_000)
    }

    @Test("a set writes 24 bytes, the name and the value, however it is stored", arguments: [false, true])
    func recordSize(isMapped: Bool) throws {
        let costs = Costs()
        let store = try costs.open(isMapped: isMapped)
        // The first one makes room for the others.
        try store.set(KVKey("first"), value: 0)
        /// The sizes of a set's stores, of its name and of its encoded value.
        func cost<Value: Codable & Sendable>(_ name: String, _ value: Value) throws -> [Int] {
            costs.forget()
            try store.set(KVKey(name), value: value)
            let calls = costs.calls
            #expect(calls[.store, default: 0] + calls[.write, default: 0] == 1)
            let encoded = try #require(try store.rawValue(named: name)).count
            return [costs.bytes(.store) + costs.bytes(.write), name.utf8.count, encoded]
        }
        #expect(try cost("launches", 7) == [24 + 8 + 3, 8, 3])
        #expect(try cost("launches", Int.max) == [24 + 8 + 11, 8, 11])
        #expect(try cost("isOn", true) == [24 + 4 + 3, 4, 3])
        #expect(try cost("é", String(repeating: "x", count: 32)) == [24 + 2 + 36, 2, 36])
        #expect(try cost("", Pair(name: "ab", count: 3)) == [24 + 18, 0, 18])
    }

    @Test("remove and removeAll cost one record, removing an absent key none")
    func removals() throws {
        let costs = Costs()
        let store = try costs.open(isMapped: false)
        for number in 0..<1_000 { try store.setRawValue(Self.value, named: Self.name(number)) }
        costs.forget()
        try store.removeValue(named: "absent")
        #expect(costs.calls == [:])
        try store.removeValue(named: Self.name(1))
        #expect(costs.calls == [.write: 1])
        #expect(costs.bytes(.write) == 24 + 5)
        costs.forget()
        try store.removeAll()
        #expect(costs.calls == [.write: 1])
        #expect(costs.bytes(.write) == 24)
    }

    @Test("a batch of 1,000 is one write of 24 bytes, and for each change 8 bytes, the name and the value")
    func batches() throws {
        for isMapped in [false, true] {
            let costs = Costs()
            let store = try costs.open(isMapped: isMapped)
            costs.forget()
            try store.batch { batch in
                for number in 0..<1_000 { batch.append(.set(name: Self.name(number), bytes: Self.value)) }
            }
            #expect(costs.calls == (isMapped ? [.store: 1, .allocate: 1, .map: 1, .write: 5] : [.write: 1]))
            #expect(costs.bytes(isMapped ? .store : .write) == 24 + 1_000 * (8 + 5 + Self.valueSize))
        }
    }

    @Test("replacing a value costs no more than storing a new one")
    func conditionalChanges() throws {
        let costs = Costs()
        let store = try costs.open(isMapped: false)
        let key = KVKey<Int>("count")
        try store.set(key, value: 1)
        costs.forget()
        try store.set(key, value: 2)
        try store.update(key, default: 0) { $0 += 1 }
        #expect(try store.createIfAbsent(key, value: 9) == false)
        #expect(costs.calls == [.write: 2])
    }

    // MARK: Reading

    @Test("reading makes no call, not even the first time after opening", arguments: [false, true])
    func reads(isMapped: Bool) throws {
        let costs = Costs()
        do {
            let store = try costs.open(isMapped: isMapped)
            for number in 0..<100 { try store.set(KVKey(Self.name(number)), value: number) }
        }
        let store = try costs.open(isMapped: isMapped)
        costs.forget()
        for number in 0..<200 {
            let key = KVKey<Int>(Self.name(number))
            let expected = number < 100 ? number : nil
            #expect(store.get(key) == expected)
            #expect(try store.read(key) == expected)
            #expect(store.contains(key) == (expected != nil))
            #expect(try (store.entry(named: key.name) != nil) == (expected != nil))
            #expect(try (store.rawValue(named: key.name) != nil) == (expected != nil))
            // A value of another type is not decoded repeatedly.
            _ = store.get(KVKey<String>(key.name))
        }
        #expect(try store.keys().count == 100)
        #expect(try store.snapshot().count == 100)
        #expect(costs.calls == [:])
    }

    // MARK: Flushing

    @Test("synchronize flushes once, and not at all if nothing was written since")
    func flushes() throws {
        for isMapped in [false, true] {
            let costs = Costs()
            let store = try costs.open(isMapped: isMapped)
            for number in 0..<10 { try store.set(KVKey(Self.name(number)), value: number) }
            costs.forget()
            try store.synchronize()
            // The status of the name `log` and of the open file show whether the name still leads to it.
            let flush: [FileSystemOperation: Int] = isMapped ? [.writeBack: 1, .synchronize: 1] : [.synchronize: 1]
            #expect(costs.calls == flush.merging([.status: 2], uniquingKeysWith: +))
            try store.synchronize()
            #expect(costs.calls[.synchronize] == 1)
            try store.set(KVKey("a"), value: 1, durability: .full)
            #expect(costs.calls[.synchronize] == 2)
        }
    }

    @Test("where flushes hide errors of mappings, as on Darwin, a record is written, then flushed")
    func unreportedErrors() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem(options: .darwin))
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(KVKey("a"), value: 1)
        try store.synchronize()
        fileSystem.log.removeAll()
        try store.set(KVKey("a"), value: 2)
        try store.synchronize()
        let calls = fileSystem.log.records.map(\.operation).filter { $0 != .status }
        #expect(calls == [.write, .synchronize])
    }

    @Test("writers that arrive during a flush share one more flush", arguments: [false, true])
    func sharedFlush(isMapped: Bool) throws {
        let gate = FlushGate()
        let store = try gate.openStore(isMapped: isMapped)
        gate.arm()
        let first = Threads(1) { _ in
            try store.set(KVKey(Self.name(0)), value: 0, durability: .full)
        }
        #expect(gate.waitForFlush(), "no flush")
        let others = Threads(7) { thread in
            try store.set(KVKey(Self.name(thread + 1)), value: thread)
            gate.didWrite.signal()
            try store.synchronize()
        }
        #expect((0..<7).allSatisfy { _ in gate.waitForWrite() }, "writers wait for the device")
        gate.release()
        try first.join()
        try others.join()
        #expect(gate.flushCount == 2)
        #expect(try store.integers().count == 8)
    }

    @Test("8 threads of 50 durable sets each, in lockstep, make 50 flushes, not 400")
    func flushesInStep() throws {
        let gate = FlushGate()
        let store = try gate.openStore()
        let barrier = Barrier(8)
        let before = gate.flushCount
        try Threads(8) { thread in
            for round in 0..<50 {
                // All have written before the first requests a flush, and none writes before the last has been served.
                let written = Result { try store.set(KVKey(Self.name(thread)), value: round) }
                barrier.wait()
                let flushed = Result { try store.synchronize() }
                barrier.wait()
                try written.get()
                try flushed.get()
            }
        }.join()
        #expect(gate.flushCount - before == 50)
        #expect(try store.integers().values.allSatisfy { $0 == 49 })
    }

    // MARK: Compaction

    @Test("compaction writes live records once, in chunks of a mebibyte, and flushes file and directory")
    func compaction() throws {
        let costs = Costs()
        let store = try costs.open(isMapped: false)
        for _ in 0..<3 {
            for number in 0..<1_000 { try store.setRawValue(Self.value, named: Self.name(number)) }
        }
        costs.forget()
        try store.compact()
        #expect(costs.calls[.write] == 2)
        // The header, the records, and a flush marker.
        #expect(costs.bytes(.write) == LogHeader.size + 1_000 * 64 + 24)
        #expect(costs.calls[.synchronize] == 3)
        #expect(costs.calls[.read] == nil)
        #expect(costs.calls[.rename] == 1)
    }

    @Test("overwrites compact the log once per outdated mebibyte")
    func amortisedRewriting() throws {
        let costs = Costs()
        let store = try costs.open(isMapped: false)
        for number in 0..<100 { try store.setRawValue(Self.value, named: Self.name(number)) }
        costs.forget()
        let sets = TestDepth.limit(34_000, deep: 50_000)
        for number in 0..<sets { try store.setRawValue(Self.value, named: Self.name(number % 100)) }
        let due = (100 * 64 + 1 << 20) / 64
        #expect(costs.calls[.rename] == sets / due)
    }

    // MARK: Opening

    @Test(
        "opening reads the log once, in chunks of a mebibyte",
        arguments: [0, 1_000, TestDepth.limit(20_000, deep: 100_000)])
    func opening(count: Int) throws {
        let costs = Costs()
        do {
            let store = try costs.open(isMapped: false)
            for number in 0..<count { try store.setRawValue(Self.value, named: Self.name(number)) }
        }
        let size = try Int(costs.status("/store/log").sizeInBytes)
        costs.forget()
        let store = try costs.open(isMapped: false)
        #expect(try store.keys().count == count)
        let window = 1 << 20
        // The header by itself, then windows that begin with the first incomplete record of the previous one.
        let step = window / 64 * 64
        let windows = size > LogHeader.size ? (size - LogHeader.size + step - 1) / step : 0
        #expect(costs.reads("/store/log").count <= 1 + windows)
        #expect(costs.reads("/store/log").reduce(0, +) <= size + windows * (window - step))
        #expect(costs.calls[.write, default: 0] <= 1, "only the number of the process")
        #expect(costs.synchronized == ["/"], "only the directory that the store is in")
    }

    @Test("a scan covers the records of the log: one per change since it was compacted")
    func scannedRecords() throws {
        let costs = Costs()
        do {
            let store = try costs.open(isMapped: false)
            for round in 0..<2 { for number in 0..<100 { try store.set(KVKey(Self.name(number)), value: round) } }
        }
        let url = URL(fileURLWithPath: "/store")
        // One more for the closing of the store.
        #expect(try #require(try KVInspection(of: url, fileSystem: costs.fileSystem)).recordCount == 201)
        try costs.open(isMapped: false).compact()
        // The live values, a marker of the sequence number that they cover, and a flush marker.
        #expect(try #require(try KVInspection(of: url, fileSystem: costs.fileSystem)).recordCount == 102)
    }

    @Test("closing a store without writes flushes nothing and writes nothing")
    func closing() throws {
        let costs = Costs()
        try costs.open().synchronize()
        costs.forget()
        do { _ = try costs.open() }
        #expect(costs.synchronized == ["/"], "only the directory that the store is in, when it was opened")
        #expect(costs.calls[.store] == nil)
        #expect(costs.bytes(.write) <= 12, "only the number of the process")
    }
}

// MARK: -

/// A store's file system that records every call.
private struct Costs {
    let fileSystem = FaultingFileSystem(InMemoryFileSystem())

    func open(isMapped: Bool = true) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.isMapped = isMapped
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    func status(_ path: POSIXPath) throws -> FileStatus { try fileSystem.base.status(path) }

    func forget() { fileSystem.log.removeAll() }

    /// The number of calls of each kind.
    var calls: [FileSystemOperation: Int] {
        fileSystem.log.records.reduce(into: [:]) { $0[$1.operation, default: 0] += 1 }
    }

    /// The number of bytes transferred by calls of a kind.
    func bytes(_ operation: FileSystemOperation) -> Int {
        fileSystem.log.records.filter { $0.operation == operation }
            .reduce(0) { $0 + ($1.transferredCount ?? Int($1.count ?? 0)) }
    }

    /// The flushes in order.
    var synchronized: [POSIXPath] {
        fileSystem.log.records.filter { $0.operation == .synchronize }.compactMap(\.path)
    }

    /// The number of bytes of each read of a file.
    func reads(_ path: POSIXPath) -> [Int] {
        fileSystem.log.records.filter { $0.operation == .read && $0.path == path }.compactMap(\.transferredCount)
    }
}

/// An in-memory file system that counts flushes and can delay one of them.
private final class FlushGate: Sendable {
    private let state = Mutex((count: 0, isArmed: false))
    private let began = DispatchSemaphore(value: 0)
    private let mayEnd = DispatchSemaphore(value: 0)

    /// Signalled by the test for each write that has returned.
    let didWrite = DispatchSemaphore(value: 0)

    func openStore(isMapped: Bool = true) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.isMapped = isMapped
        let fileSystem = InterceptedFileSystem(InMemoryFileSystem()) { [self] call in
            if call.operation == .synchronize { flush() }
        }
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    var flushCount: Int { state.withLock { $0.count } }

    /// Resets the counts, and delays the next flush until it is released.
    func arm() { state.withLock { $0 = (0, true) } }

    func release() { mayEnd.signal() }

    /// Waits at most a minute for the delayed flush to begin.
    func waitForFlush() -> Bool { began.wait(timeout: .now() + 60) == .success }
    func waitForWrite() -> Bool { didWrite.wait(timeout: .now() + 60) == .success }

    private func flush() {
        let isHeldUp = state.withLock { state in
            defer { state.isArmed = false }
            state.count += 1
            return state.isArmed
        }
        guard isHeldUp else { return }
        began.signal()
        mayEnd.wait()
    }
}

/// Threads that run concurrently.
private struct Threads {
    private let errors = ErrorList()
    private let group = DispatchGroup()

    init(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) {
        for number in 0..<count {
            group.enter()
            Thread.detachNewThread { [errors, group] in
                errors.note { try body(number) }
                group.leave()
            }
        }
    }

    /// Waits for all threads and throws the first error of any.
    func join() throws {
        group.wait()
        try errors.throwFirst()
    }

    private final class ErrorList: Sendable {
        private let errors = Mutex<[any Error]>([])

        func note(_ body: () throws -> Void) {
            do {
                try body()
            } catch {
                errors.withLock { $0.append(error) }
            }
        }

        func throwFirst() throws {
            if let error = errors.withLock({ $0.first }) { throw error }
        }
    }
}

/// A reusable barrier for threads.
private final class Barrier: Sendable {
    private let count: Int
    private let waiting = Mutex<[DispatchSemaphore]>([])

    init(_ count: Int) { self.count = count }

    func wait() {
        let own = DispatchSemaphore(value: 0)
        let all = waiting.withLock { waiting -> [DispatchSemaphore] in
            waiting.append(own)
            guard waiting.count == count else { return [] }
            defer { waiting = [] }
            return waiting
        }
        for semaphore in all { semaphore.signal() }
        own.wait()
    }
}
