import ChildProcesses
import ForgeFileSystem
import ForgeStorage
import Foundation
import SystemPackage
import TestDepth
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A second process writes to a store and is killed; this one then opens the store.
@Suite("A store whose process was killed")
struct KillTests {
    /// The moment of a kill.
    struct Moment: CustomStringConvertible {
        let kind: StoreKind
        /// The number of acknowledged writes; -1 while the store is being opened.
        let acknowledged: Int
        /// The delay after that.
        let delayInMicroseconds: UInt32

        var description: String { "\(kind), \(delayInMicroseconds) µs after \(acknowledged) writes" }

        /// The first kill of each kind is at a fixed moment after some writes. The others are random; one in five hits
        /// the creation of the store.
        static let all = StoreKind.allCases.flatMap { kind in
            (0..<TestDepth.limit(1, deep: 50)).map { number in
                number == 0
                    ? Moment(kind: kind, acknowledged: 100, delayInMicroseconds: 50)
                    : Moment(
                        kind: kind, acknowledged: number.isMultiple(of: 5) ? -1 : .random(in: 0...400),
                        delayInMicroseconds: .random(in: 0...2_000))
            }
        }
    }

    @Test("contains every acknowledged value, and no torn one", .onOwnThreads, arguments: Moment.all)
    func survivesKill(moment: Moment) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "kill-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer {
            do { try FileManager.default.removeItem(at: directory) } catch { Issue.record(error) }
        }
        let acknowledgement = try Acknowledgement(in: directory)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                kind = moment.kind.rawValue as String, path = directory.path as String,
                acknowledged = moment.acknowledged as Int, delay = moment.delayInMicroseconds as UInt32
            ] in
            try await write(kind, path, killedAfter: acknowledged, delay)
        }
        let acknowledged = try acknowledgement.read()
        #expect(acknowledged >= moment.acknowledged)
        let workload = try KillWorkload(moment.kind, directory: directory.appending(path: "store"))
        #expect(try await workload.violations(acknowledged: acknowledged) == [])
    }
}

/// Writes until another thread kills the process.
private func write(_ kind: String, _ path: String, killedAfter count: Int, _ delay: UInt32) async throws {
    let kind = try #require(StoreKind(rawValue: kind))
    let directory = URL(filePath: path)
    let acknowledgement = try Acknowledgement(in: directory)
    Thread.detachNewThread {
        while (try? acknowledgement.read()) ?? -1 < count { usleep(20) }
        usleep(delay)
        kill(getpid(), SIGKILL)
    }
    let workload = try KillWorkload(kind, directory: directory.appending(path: "store"))
    for number in 0... {
        try await workload.store.save(KillWorkload.value(number), KillWorkload.key(number))
        try acknowledgement.write(number)
    }
}

/// Numbered writes to one store: write `n` sets the key `n % keyCount` to a value that contains `n` and in which tears
/// are detectable.
struct KillWorkload {
    static let keyCount = 64

    let store: any NumberedStore

    init(_ kind: StoreKind, directory: URL) throws {
        store =
            switch kind {
            case .keyValue: try NumberedKVStore(directory: directory)
            case .sharedKeyValue: try NumberedKVStore(directory: directory, sharing: .shared)
            case .batches: try NumberedBatches(directory: directory)
            case .file: try NumberedFileStore(directory: directory)
            case .secret: try NumberedVault(directory: directory)
            case .codable: NumberedStorage(directory: directory)
            case .cache: try NumberedCache(directory: directory)
            }
    }

    static func key(_ number: Int) -> String { "group-\(number % keyCount % 4)/key-\(number % keyCount)" }

    /// The value of write `number`: the number, then a length and filler derived from it.
    static func value(_ number: Int) -> Data {
        var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1
        let count = 16 + Int(state >> 40) % 3000
        var bytes = withUnsafeBytes(of: UInt64(number).littleEndian) { Data($0) }
        bytes.reserveCapacity(count)
        while bytes.count < count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            bytes.append(UInt8(truncatingIfNeeded: state))
        }
        return bytes
    }

    /// The number of the write that stored `value`; nil if no write stored it.
    static func number(of value: Data) -> Int? {
        guard value.count >= 8 else { return nil }
        let number = value.prefix(8).enumerated().reduce(UInt64(0)) { $0 | UInt64($1.element) << (8 * $1.offset) }
        guard let number = Int(exactly: number), Self.value(number) == value else { return nil }
        return number
    }

    /// The violations after a kill: values that are torn, lost or were never written.
    ///
    /// The write after the last acknowledged one was in progress, so it may be present or not.
    func violations(acknowledged: Int) async throws -> [String] {
        var found: [String] = []
        for slot in 0..<Self.keyCount {
            let key = Self.key(slot)
            let last = acknowledged < slot ? nil : acknowledged - (acknowledged - slot) % Self.keyCount
            let underWay = (acknowledged + 1) % Self.keyCount == slot ? acknowledged + 1 : nil
            guard let value = try await store.load(key) else {
                if last != nil { found.append("\(key): an acknowledged value is gone") }
                continue
            }
            guard let number = Self.number(of: value) else {
                found.append("\(key): a torn value")
                continue
            }
            guard number == last || number == underWay else {
                found.append("\(key): write \(number), expected \(last.map(String.init) ?? "none")")
                continue
            }
        }
        return found
    }
}

/// The number of the last acknowledged write, in a file that survives the process; -1 if there is none.
struct Acknowledgement {
    private let fileSystem = SystemFileSystem()
    private let file: Descriptor

    init(in directory: URL) throws {
        let path = POSIXPath(directory.appending(path: "acknowledged").path)
        let isNew = !fileSystem.fileExists(atPath: path.description)
        file = try fileSystem.open(path, .readWrite, options: [.create], permissions: [.ownerReadWrite])
        if isNew { try write(-1) }
    }

    /// A single system call, so that a kill leaves this number or the previous one.
    func write(_ number: Int) throws {
        try withUnsafeBytes(of: number) { try fileSystem.writeFully(file, from: $0, at: 0) }
    }

    func read() throws -> Int {
        var number = -1
        _ = try withUnsafeMutableBytes(of: &number) { try fileSystem.read(file, into: $0, at: 0) }
        return number
    }
}

/// The stores on disk that are killed during writes.
enum StoreKind: String, CaseIterable {
    case keyValue, sharedKeyValue, batches, file, secret, codable, cache
}
