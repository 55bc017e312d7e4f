import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

/// The attributes of files below what the conformance checks see.
@Suite("Attributes of files")
struct AttributesTests {
    private let memory = InMemoryFileSystem()
    private let root = URL(filePath: "/data/store")
    private let attributes = ["color": "red", "n": "1"]

    private var store: DiskFileStore { DiskFileStore(root: root, fileSystem: memory) }

    private func opening<Result>(
        _ path: POSIXPath, _ body: (Descriptor) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let file = try memory.open(path)
        return try memory.closing(file) { () throws(FileSystemError) in try body(file) }
    }

    private func names() throws -> [String] {
        try memory.contentsOfDirectory(at: root).map(\.lastPathComponent).filter { !$0.hasPrefix("#") }.sorted()
    }

    /// A store on a file system without extended attributes.
    private func storeWithout(_ base: InMemoryFileSystem) -> DiskFileStore {
        let fileSystem = InterceptedFileSystem(base) { (call) throws(FileSystemError) in
            switch call.operation {
            case .listExtendedAttributes, .readExtendedAttribute, .setExtendedAttribute:
                throw FileSystemError(call.operation, .notSupported)
            default: break
            }
        }
        return DiskFileStore(root: root, fileSystem: fileSystem)
    }

    @Test("are extended attributes whose names begin with forgestorage; others are ignored and kept")
    func layout() async throws {
        try await store.save(Data("x".utf8), to: "f", attributes: attributes)
        try opening("/data/store/f") { (file) throws(FileSystemError) in
            let names = try memory.extendedAttributeNames(of: file)
            #expect(names == ["forgestorage.color", "forgestorage.n"])
            #expect(try memory.extendedAttribute("forgestorage.color", of: file) == Array("red".utf8))
            for other in ["other", "forgestorage", "forgestorage.", "forgestorage.A", "Forgestorage.b"] {
                try memory.setExtendedAttribute(other, to: [0xFF], of: file)
            }
        }
        #expect(try await store.attributes(of: "f") == attributes)
        try opening("/data/store/f") { (file) throws(FileSystemError) in
            #expect(try memory.extendedAttributeNames(of: file).count == 7)
        }
    }

    @Test("are seen and replaced by every store of the root")
    func stores() async throws {
        let (first, second) = (store, store)
        try await first.save(Data("1".utf8), to: "f", attributes: attributes)
        let reader = try await second.reader(for: "f")
        #expect(try await reader.attributes() == attributes)
        let revision = try #require(reader.file.revision)
        try await second.save(
            Data("2".utf8), to: "f", if: .unchanged(revision), durability: nil, attributes: ["n": "2"])
        #expect(try await first.attributes(of: "f") == ["n": "2"])
        try await first.update("f") { _ in Data("3".utf8) }
        #expect(try await second.attributes(of: "f") == [:])
    }

    @Test("of another program that are not UTF-8 are undecodable, and too many are too large")
    func foreign() async throws {
        try await store.save(Data("x".utf8), to: "f")
        func set(_ name: String, _ value: [UInt8]) throws(FileSystemError) {
            try opening("/data/store/f") { (file) throws(FileSystemError) in
                try memory.setExtendedAttribute(name, to: value, of: file)
            }
        }
        try set("forgestorage.a", [0x61, 0xFF])
        await #expect(performing: { try await store.attributes(of: "f") }, throws: hasCode(.undecodable))
        try set("forgestorage.a", [UInt8](repeating: 0x61, count: 2_047))
        #expect(try await store.attributes(of: "f")["a"]?.count == 2_047)
        try set("forgestorage.b", [])
        await #expect(performing: { try await store.attributes(of: "f") }, throws: hasCode(.tooLarge))
        #expect(try await store.load("f") == Data("x".utf8))
    }

