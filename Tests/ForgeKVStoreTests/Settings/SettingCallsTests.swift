import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@testable import ForgeKVStore

extension KVSettings {
    fileprivate static let level = KVSetting("calls.level", default: 3)
}

@Suite("Calls of a transactional store with settings") struct SettingCallsTests {
    private let store = InMemoryKVStore()

    @Test("an update starts from the default and keeps the old value if the closure throws")
    func update() throws {
        #expect(try store.update(.level) { $0 += 1 } == 4)
        struct Failed: Error {}
        #expect(throws: Failed.self) { try store.update(.level) { _ in throw Failed() } }
        #expect(store.get(.level) == 4)
    }

    @Test("a value is created only once")
    func createIfAbsent() throws {
        #expect(try store.createIfAbsent(.level, value: 1))
        #expect(try !store.createIfAbsent(.level, value: 2))
        #expect(store.get(.level) == 1)
    }

    @Test("a batch sets and removes settings, and a snapshot reads them")
    func batch() throws {
        try store.batch { try $0.set(.level, value: 9) }
        #expect(try store.snapshot().read(.level) == 9)
        try store.batch { $0.remove(.level) }
        #expect(try store.snapshot().read(.level) == 3)
        #expect(!store.contains(.level))
    }

    @Test("a durable set flushes")
    func durable() throws {
        let fileSystem = FailingFileSystem()
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
        try store.set(.level, value: 5, durability: .full)
        fileSystem.fail(.synchronize)
        #expect(code { try store.set(.level, value: 6, durability: .full) } == .durabilityUnknown)
    }

    @Test("only errors of a full device or quota are classified as such")
    func outOfSpace() throws {
        for (errno, isExpected) in [(Errno.noSpace, true), (.diskQuotaExceeded, true), (.ioError, false)] {
            let fileSystem = FailingFileSystem()
            var options = FileKVStore.Options()
            options.isMapped = false
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
            fileSystem.fail { operation, _ in [.write, .allocate].contains(operation) ? errno : nil }
            let error = #expect(throws: KVStoreError.self) { try store.set(.level, value: 1) }
            #expect(error?.isOutOfSpace == isExpected)
        }
    }
}
