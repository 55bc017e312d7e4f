import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Logging
import Testing

/// A call on a store of values by name.
enum StoreCall: Hashable, Sendable {
    case set(String, Character, count: Int = 40)
    case remove(String)
    case removeAll
    /// Of a store whose writes are not durable one by one.
    case synchronize

    var value: (name: String, text: String)? {
        guard case .set(let name, let letter, let count) = self else { return nil }
        return (name, String(repeating: letter, count: count))
    }

    func apply(to contents: inout [String: String]) {
        switch self {
        case .set: if let value { contents[value.name] = value.text }
        case .remove(let name): contents[name] = nil
        case .removeAll: contents = [:]
        case .synchronize: break
        }
    }

    /// What a store may hold after a crash: all that was durable, and then any number of the calls that followed.
    static func allowed(_ crash: Crash<StoreCall>, durable: Int) -> [[String: String]] {
        var contents: [String: String] = [:]
        var allowed: [[String: String]] = durable == 0 ? [contents] : []
        for (place, call) in crash.begun.enumerated() {
            call.apply(to: &contents)
            if place + 1 >= durable { allowed.append(contents) }
        }
        return allowed
    }
}

@Suite("Stores under crashes")
struct StoreCrashTests {
    private static let programs: [[StoreCall]] = [
        [.set("a", "1"), .synchronize, .set("a", "2"), .set("b", "3"), .synchronize],
        [.set("a", "1"), .set("b", "2"), .synchronize, .remove("a"), .synchronize, .set("c", "3")],
        [.set("a", "1"), .synchronize, .removeAll, .synchronize, .set("b", "2"), .synchronize],
        [
            .set("a", "1", count: 3000), .synchronize, .set("a", "2", count: 3000), .set("b", "3", count: 700),
            .synchronize,
        ],
        [
            .set("a", "1", count: 900), .set("a", "2", count: 900), .set("a", "3", count: 900), .synchronize,
            .set("b", "4"),
        ],
    ]

    @Test("a store of values by name loses nothing that was flushed, and never mixes", arguments: programs)
    func values(_ calls: [StoreCall]) async throws {
        @Sendable func open(_ fileSystem: InMemoryFileSystem) throws -> FileKVStore {
            let options = FileKVStore.Options(
                compactionFloorInBytes: 1000, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
            return try FileKVStore(at: "/kv", fileSystem: fileSystem, options: options)
        }
        let report = try await forEachCrash(of: calls, limit: 15_000) { fileSystem in
            try open(fileSystem)
        } perform: { call, store in
            switch call {
            case .set: if let value = call.value { try store.set(KVKey<String>(value.name), value: value.text) }
            case .remove(let name): try store.remove(KVKey<String>(name))
            case .removeAll: try store.removeAll()
            case .synchronize: try store.synchronize()
            }
        } recover: { fileSystem, crash in
            let store = try open(fileSystem)
            var found: [String: String] = [:]
            for name in try store.keys() { found[name] = try store.read(KVKey<String>(name)) }
            let durable = crash.acknowledged.lastIndex(of: .synchronize).map { $0 + 1 } ?? 0
            let allowed = StoreCall.allowed(crash, durable: durable)
            try demand(allowed.contains(found), "holds \(found.mapValues(\.count)) after \(crash.begun)")
            try demand(try store.damageReports().isEmpty, "takes a crash for damage")
        }
        print("kv", report)
        #expect(report.stateCount > 20)
    }

    @Test(
        "a store of files loses nothing that was acknowledged, and never mixes",
        arguments: [
            [StoreCall.set("a", "1"), .set("a", "2", count: 5000), .remove("a")],
            [.set("x/y", "1"), .set("x/z", "2"), .remove("x/y"), .set("x/y", "3")],
        ])
    func files(_ calls: [StoreCall]) async throws {
        let report = try await forEachCrash(of: calls, limit: 5000) { fileSystem in
            DiskFileStore(root: URL(filePath: "/files"), fileSystem: fileSystem)
        } perform: { call, store in
            switch call {
            case .set:
                if let value = call.value {
                    try await store.save(Data(value.text.utf8), to: value.name, overwrite: true)
                }
            case .remove(let name): try await store.delete(name)
            case .removeAll: try await store.deleteAll()
            case .synchronize: break
            }
        } recover: { fileSystem, crash in
            let store = DiskFileStore(root: URL(filePath: "/files"), fileSystem: fileSystem)
            var found: [String: String] = [:]
            for name in ["a", "x/y", "x/z"] {
                do {
                    found[name] = String(decoding: try await store.load(name), as: UTF8.self)
                } catch let error as FileStoreError where error.code == .notFound {
                    continue
                }
            }
            let allowed = StoreCall.allowed(crash, durable: crash.acknowledged.count)
            try demand(allowed.contains(found), "holds \(found.mapValues(\.count)) after \(crash.begun)")
        }
        print("files", report)
        #expect(report.isExhaustive && report.stateCount > 20)
    }

    @Test("a vault loses no secret that was acknowledged, and can always be opened")
    func secrets() async throws {
        let key = SymmetricKey(data: Array(repeating: UInt8(7), count: 32))
        let calls: [StoreCall] = [
            .set("a", "1"), .set("b", "2"), .set("a", "3"), .remove("b"), .removeAll, .set("c", "4"),
        ]
        @Sendable func open(_ fileSystem: InMemoryFileSystem) throws -> VaultCrypt {
            try VaultCrypt(at: URL(filePath: "/secrets/vault"), key: key, fileSystem: fileSystem)
        }
        let report = try await forEachCrash(of: calls, limit: 5000) { fileSystem in
            try open(fileSystem)
        } perform: { call, vault in
            switch call {
            case .set: if let value = call.value { try vault.set(value.text, for: CryptKey<String>(key: value.name)) }
            case .remove(let name): try vault.delete(CryptKey<String>(key: name))
            case .removeAll: try vault.deleteAll()
            case .synchronize: break
            }
        } recover: { fileSystem, crash in
            let vault = try open(fileSystem)
            var found: [String: String] = [:]
            for name in try vault.keys() { found[name] = try vault.get(CryptKey<String>(key: name)) }
            let allowed = StoreCall.allowed(crash, durable: crash.acknowledged.count)
            try demand(allowed.contains(found), "holds \(found.keys.sorted()) after \(crash.begun)")
        }
        print("vault", report)
        #expect(report.isExhaustive && report.stateCount > 20)
    }
}
