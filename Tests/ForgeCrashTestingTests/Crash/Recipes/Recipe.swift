import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// A correct or wrong way to store data, with a check of its promise.
struct Recipe: Sendable, CustomStringConvertible {
    let description: String
    /// Nil for a correct recipe; otherwise the strictest of the weaker profiles under which it holds, or `never` if it
    /// fails between two of its steps even without losses.
    let holdsUnder: String?
    static let never = "never"
    let prepare: @Sendable (InMemoryFileSystem) throws -> Void
    let run: @Sendable (InMemoryFileSystem, CrashRun<String>) throws -> Void
    let recover: @Sendable (InMemoryFileSystem, Crash<String>) throws -> Void

    static func right(_ description: String, _ scene: Scene, _ run: @escaping Body) -> Recipe {
        Recipe(
            description: description, holdsUnder: nil, prepare: scene.prepare, run: run, recover: scene.recover)
    }

    static func wrong(
        _ description: String, holdsUnder: String = "processKill", _ scene: Scene, _ run: @escaping Body
    ) -> Recipe {
        Recipe(
            description: description, holdsUnder: holdsUnder, prepare: scene.prepare, run: run,
            recover: scene.recover)
    }

    typealias Body = @Sendable (InMemoryFileSystem, CrashRun<String>) throws -> Void

    func explorer(
        profile: CrashProfile = .posixStrict, limit: Int = 20_000, depth: Int = 2
    ) -> CrashExplorer<String> {
        CrashExplorer(
            profile: profile, limit: limit, depth: depth, marking: String.self, prepare: prepare, run: run,
            recover: recover)
    }
}

/// The initial state, and the check after a crash.
struct Scene: Sendable {
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void
    var recover: @Sendable (InMemoryFileSystem, Crash<String>) throws -> Void
}

/// The error of a check.
struct Broken: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

func demand(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    guard condition else { throw Broken(what()) }
}

/// A program that is restarted after every crash, with correct or wrong assumptions about an earlier, killed run.
struct RestartRecipe: Sendable, CustomStringConvertible {
    /// The state that the wrong program assumes to be durable.
    let description: String
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void = { _ in }
    /// The program, which ends with a promise. If `trusts` is true, it does not synchronise existing state.
    let program: @Sendable (InMemoryFileSystem, _ trusts: Bool) throws -> Void
    /// Throws unless the promise is kept.
    let check: @Sendable (InMemoryFileSystem) throws -> Void

    func explorer(trusts: Bool) -> CrashExplorer<String> {
        CrashExplorer(
            limit: 20_000, marking: String.self, prepare: prepare,
            run: { fileSystem, run in
                try program(fileSystem, trusts)
                run.acknowledge("done")
            },
            recover: { fileSystem, crash in
                if crash.acknowledged.contains("done") { try check(fileSystem) }
                try program(fileSystem, trusts)
                try check(fileSystem)
                crash.acknowledge("done")
            })
    }
}

/// The primitive steps of recipes, without hidden safety.
extension InMemoryFileSystem {
    /// Creates or truncates a file, and writes.
    func put(_ path: String, _ bytes: [UInt8], _ options: FileDescriptor.OpenOptions = [.create, .truncate]) throws {
        let descriptor = try open(POSIXPath(path), .writeOnly, options: options)
        try bytes.withUnsafeBytes { try writeFully(descriptor, from: $0) }
        try close(descriptor)
    }

    /// Writes into an existing file, at its end if no offset is given.
    func patch(_ path: String, _ bytes: [UInt8], at offset: Int64? = nil) throws {
        let descriptor = try open(POSIXPath(path), .writeOnly)
        let end = try seek(descriptor, to: 0, from: .end)
        try bytes.withUnsafeBytes { try writeFully(descriptor, from: $0, at: offset ?? end) }
        try close(descriptor)
    }

    /// Synchronises a file or a directory.
    func sync(_ path: String, _ level: SyncLevel = .full) throws {
        let descriptor = try open(POSIXPath(path))
        try synchronize(descriptor, level)
        try close(descriptor)
    }

    /// Maps a whole file.
    func mapping(_ path: String, _ body: (FileMapping) throws -> Void) throws {
        let descriptor = try open(POSIXPath(path), .readWrite)
        let size = try status(of: .descriptor(descriptor)).sizeInBytes
        let mapping = try map(descriptor, at: 0, count: Int(size))
        try close(descriptor)
        try body(mapping)
    }

