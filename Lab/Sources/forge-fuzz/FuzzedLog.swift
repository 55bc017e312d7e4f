import ForgeFileSystem
import ForgeKVStore
import Foundation
import SystemPackage

/// A log whose checksums are made right, as a store opens it.
struct FuzzedLog {
    private static let headerLength = 64
    private static let frameLength = 20

    private var log: [UInt8]

    init(_ bytes: [UInt8]) {
        log = bytes
        guard log.count >= Self.headerLength else { return }
        log.store(checksum([log[0..<60]]), at: 60)
        var offset = Self.headerLength
        while offset + Self.frameLength + 4 <= log.count {
            let end = offset + Self.frameLength + Int(log.integer(at: offset, UInt32.self))
            guard end <= log.count else { break }
            let pieces = [log[16..<32], log[offset..<offset + 16], log[offset + Self.frameLength..<end]]
            log.store(checksum(pieces), at: offset + 16)
            offset = end
        }
    }

    private func checksum(_ pieces: [ArraySlice<UInt8>]) -> UInt32 {
        var checksum = CRC32C()
        for piece in pieces { piece.withUnsafeBytes { checksum.update($0) } }
        return checksum.value
    }

    private static var options: FileKVStore.Options {
        var options = FileKVStore.Options()
        options.onIssue = { _ in }
        options.compactsInBackground = false
        options.reserveLittle()
        return options
    }

    /// Opens the log, reads all of it, sets a value, and finds that value again.
    func run() throws {
        let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
        try fileSystem.makeDirectories("/store")
        try fileSystem.write(log, to: "/store/log")
        _ = try? KVInspection(of: URL(filePath: "/store"), fileSystem: fileSystem)
        let url = URL(filePath: "/store")
        var content: [String: [UInt8]] = [:]
        do {
            let store = try FileKVStore(at: url, fileSystem: fileSystem, options: Self.options)
            for name in try store.keys() {
                _ = store.get(KVKey<String>(name))
                _ = try store.rawValue(named: name)
            }
            try store.set(KVKey<String>("new"), value: "value")
            for name in try store.keys() { content[name] = try store.rawValue(named: name) }
        }
        let store = try FileKVStore(at: url, fileSystem: fileSystem, options: Self.options)
        precondition(store.get(KVKey<String>("new")) == "value", "a value that was set is missing")
        for (name, bytes) in content {
            let read = try store.rawValue(named: name)
            precondition(read == bytes, "a value is another one after the next opening")
        }
    }

    static func seeds() throws -> [[UInt8]] {
        let fileSystem = InMemoryFileSystem(options: .init(seed: 1))
        let store = try FileKVStore(at: URL(filePath: "/store"), fileSystem: fileSystem, options: options)
        func log() throws -> [UInt8] {
            var log = try fileSystem.readFile("/store/log")
            log.removeLast(max(0, log.count - (log.lastIndex { $0 != 0 } ?? 0) - 40))
            return log
        }
        let empty = try log()
        try store.set(KVKey<String>("a"), value: "text")
        try store.set(KVKey<Int>("b"), value: 7)
        let short = try log()
        try store.batch { batch in
            for number in 0..<5 { try batch.set(KVKey<[Int]>("key.\(number)"), value: [number]) }
            batch.remove(KVKey<String>("a"))
        }
        try store.synchronize()
        try store.set(KVKey<String>("é"), value: String(repeating: "x", count: 300))
        let mixed = try log()
        try store.compact()
        try store.removeAll()
        return [empty, short, mixed, try log()]
    }
}
