import ForgeCrashTesting
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import SystemPackage

/// The undamaged log of a store.
struct LogTemplate: Sendable {
    private(set) var log: [UInt8] = []

    /// Every value ever written under a name.
    private(set) var written: [String: Set<[UInt8]>] = [:]

    /// The names, in a fixed order.
    private(set) var names: [String] = []

    /// A step of the program that writes the log.
    enum Step {
        /// Sets a name to a unique text of about that many bytes.
        case set(String, size: Int = 8)
        case remove(String)
        case removeAll
        case batch([String], removing: String? = nil)
        case synchronize
        case compact
        case reopen
    }

    static let all: [LogTemplate] = {
        do {
            return try scripts.enumerated().map { try LogTemplate($0.element.steps, $0.offset, $0.element.isClosed) }
        } catch {
            preconditionFailure("nothing fails in memory, but: \(error)")
        }
    }()

    private static let longName = String(repeating: "né", count: 341)

    private static let scripts: [(steps: [Step], isClosed: Bool)] = {
        let small: [Step] = [.set("a"), .set("b"), .set("a"), .remove("b"), .set("c", size: 90), .set("")]
        let mixed =
            small + [
                .batch(["d", "e", "a"], removing: "c"), .synchronize, .set("f", size: 300), .remove("a"), .set("b"),
                .batch((0..<9).map { "key.\($0)" }),
            ]
        let late: [Step] = [.set("g"), .remove("d"), .set(longName, size: 700), .set("a"), .batch(["a", "b"])]
        let many: [Step] = [.batch((0..<40).map { "key.\($0)" })] + (0..<260).map { .set("name.\($0)") }
        return [
            ([], true), ([.set("a")], true), ([.set("a")], false), (small, true), (small, false), (mixed, true),
            (mixed, false), (mixed + [.reopen] + late, true), (mixed + [.reopen] + late, false),
            (mixed + [.removeAll] + late, true), (mixed + [.reopen, .removeAll] + late, false),
            (mixed + [.compact] + late, true), (mixed + [.compact, .reopen] + late + [.reopen, .set("z")], false),
            (late + [.compact, .reopen, .compact], true), (many, true), (many + [.reopen] + mixed, false),
        ]
    }()

    private init(_ steps: [Step], _ number: Int, _ isClosed: Bool) throws {
        // Equal seeds would give the logs equal identifiers.
        let fileSystem = InMemoryFileSystem(options: .init(seed: 1000 + UInt64(number)))
        var store: FileKVStore? = try FileKVStore(at: "/store", fileSystem: fileSystem, options: Self.options)
        for (place, step) in steps.enumerated() {
            if case .reopen = step {
                store = nil
                store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: Self.options)
            } else if let store {
                try perform(step, "\(number)/\(place)", on: store)
            }
        }
        if isClosed { store = nil }
        log = try fileSystem.readFile("/store/log")
        // An open store has preallocated more zeros than are useful here.
        if !isClosed { log.removeLast(max(0, log.count - (log.lastIndex { $0 != 0 } ?? 0) - 200)) }
        names = written.keys.sorted()
    }

    /// Options that make every run identical.
    static var options: FileKVStore.Options {
        var options = FileKVStore.Options.silent
        options.compactsInBackground = false
        options.reserveLittle()
        return options
    }

    private mutating func perform(_ step: Step, _ text: String, on store: FileKVStore) throws {
        switch step {
        case .set(let name, let size):
            try store.set(KVKey<String>(name), value: text + String(repeating: "x", count: max(0, size - text.count)))
            try note(name, store)
        case .remove(let name): try store.remove(KVKey<String>(name))
        case .removeAll: try store.removeAll()
        case .batch(let names, let removed):
            try store.batch { batch in
                for name in names { try batch.set(KVKey<String>(name), value: text) }
                if let removed { batch.remove(KVKey<String>(removed)) }
            }
            for name in names { try note(name, store) }
        case .synchronize: try store.synchronize()
        case .compact: try store.compact()
        case .reopen: break
        }
    }

    private mutating func note(_ name: String, _ store: FileKVStore) throws {
        if let bytes = try store.rawValue(named: name) { written[name, default: []].insert(bytes) }
    }
}

/// Offsets and checksums of log format version 1, as documented, written independently of the store.
enum LogBytes {
    static let headerSize = 64
    static let frameSize = 20

    /// The ranges of a log's records, as far as their lengths are consistent.
    static func records(_ log: [UInt8]) -> [Range<Int>] {
        var records: [Range<Int>] = []
        var offset = headerSize
        while offset + frameSize + 4 <= log.count {
            let size = frameSize + Int(log.integer(at: offset, UInt32.self))
            guard size >= frameSize + 4, offset + size <= log.count else { break }
            records.append(offset..<offset + size)
            offset += size
        }
        return records
    }

    /// Recomputes the checksum of the header.
    static func signHeader(_ log: inout [UInt8]) {
        log.store(checksum([log[0..<60]]), at: 60)
    }

    /// Recomputes the checksum of a record, which need not begin at a record boundary.
    static func sign(_ record: Range<Int>, of log: inout [UInt8]) {
        let start = record.lowerBound
        log.store(
            checksum([log[16..<32], log[start..<start + 16], log[start + frameSize..<record.upperBound]]),
            at: start + 16)
    }

    private static func checksum(_ pieces: [ArraySlice<UInt8>]) -> UInt32 {
        var checksum = CRC32C()
        for piece in pieces { piece.withUnsafeBytes { checksum.update($0) } }
        return checksum.value
    }
}

extension [UInt8] {
    /// The little-endian integer at an offset.
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, _: Number.Type) -> Number {
        withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    /// Stores a little-endian integer at an offset.
    mutating func store(_ number: some FixedWidthInteger & BitwiseCopyable, at offset: Int) {
        withUnsafeMutableBytes { $0.storeBytes(of: number.littleEndian, toByteOffset: offset, as: type(of: number)) }
    }
}
