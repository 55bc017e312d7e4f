import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A store on a full device") struct FullDeviceTests {
    private let fileSystem = InMemoryFileSystem(options: .init(quota: .init(sizeInBytes: 1 << 20)))
    private let recorder = IssueRecorder()

    private func open(isMapped: Bool = true, sharing: FileKVStore.Sharing = .exclusive) throws -> FileKVStore {
        var options = recorder.options(compactionFloorInBytes: 1 << 30)
        options.isMapped = isMapped
        options.sharing = sharing
        return try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    /// Fills the device.
    private func fillDevice() throws {
        let filler = try fileSystem.open("/filler", .writeOnly, options: [.create], permissions: .privateFile)
        defer { fileSystem.discard(filler) }
        var offset: Int64 = 0
        let block = [UInt8](repeating: 1, count: 4096)
        do { while true { offset += Int64(try fileSystem.write(block, to: filler, at: offset)) } } catch {}
    }

    /// Fills the device, and then writes until the store is full too; returns the number of names.
    private func fill(_ store: FileKVStore) throws -> Int {
        try fillDevice()
        var count = 0
        do {
            while count < 1_000_000 {
                try store.set(KVKey<Int>("key.\(count)"), value: count)
                count += 1
            }
        } catch {
            #expect(((error as? KVStoreError)?.underlying as? FileSystemError)?.errno == .noSpace)
        }
        return count
    }

    @Test("removes values using the reserved space", arguments: [FileKVStore.Sharing.exclusive, .shared])
    func removing(_ sharing: FileKVStore.Sharing) throws {
        do {
            let store = try open(sharing: sharing)
            try store.set(KVKey<Int>("first"), value: 0)
            let count = try fill(store)
            #expect(count > 50)
            for number in 0..<50 { try store.remove(KVKey<Int>("key.\(number)")) }
            #expect(try store.keys().count == count - 49)
        }
        let store = try open(sharing: sharing)
        #expect(store.get(KVKey<Int>("key.10")) == nil)
        #expect(store.get(KVKey<Int>("key.50")) == 50)
        #expect(recorder.damage.isEmpty)
    }

    @Test(
        "is opened there, and removes values, with the block that is kept for that and with the rest of its last one",
        arguments: [FileKVStore.Sharing.exclusive, .shared], [true, false])
    func openedThere(_ sharing: FileKVStore.Sharing, hasReserve: Bool) throws {
        do {
            let store = try open(sharing: sharing)
            for number in 0..<200 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        }
        if !hasReserve { try fileSystem.removeFile("/store/#reserve") }
        try fillDevice()
        let count = hasReserve ? 100 : 1
        do {
            let store = try open(sharing: sharing)
            for number in 0..<count { try store.remove(KVKey<Int>("key.\(number)")) }
            #expect(throws: KVStoreError.self) {
                try store.set(KVKey<[UInt8]>("large"), value: [1, 2, 3] + [UInt8](repeating: 0, count: 9000))
            }
            try store.close()
        }
        do {
            let store = try open(sharing: sharing)
            #expect(try store.keys().count == 200 - count)
            #expect(store.get(KVKey<Int>("key.\(count)")) == count)
            try store.removeAll()
            try store.close()
        }
        #expect(try open(sharing: sharing).keys().isEmpty)
        // There is no space to compact.
        #expect(recorder.damage.isEmpty, "\(recorder.descriptions)")
    }

    @Test("is opened there, and removes what has expired", arguments: [FileKVStore.Sharing.exclusive, .shared])
    func expired(_ sharing: FileKVStore.Sharing) throws {
        let start = Date(timeIntervalSince1970: 1_000_000)
        do {
            let store = ExpiringKVStore(try open(sharing: sharing), now: { start })
            for number in 0..<50 {
                try store.set(KVKey<Int>("key.\(number)"), value: number, expiresAfter: .seconds(60))
            }
            try store.set(KVKey<Int>("stays"), value: 1)
        }
        try fillDevice()
        do {
            let store = ExpiringKVStore(try open(sharing: sharing), now: { start + 120 })
            #expect(try store.removeExpired() == 50)
        }
        let store = ExpiringKVStore(try open(sharing: sharing), now: { start + 120 })
        #expect(try store.keys() == ["stays"])
        // There is no space to compact.
        #expect(recorder.damage.isEmpty, "\(recorder.descriptions)")
    }

    @Test("removes a value in a batch of its own", arguments: [FileKVStore.Sharing.exclusive, .shared])
    func removingInBatch(_ sharing: FileKVStore.Sharing) throws {
        let store = try open(sharing: sharing)
        try store.set(KVKey<Int>("first"), value: 0)
        _ = try fill(store)
        try store.batch { $0.remove(KVKey<Int>("first")) }
        #expect(try !store.keys().contains("first"))
    }

    @Test("reserves space for removals again after a shared store was compacted")
    func refilling() throws {
        let store = try open(sharing: .shared)
        for _ in 0..<2 {
            for number in 0..<50 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            _ = try fill(store)
            let count = try store.keys().count
            for number in 0..<50 { try store.remove(KVKey<Int>("key.\(number)")) }
            #expect(try store.keys().count == count - 50)
            try fileSystem.removeFile("/filler")
            try store.compact()
        }
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }

    @Test("removes everything, is empty after reopening, and can then be written to", arguments: [true, false])
    func removingAll(_ isMapped: Bool) throws {
        do {
            let store = try open(isMapped: isMapped)
            try store.set(KVKey<Int>("first"), value: 0)
            let count = try fill(store)
            #expect(count > 0)
            do { for number in 0..<count { try store.remove(KVKey<Int>("key.\(number)")) } } catch {}
            try store.removeAll()
            #expect(try store.keys().isEmpty)
        }
        let store = try open(isMapped: isMapped)
        #expect(try store.keys().isEmpty)
        // Rewriting the log at closing may fail for lack of space.
        #expect(recorder.damage.isEmpty, "\(recorder.descriptions)")
        try fileSystem.removeFile("/filler")
        let entry = try store.entry(named: "first")
        #expect(entry == nil)
        try store.set(KVKey<Int>("first"), value: 1)
        #expect(try open(isMapped: isMapped).read(KVKey<Int>("first")) == 1)
    }

    @Test("removes everything in place without reserved space, and can be written to", arguments: [true, false])
    func removingAllAgain(_ isMapped: Bool) throws {
        do {
            let store = try open(isMapped: isMapped)
            try store.set(KVKey<Int>("first"), value: 0)
            #expect(try fill(store) > 0)
            // Their records exceed the reserved space.
            for _ in 0..<200 { try store.removeAll() }
            try store.set(KVKey<Int>("a"), value: 1)
        }
        #expect(try open(isMapped: isMapped).integers() == ["a": 1])
        #expect(recorder.damage.isEmpty, "\(recorder.descriptions)")
    }

    @Test("can be written to after values were removed and the log was compacted")
    func compactingAfterRemoval() throws {
        let store = try open()
        try store.set(KVKey<Int>("first"), value: 0)
        #expect(try fill(store) > 0)
        try store.removeAll()
        // Less than the log has to grow by.
        try fileSystem.setQuota(.init(sizeInBytes: try fileSystem.usage().sizeInBytes + 16_384))
        let error = #expect(throws: KVStoreError.self) { try store.set(KVKey<Int>("a"), value: 1) }
        #expect(error?.isOutOfSpace == true)
        try store.compact()
        try store.set(KVKey<Int>("a"), value: 1)
        #expect(try store.integers() == ["a": 1])
    }

    @Test("without space to compact reports that, and keeps everything", arguments: [true, false])
    func compacting(_ isMapped: Bool) throws {
        let store = try open(isMapped: isMapped)
        try store.set(KVKey<[UInt8]>("large"), value: [UInt8](repeating: 7, count: 100_000))
        let count = try fill(store)
        let files = try fileSystem.contentsOfDirectory(at: URL(filePath: "/store"))
        let error = #expect(throws: KVStoreError.self) { try store.compact() }
        #expect(try fileSystem.contentsOfDirectory(at: URL(filePath: "/store")) == files)
        #expect(error?.operation == .compact && (error?.underlying as? FileSystemError)?.errno == .noSpace)
        #expect(try store.keys().count == count + 1)
        #expect(store.get(KVKey<[UInt8]>("large"))?.count == 100_000)
        try fileSystem.removeFile("/filler")
        try store.compact()
        #expect(try store.keys().count == count + 1)
    }

    @Test("removes everything in place while sequence numbers continue")
    func inPlace() throws {
        let full = FailingFileSystem()
        var options = recorder.options()
        options.isMapped = false
        do {
            let store = try FileKVStore(at: "/store", fileSystem: full, options: options)
            for number in 0..<10 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
            full.fail { operation, _ in operation == .write ? .noSpace : nil }
            #expect(throws: KVStoreError.self) { try store.set(KVKey<Int>("a"), value: 1) }
            // The marker after the header is in an allocated block.
            let isSecond = Counter()
            full.fail { operation, _ in operation == .write && isSecond.next() == 1 ? .noSpace : nil }
            try store.removeAll()
            full.fail(nil)
            try store.set(KVKey<Int>("b"), value: 2)
            #expect(try #require(try store.entry(named: "b")).revision > 10)
        }
        let store = try FileKVStore(at: "/store", fileSystem: full, options: options)
        #expect(try store.keys() == ["b"])
        #expect(recorder.issues.isEmpty, "\(recorder.descriptions)")
    }
}