    @Test("are refused where the file system has none, and nothing is changed")
    func unsupported() async throws {
        let store = storeWithout(memory)
        try await store.save(Data("old".utf8), to: "f")
        for key in ["f", "g"] {
            await #expect(
                performing: { try await store.save(Data(), to: key, attributes: attributes) },
                throws: hasCode(.unsupported))
            await #expect(
                performing: {
                    try await store.writer(for: key, if: .always, durability: nil, attributes: attributes)
                }, throws: hasCode(.unsupported))
            await #expect(
                performing: { try await store.batch { $0.save(Data(), to: key, attributes: attributes) } },
                throws: hasCode(.unsupported))
        }
        #expect(try await store.load("f") == Data("old".utf8))
        #expect(try await store.attributes(of: "f") == [:])
        #expect(try names() == ["f"])
    }

    @Test("fail a save when the device is full, and the old ones stay")
    func full() async throws {
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .setExtendedAttribute { throw FileSystemError(.setExtendedAttribute, .noSpace) }
        }
        try await store.save(Data("old".utf8), to: "f", attributes: attributes)
        let full = DiskFileStore(root: root, fileSystem: fileSystem)
        await #expect(
            performing: { try await full.save(Data(), to: "f", attributes: ["n": "2"]) }, throws: hasCode(.noSpace))
        #expect(try await store.load("f") == Data("old".utf8))
        #expect(try await store.attributes(of: "f") == attributes)
        #expect(try names() == ["f"])
    }

    @Test("are kept if the directory is replaced before the commit")
    func replacedDirectory() async throws {
        let writer = try await store.writer(for: "d/f", if: .always, durability: nil, attributes: attributes)
        try await writer.write(Data("content".utf8))
        try memory.rename("/data/store/d", to: "/data/away")
        try await writer.commit()
        #expect(try await store.load("d/f") == Data("content".utf8))
        #expect(try await store.attributes(of: "d/f") == attributes)
    }

    @Test("make no call if there are none", arguments: Durability.allCases)
    func cost(_ durability: Durability) async throws {
        let count = Atomic(0)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            switch call.operation {
            case .listExtendedAttributes, .readExtendedAttribute, .setExtendedAttribute:
                count.add(1, ordering: .relaxed)
            default: break
            }
        }
        let store = DiskFileStore(
            root: root, fileSystem: fileSystem, options: FileStoreOptions(durability: durability))
        try await store.save(Data("a".utf8), to: "f")
        try await store.save(Data("b".utf8), to: "f", if: .always)
        try await store.write(to: "g") { try await $0.write(Data("c".utf8)) }
        try await store.batch { $0.save(Data("d".utf8), to: "h") }
        _ = try await store.load("f")
        _ = try await store.reader(for: "f").readAll()
        #expect(count.load(ordering: .relaxed) == 0)
        try await store.save(Data("b".utf8), to: "f", attributes: attributes)
        #expect(count.load(ordering: .relaxed) == 2)
    }
}

/// The attributes of files that are moved and copied.
@Suite("Attributes of a file of a store that is moved or copied")
struct TransferredAttributesTests {
    private let memory = InMemoryFileSystem()
    private let attributes = ["color": "red", "n": "1"]

    /// Stores the source in `/other`, which is another device or not.
    private func prepare(onOtherDevice: Bool) async throws -> (DiskFileStore, source: URL) {
        try memory.createDirectory("/other")
        if onOtherDevice { try memory.mount(at: "/other") }
        let other = DiskFileStore(root: URL(filePath: "/other"), fileSystem: memory)
        try await other.save(Data("content".utf8), to: "f", attributes: attributes)
        return (DiskFileStore(root: URL(filePath: "/store"), fileSystem: memory), URL(filePath: "/other/f"))
    }

    @Test("a move keeps them", arguments: [false, true])
    func move(onOtherDevice: Bool) async throws {
        let (store, source) = try await prepare(onOtherDevice: onOtherDevice)
        try await store.move(from: source, to: "d/g")
        #expect(try await store.load("d/g") == Data("content".utf8))
        #expect(try await store.attributes(of: "d/g") == attributes)
    }

    @Test("a copy and an export drop them", arguments: [false, true])
    func copy(onOtherDevice: Bool) async throws {
        let (store, source) = try await prepare(onOtherDevice: onOtherDevice)
        try await store.copy(from: source, to: "d/g")
        #expect(try await store.attributes(of: "d/g") == [:])
        try await store.save(Data("x".utf8), to: "h", attributes: attributes)
        try await store.export("h", to: URL(filePath: "/exported"))
        let file = try memory.open("/exported")
        #expect(try memory.extendedAttributeNames(of: file) == [])
        try memory.close(file)
    }

    @Test("a move to a file system without attributes fails and leaves the source")
    func unsupportedMove() async throws {
        let (_, source) = try await prepare(onOtherDevice: true)
        let fileSystem = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .setExtendedAttribute { throw FileSystemError(.setExtendedAttribute, .notSupported) }
        }
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: fileSystem)
        await #expect(
            performing: { try await store.move(from: source, to: "g") }, throws: hasCode(.unsupported))
        #expect(!store.exists("g"))
        let other = DiskFileStore(root: URL(filePath: "/other"), fileSystem: memory)
        #expect(try await other.load("f") == Data("content".utf8))
        #expect(try await other.attributes(of: "f") == attributes)
    }

    @Test("a move from a store on the disk to one in memory keeps them")
    func moveIntoMemory() async throws {
        let directory = try TemporaryDirectory()
        let disk = DiskFileStore(root: directory.url("store"))
        do {
            try await disk.save(Data("content".utf8), to: "f", attributes: attributes)
        } catch let error as FileStoreError where error.code == .unsupported {
            print("NOT RUN: a move of attributes from the disk, which has none")
            return
        }
        let store = InMemoryFileStore()
        try await store.move(from: directory.url("store/f"), to: "g")
        #expect(try await store.attributes(of: "g") == attributes)
        #expect(!disk.exists("f"))
    }
}
