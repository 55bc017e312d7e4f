import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Testing

@Suite("The origin of a temporary file")
struct TemporaryFileOriginTests {
    private let memory = InMemoryFileSystem()
    private let root: POSIXPath = "/store"

    private func id() throws -> String {
        String(decoding: try memory.readFile("/store/#journal-0")[12..<28], as: UTF8.self)
    }

    private func origin(
        _ path: String, on fileSystem: (any POSIXFileSystem)? = nil
    ) throws -> TemporaryFileOrigin? {
        try TemporaryFileOrigin.find(POSIXPath(path), below: root, on: fileSystem ?? memory)
    }

    private func save(_ key: String, in store: StoreDirectory) throws {
        let key = try RelativeKey(key)
        try withBytes(of: Data("x".utf8)) { (bytes) throws(FileSystemError) in try store.replace(key, with: bytes) }
    }

    @Test("depends on the record of its directory and on whether the owner of the record uses it")
    func origins() throws {
        var store: StoreDirectory? = try StoreDirectory(root, on: memory)
        try save("d/a", in: try #require(store))
        let id = try id()
        var staged: StagedFile? = try #require(store).stage(try RelativeKey("d/b"), .none)
        for prefix in ["#tmp-", "#trash-"] {
            #expect(try origin("/store/d/\(prefix)\(id)-0") == .inUse)
            #expect(try origin("/store/\(prefix)\(id)-0") == .unrecorded)
            #expect(try origin("/store/d/\(prefix)\(id)-1") == .unrecorded)
        }
        staged?.discard()
        staged = nil
        store = nil
        #expect(try origin("/store/d/#tmp-\(id)-0") == .orphaned)
        #expect(try origin("/store/d/#trash-\(id)-0") == .orphaned)
        for name in [
            "a", "#tmp-", "#tmp-\(id)", "#tmp-\(id)-", "#tmp-\(id)-00", "#tmp-\(id)-x", "#tmp-\(id)--1",
            "#tmp-\(id)-99999999999999999999", "#tmp-abcdefghijklmnop-0",
        ] {
            #expect(try origin("/store/d/\(name)") == nil, "\(name)")
        }
        #expect(try origin("/store/#tmp-\(id)-\(Int.max)") == .unrecorded)
    }

    @Test("is found without any change, and leaves no record locked")
    func changesNothing() throws {
        do { try save("a", in: try StoreDirectory(root, on: memory)) }
        let path = "/store/#tmp-\(try id())-0"
        let watched = FaultingFileSystem(memory)
        #expect(try origin(path, on: watched) == .orphaned)
        let allowed: Set<FileSystemOperation> = [.open, .close, .read, .status, .lock]
        #expect(Set(watched.log.records.map(\.operation)).isSubset(of: allowed))
        _ = try StoreDirectory(root, on: memory)
        #expect(!memory.fileExists(atPath: "/store/#journal-1"))
    }
}
