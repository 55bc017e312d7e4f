import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

/// Copies as left by backups and synchronisation tools: files of two histories of one store side by side.
@Suite("A diverged copy of a store") struct DivergedCopyTests {
    private let fileSystem = InMemoryFileSystem()

    private func open(_ path: POSIXPath) throws -> FileKVStore {
        var options = IssueRecorder().options()
        options.reserveLittle()
        // A shared store has additional files beside its log.
        options.sharing = .shared
        return try FileKVStore(at: path, fileSystem: fileSystem, options: options)
    }

    private func copy(_ name: POSIXPath, from source: POSIXPath, to target: POSIXPath) throws {
        let bytes = try fileSystem.readFile(source.appending(name))
        let file = try fileSystem.open(
            target.appending(name), .writeOnly, options: [.create, .truncate], permissions: .privateFile)
        try fileSystem.closing(file) { () throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: file) }
    }

    @Test("has the content of its log, whatever other files of the original are beside it")
    func foreignFiles() throws {
        do {
            let store = try open("/a")
            for number in 0..<100 { try store.set(KVKey<Int>("common.\(1000 + number)"), value: number) }
        }
        try fileSystem.makeDirectories("/b")
        try copy("log", from: "/a", to: "/b")
        for (path, name) in [("/a", "original"), ("/b", "diverged")] as [(POSIXPath, String)] {
            let store = try open(path)
            for number in 0..<2500 { try store.set(KVKey<Int>("\(name).\(1000 + number)"), value: number) }
        }
        let entries = try fileSystem.withDirectory("/a") { directory throws(FileSystemError) in
            try fileSystem.entries(of: directory)
        }
        let others = entries.map(\.name).filter { $0 != "log" && !$0.isStoreMarker }
        #expect(Set(others) == ["#shared", "#reserve"])
        for name in others { try copy(name, from: "/a", to: "/b") }
        let store = try open("/b")
        for number in 0..<2500 {
            let key = KVKey<Int>("diverged.\(1000 + number)")
            #expect(try store.read(key) == number)
            #expect(try !store.createIfAbsent(key, value: -1))
        }
        #expect(try store.keys().count == 2600)
    }
}