@Suite("The space after the end of a log") struct LogSpaceTests {
    private let disk = InMemoryFileSystem()
    private let file: LogFile

    init() throws {
        file = LogFile(
            try disk.open("/log", .readWrite, options: [.create]),
            header: LogHeader(fileID: LogFileID(random: { 1 }), generation: 1), on: disk)
    }

    private func size() throws -> Int64 { try disk.status("/log").sizeInBytes }

    @Test("is prepared in windows, which are aligned and begin before the end of the one before")
    func windows() throws {
        for (offset, end, expected) in [
            (64, 100, 0..<65_536), (64, 65_536, 0..<65_536), (64, 65_537, 0..<131_072), (131_071, 131_073, 0..<196_608),
            (131_072, 131_073, 65_536..<196_608),
        ] as [(Int64, Int64, Range<Int64>)] {
            #expect(LogWindow(file, after: offset, upTo: end, 1 << 16).range == expected)
        }
        // A window that is wanted before it is prepared is not prepared any more.
        let late = LogWindow(file, after: 64, upTo: 100, 1 << 16)
        #expect(late.take()?.range == nil)
        late.prepare()
        #expect(late.take()?.range == nil)
        #expect(try size() == 0)

        var space = LogSpace(LogSpace.Options(growth: 1 << 16, granularity: 1 << 16))
        let none = space.next(of: file)
        var isMapped = try space.reserve(100, at: 64, of: file)
        #expect(none == nil && isMapped)
        let window = space.next(of: file)
        let next = try #require(window)
        #expect(next.range == 65_536..<196_608 && space.preparesAt == .max)
        next.prepare()
        #expect(try size() == 196_608)
        // A record that does not fit into the first window is in the second one.
        isMapped = try space.reserve(5000, at: 126_000, of: file)
        #expect(isMapped)
        #expect(try size() == 196_608)
        #expect(space.preparesAt == 196_608 - 32_768)
        #expect(space.holds(196_608 - 4096 - 126_000, at: 126_000) && !space.holds(1, at: 65_535))
        var mappings = space.takeMappings()
        #expect(mappings.count == 1)
        space.release()
        mappings = space.takeMappings()
        #expect(mappings.isEmpty && space.preparesAt == .max && !space.holds(1, at: 126_000))
    }