    /// Stores into an existing file that is long enough.
    func store(_ path: String, _ bytes: [UInt8], at offset: Int) throws {
        try mapping(path) { mapping in bytes.withUnsafeBytes { mapping.store($0, at: offset) } }
    }

    /// Writes back the stores into a file.
    func writeBack(_ path: String) throws {
        try mapping(path) { try $0.writeBack() }
    }

    /// Records a failed synchronisation of a file.
    func failSync(_ path: String) throws {
        let descriptor = try open(POSIXPath(path))
        try recordFailedSynchronization(of: descriptor)
        try close(descriptor)
    }

    func move(_ path: String, _ newPath: String, _ mode: RenameMode = .replacing) throws {
        try rename(POSIXPath(path), to: POSIXPath(newPath), mode)
    }

    func remove(_ path: String) throws {
        try unlink(POSIXPath(path))
    }

    func makeDirectory(_ path: String) throws {
        try createDirectory(POSIXPath(path))
    }

    func cut(_ path: String, to size: Int) throws {
        try truncate(.path(POSIXPath(path)), to: Int64(size))
    }

    /// The whole content; nil if the file does not exist.
    func content(_ path: String) throws -> [UInt8]? {
        do {
            return try readFile(POSIXPath(path))
        } catch  where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    func has(_ path: String) -> Bool { fileExists(atPath: path) }
}

func letters(_ letter: Character, _ count: Int) -> [UInt8] {
    [UInt8](repeating: letter.asciiValue ?? 0, count: count)
}

/// A log of records with lengths and checksums, and options for typical mistakes.
struct TestLog: Sendable {
    var checksSums = true
    var acceptsEmptyRecords = false
    /// Whether recovery truncates an invalid tail before it appends.
    var cutsTail = true
    /// Whether it appends after the last record, not at the end of the file.
    var appendsAtLastRecord = true
    var path = "/d/log"

    static let header = Array("LOG1".utf8)

    static func record(_ payload: [UInt8]) -> [UInt8] {
        bytes(UInt32(payload.count)) + bytes(sum(payload)) + payload
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private static func sum(_ payload: [UInt8]) -> UInt32 {
        payload.withUnsafeBufferPointer { bytes in
            var sum = 2_166_136_261 ^ UInt32(bytes.count)
            var index = 0
            // A loop over the indices of a pointer: debug builds do not inline iterators.
            while index < bytes.count {
                sum = (sum ^ UInt32(bytes[index])) &* 16_777_619
                index &+= 1
            }
            return sum
        }
    }

    /// The records of a log, and the end of the last one; nil without a header.
    func parse(_ content: [UInt8]) -> (records: [[UInt8]], end: Int)? {
        guard content.starts(with: Self.header) else { return nil }
        var records: [[UInt8]] = []
        var end = Self.header.count
        while content.count - end >= 8 {
            let length = Int(Self.number(content, at: end))
            guard length <= content.count - end - 8, length > 0 || acceptsEmptyRecords else { break }
            let payload = Array(content[(end + 8)..<(end + 8 + length)])
            let sum = Self.number(content, at: end + 4)
            if checksSums, sum != Self.sum(payload), !(acceptsEmptyRecords && length == 0) { break }
            records.append(payload)
            end += 8 + length
        }
        return (records, end)
    }

    private static func number(_ content: [UInt8], at offset: Int) -> UInt32 {
        (0..<4).reduce(0) { $0 | UInt32(content[offset + $1]) << (8 * $1) }
    }

    /// Reads the log, and prepares it for the next append.
    func open(_ fileSystem: InMemoryFileSystem) throws -> (records: [[UInt8]], end: Int)? {
        guard let content = try fileSystem.content(path), let found = parse(content) else { return nil }
        if cutsTail, found.end < content.count {
            try fileSystem.cut(path, to: found.end)
            try fileSystem.sync(path)
        }
        return appendsAtLastRecord ? found : (found.records, content.count)
    }

    func append(_ payloads: [UInt8]..., at end: Int? = nil, to fileSystem: InMemoryFileSystem) throws {
        try fileSystem.patch(path, payloads.flatMap(Self.record), at: end.map(Int64.init))
    }
}
