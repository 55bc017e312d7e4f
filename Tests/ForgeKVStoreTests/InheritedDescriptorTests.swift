import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

/// A child process has the parent's open files between `fork` and the execution of another program.
@Suite("A lock whose open file a child process has inherited") struct InheritedDescriptorTests {
    private let fileSystem = InMemoryFileSystem()

    /// Duplicates every descriptor, as `fork` does.
    private func inherit() -> [Descriptor] {
        (0..<64).compactMap { number in
            do { return try fileSystem.duplicate(Descriptor(rawValue: Int32(number))) } catch { return nil }
        }
    }

    private func options(_ sharing: FileKVStore.Sharing) -> FileKVStore.Options {
        var options = IssueRecorder().options()
        options.sharing = sharing
        return options
    }

    @Test("is released when the store is closed", arguments: FileKVStore.Sharing.allCases)
    func closing(_ sharing: FileKVStore.Sharing) throws {
        var inherited: [Descriptor] = []
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options(sharing))
            try store.set(KVKey<Int>("a"), value: 1)
            inherited = inherit()
        }
        #expect(!inherited.isEmpty)
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: options(.exclusive))
        #expect(try store.read(KVKey<Int>("a")) == 1)
    }

    @Test("is released when the file store is closed")
    func storeLock() throws {
        try fileSystem.makeDirectories("/files")
        try fileSystem.withDirectory("/files") { directory throws(FileSystemError) in
            var lock: StoreLock? = try StoreLock(.exclusive, at: directory, on: fileSystem)
            let inherited = inherit()
            withExtendedLifetime(lock) {}
            lock = nil
            _ = try StoreLock(.exclusive, at: directory, on: fileSystem)
            for descriptor in inherited { fileSystem.discard(descriptor) }
        }
    }
}