    @Test("ends with a reserve for removals, and that with one for a record that removes everything")
    func reserves() throws {
        var space = LogSpace(LogSpace.Options(growth: 1 << 16, granularity: 1 << 16))
        #expect(!space.holds(1, at: 64))
        var isMapped = try space.reserve(100, at: 64, of: file)
        #expect(isMapped)
        let limit: Int64 = 1 << 17
        #expect(try size() == limit)
        #expect(space.preparesAt == limit - (1 << 15))
        let end = limit - 4096
        #expect(space.holds(Int(end) - 64, at: 64) && !space.holds(Int(end) - 63, at: 64))
        try disk.setQuota(.init(sizeInBytes: try disk.usage().sizeInBytes))
        let rooms: [(LogRecord.Code, Int)] = [
            (.set, 0), (.batch, 0), (.remove, 4096 - 64), (.removeAll, 4096), (.flushed, 4096),
        ]
        for (code, room) in rooms {
            isMapped = room == 0 ? true : try space.reserve(room, at: end, of: file, for: code)
            #expect(isMapped, "\(code)")
            let error = #expect(throws: FileSystemError.self) {
                try space.reserve(room + 1, at: end, of: file, for: code)
            }
            #expect(error?.errno == .noSpace, "\(code)")
        }
        #expect(try size() == limit)
    }
}

extension InMemoryFileSystem {
    fileprivate func write(_ bytes: [UInt8], to file: Descriptor, at offset: Int64) throws(FileSystemError) -> Int {
        try writeBytes(bytes, to: file, at: offset)
        return bytes.count
    }

    fileprivate func removeFile(_ path: POSIXPath) throws(FileSystemError) { try unlink(path, at: .workingDirectory) }
}
