import ForgeFileSystem
import ForgeStorage
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@Suite("Storage on disk and hostile keys")
struct DiskStorageHostileKeyTests {
    private static let canary = Data("canary".utf8)
    private static let attack = Data("attack".utf8)

    @Test("on a real disk no key reaches anything outside the root, and each refusal is typed")
    func realDisk() async throws {
        // Each save is flushed, which takes longer than everything else.
        let keys = TestDepth.sample(HostileKeys.all, every: 5)
        try await withTemporaryDirectory { try attack(with: keys, in: $0, on: SystemFileSystem()) }
    }

    @Test("in memory no key reaches anything outside the root, and each refusal is typed")
    func inMemory() throws {
        let fileSystem = InMemoryFileSystem()
        let directory = URL(filePath: "/top")
        try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
        #expect(HostileKeys.all.count >= 300)
        try attack(with: HostileKeys.all, in: directory, on: fileSystem)
    }

    private func attack(with keys: [HostileKey], in directory: URL, on fileSystem: some POSIXFileSystem) throws {
        for neighbour in ["outside", "storeroom"] {
            let place = directory.appending(component: neighbour)
            try fileSystem.createDirectory(at: place, withIntermediateDirectories: false)
            try fileSystem.write(Self.canary, to: place.appending(component: "canary.txt"))
        }
        let root = directory.appending(component: "store")
        for hostile in keys {
            // A separate storage, because one key may be a parent directory of another.
            try attack(with: hostile, DiskStorage(path: root, fileSystem: fileSystem))
            if fileSystem.fileExists(atPath: root.path) { try fileSystem.removeItem(at: root) }
        }
        let left = try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent)
        #expect(Set(left) == ["outside", "storeroom"])
        for neighbour in ["outside", "storeroom"] {
            let place = directory.appending(component: neighbour)
            #expect(try fileSystem.contentsOfDirectory(at: place).map(\.lastPathComponent) == ["canary.txt"])
            #expect(try fileSystem.read(from: place.appending(component: "canary.txt")) == Self.canary)
        }
    }

    private func attack(with hostile: HostileKey, _ storage: DiskStorage) throws {
        switch hostile.expectation {
        case .plain:
            try storage.save(value: Self.attack, for: hostile.key)
            #expect(try storage.fetchValue(for: hostile.key) == Self.attack, "\(hostile)")
            try storage.removeValue(for: hostile.key)
            expectNotFound(hostile.key, in: storage)
        case .refused:
            let errors = [
                #expect(throws: StorageError.self, "\(hostile)") {
                    try storage.save(value: Self.attack, for: hostile.key)
                },
                #expect(throws: StorageError.self, "\(hostile)") { try storage.fetchValue(for: hostile.key) },
                #expect(throws: StorageError.self, "\(hostile)") { try storage.removeValue(for: hostile.key) },
            ]
            for error in errors { #expect(error?.cause is InvalidKey, "\(hostile): \(String(describing: error))") }
        }
    }
}

extension StorageError {
    fileprivate var cause: (any Error)? {
        switch self {
        case .notFound: nil
        case .cantRead(let error), .cantWrite(let error), .cantRemove(let error): error
        }
    }
}
