import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A file of an open store on disk that another program has truncated")
struct TruncatedFilesTests {
    private let directory = TemporaryDirectory()
    private let key = KVKey<Int>("a")

    private func truncate(_ name: String, to size: Int64) throws {
        try SystemFileSystem().truncate(.path(POSIXPath(directory.url.path + "/" + name)), to: size)
    }

    @Test(
        "the shared page loses nothing, and contains the process again",
        arguments: [0, SharedPageContent.wordOffset + 4, SharedPageContent.offset(ofSlot: 0)])
    func sharedPage(_ size: Int) throws {
        var options = FileKVStore.Options()
        options.sharing = .shared
        let store = try FileKVStore(at: directory.url, options: options)
        try store.set(key, value: 1)
        try truncate("#shared", to: Int64(size))
        #expect(try store.read(key) == 1)
        try store.set(key, value: 2)
        #expect(try store.read(key) == 2)
        // The process is in its slot again.
        let file = try SystemFileSystem().open(POSIXPath(directory.url.path), .readOnly, options: [.directory])
        defer { SystemFileSystem().discard(file) }
        #expect(try SharedPage.user(at: file, on: SystemFileSystem(), options.processes) != nil)
    }

    @Test("the log refuses writes that it cannot keep, and continues to serve its content")
    func log() throws {
        let store = try FileKVStore(at: directory.url)
        try store.set(key, value: 1)
        try truncate("log", to: 0)
        let error = try #require(throws: KVStoreError.self) { try store.set(key, value: 2) }
        #expect(error.key == "a")
        #expect(try store.read(key) == 1)
        #expect(throws: KVStoreError.self) { try store.set(key, value: 3) }
        #expect(throws: KVStoreError.self) { try store.synchronize() }
    }
}
