import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A store whose directory was removed while it was open") struct RemovedDirectoryTests {
    private let fileSystem = InMemoryFileSystem()
    private let key = KVKey<Int>("a")

    @Test("throws when writes without a name are to be made durable", arguments: FileKVStore.Sharing.allCases)
    func removed(_ sharing: FileKVStore.Sharing) throws {
        var options = IssueRecorder().options()
        options.sharing = sharing
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        try store.set(key, value: 1)
        try store.synchronize()
        try fileSystem.removeTree("/store")
        #expect(throws: KVStoreError.self) {
            try store.set(key, value: 2)
            try store.synchronize()
        }
        #expect(throws: KVStoreError.self) { try store.synchronize() }
        #expect(try store.read(key) != nil)
    }

    @Test("throws when it is closed", arguments: FileKVStore.Sharing.allCases, [false, true])
    func closing(_ sharing: FileKVStore.Sharing, isFlushed: Bool) throws {
        var options = IssueRecorder().options()
        options.sharing = sharing
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        try store.set(key, value: 1)
        if isFlushed { try store.synchronize() }
        try fileSystem.removeTree("/store")
        #expect(code { try store.close() } == .noStore)
        #expect(try store.read(key) == 1)
        let anew = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
        #expect(try anew.read(key) == nil)
    }

    @Test("throws when it is closed after another program has truncated the log")
    func closingTruncated() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        for number in 0..<20 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try fileSystem.truncate(.path("/store/log"), to: 200)
        #expect(code { try store.close() } == .damaged)
    }

    @Test("also throws if another log has replaced its own")
    func replaced() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(key, value: 1)
        try fileSystem.rename("/store/log", to: "/store/old")
        let file = try fileSystem.open("/store/log", .writeOnly, options: [.create], permissions: .privateFile)
        try fileSystem.close(file)
        #expect(throws: KVStoreError.self) { try store.synchronize() }
    }

    @Test("also throws if another program has truncated the log, and then refuses writes", arguments: [0, 200])
    func truncated(size: Int64) throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        for number in 0..<20 { try store.set(KVKey<Int>("key.\(number)"), value: number) }
        try store.synchronize()
        try fileSystem.truncate(.path("/store/log"), to: size)
        #expect(throws: KVStoreError.self) {
            try store.set(key, value: 1)
            try store.synchronize()
        }
        #expect(throws: KVStoreError.self) { try store.set(key, value: 2) }
        #expect(try store.read(KVKey<Int>("key.7")) == 7)
    }

    @Test("does not replace another program's log, neither by compacting nor by closing")
    func foreignLog() throws {
        do {
            let backup = try FileKVStore(at: "/backup", fileSystem: fileSystem, options: IssueRecorder().options())
            try backup.set(KVKey<String>("precious"), value: "kept")
        }
        let recorder = IssueRecorder()
        do {
            let store = try FileKVStore(
                at: "/store", fileSystem: fileSystem, options: recorder.options(compactionFloorInBytes: 0))
            for number in 0..<50 { try store.set(key, value: number) }
            try fileSystem.rename("/backup/log", to: "/store/log")
            let error = #expect(throws: KVStoreError.self) { try store.compact() }
            #expect(error?.code == .noStore && error?.operation == .compact)
            for number in 0..<500 { try store.set(key, value: number) }
        }
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: recorder.options())
        #expect(store.get(KVKey<String>("precious")) == "kept")
    }

    @Test("reports the key, and that the write may be lost, if a durable set cannot be flushed")
    func durableSet() throws {
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(key, value: 1, durability: .full)
        try fileSystem.removeTree("/store")
        let error = #expect(throws: KVStoreError.self) { try store.set(key, value: 2, durability: .full) }
        #expect(error?.code == .durabilityUnknown && error?.operation == .set && error?.key == "a")
        #expect(try store.read(key) == 2)
    }
}
