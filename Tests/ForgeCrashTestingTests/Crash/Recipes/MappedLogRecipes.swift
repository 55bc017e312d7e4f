import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

private let first = letters("a", 44)
private let second = letters("b", 20)
/// As long as the first one, so that a store over it ends where another may start.
private let later = letters("l", 44)

/// The size of the file.
private let size = 3 * 4096

/// A mapped log in a file of a fixed size that has zeros after the last record.
private struct MappedLog {
    let log: TestLog
    let fileSystem: InMemoryFileSystem
    let mapping: FileMapping

    init(_ fileSystem: InMemoryFileSystem, _ log: TestLog = TestLog()) throws {
        self.log = log
        self.fileSystem = fileSystem
        let descriptor = try fileSystem.open("/d/log", .readWrite)
        mapping = try fileSystem.map(descriptor, at: 0, count: size)
        try fileSystem.close(descriptor)
    }

    /// The offset of the log in its file, such that the first record spans two blocks.
    private static let start = 4096 - 40 - TestLog.header.count

    static func prepare(_ fileSystem: InMemoryFileSystem) throws {
        try fileSystem.makeDirectory("/d")
        let descriptor = try fileSystem.open("/d/log", .readWrite, options: [.create])
        try fileSystem.allocate(descriptor, at: 0, length: Int64(size))
        try fileSystem.close(descriptor)
        try fileSystem.patch("/d/log", TestLog.header, at: Int64(start))
    }

    func store(_ bytes: [UInt8], at offset: Int) {
        bytes.withUnsafeBytes { mapping.store($0, at: offset) }
    }

    func append(_ payload: [UInt8], at end: Int? = nil) {
        store(TestLog.record(payload), at: Self.start + (end ?? found.end))
    }

    var found: (records: [[UInt8]], end: Int) {
        let content = mapping.withUnsafeBytes(Self.start..<size) { Array($0) }
        return log.parse(content) ?? ([], TestLog.header.count)
    }

    /// Clears everything after the last record, which may be part of a torn one.
    func clearTail() throws {
        let end = Self.start + found.end
        let isClear = mapping.withUnsafeBytes(end..<size) { $0.allSatisfy { $0 == 0 } }
        guard !isClear else { return }
        store([UInt8](repeating: 0, count: size - end), at: end)
        try keep()
    }

    func keep() throws {
        try mapping.writeBack()
        try fileSystem.sync("/d/log", .data)
    }
}

extension Scene {
    /// A preallocated log without a record.
    fileprivate static func mappedLog(_ log: TestLog = TestLog()) -> Scene {
        Scene(prepare: MappedLog.prepare) { fileSystem, crash in
            let mapped = try MappedLog(fileSystem, log)
            var records = mapped.found.records
            if crash.depth > 1, records.last == later { records.removeLast() }
            try demand(
                [first, second].starts(with: records), "records of \(records.map(\.count)) bytes, not as stored")
            try demand(records.count >= crash.acknowledged.count, "an acknowledged record is lost")
            if log.cutsTail { try mapped.clearTail() }
            let before = mapped.found.records
            mapped.append(later)
            try mapped.keep()
            try demand(mapped.found.records == before + [later], "more behind the record that was appended")
        }
    }

    /// The number of records in the first block, and the records, of 24 bytes each, in the second.
    fileprivate static let mappedCount = Scene(prepare: MappedLog.prepare) { fileSystem, crash in
        let mapped = try MappedLog(fileSystem)
        let (count, content) = mapped.mapping.withUnsafeBytes(0..<4120) { (Int($0[0]), Array($0[4096...])) }
        try demand(count == 0 || content == letters("r", 24), "a record that is counted is not as stored")
        try demand(crash.acknowledged.isEmpty || count == 1, "an acknowledged record is lost")
    }
}

extension Recipe {
    static let mappedLogs: [Recipe] = [
        .right("store a record, write it back and synchronise", .mappedLog()) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            for (name, record) in [("first", first), ("second", second)] {
                mapped.append(record)
                try mapped.keep()
                run.acknowledge(name)
            }
        },
        .right("store records, write them back and synchronise once", .mappedLog()) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            mapped.append(second)
            try mapped.keep()
            run.acknowledge("first")
            run.acknowledge("second")
        },
        .right("count a stored record that is durable", .mappedCount) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.store(letters("r", 24), at: 4096)
            try mapped.keep()
            mapped.store([1], at: 0)
            try mapped.keep()
            run.acknowledge("record")
        },
        .wrong("synchronise a stored record without writing it back", holdsUnder: "freshInode", .mappedLog()) {
            fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            try fileSystem.sync("/d/log")
            run.acknowledge("first")
        },
        .wrong("synchronise a stored record before writing it back", holdsUnder: "freshInode", .mappedLog()) {
            fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            try fileSystem.sync("/d/log")
            try mapped.mapping.writeBack()
            run.acknowledge("first")
        },
        .wrong("write a stored record back without synchronising", .mappedLog()) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            try mapped.mapping.writeBack()
            run.acknowledge("first")
        },
        .wrong("acknowledge a record that was stored", .mappedLog()) { fileSystem, run in
            try MappedLog(fileSystem).append(first)
            run.acknowledge("first")
        },
        .wrong("read a mapped log without checking sums", holdsUnder: never, .mappedLog(TestLog(checksSums: false))) {
            fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            try mapped.keep()
            run.acknowledge("first")
        },
        .wrong("leave a torn record in a mapped log", .mappedLog(TestLog(cutsTail: false))) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.append(first)
            mapped.append(second)
            try mapped.keep()
            run.acknowledge("first")
            run.acknowledge("second")
        },
        .wrong("count a stored record in another block at once", .mappedCount) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.store(letters("r", 24), at: 4096)
            mapped.store([1], at: 0)
            try mapped.keep()
            run.acknowledge("record")
        },
        .wrong("count a stored record once it was written back", .mappedCount) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.store(letters("r", 24), at: 4096)
            try mapped.mapping.writeBack()
            mapped.store([1], at: 0)
            try mapped.keep()
            run.acknowledge("record")
        },
        .wrong("count a stored record before it is there", holdsUnder: never, .mappedCount) { fileSystem, run in
            let mapped = try MappedLog(fileSystem)
            mapped.store([1], at: 0)
            mapped.store(letters("r", 24), at: 4096)
            try mapped.keep()
            run.acknowledge("record")
        },
    ]
}
