import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("A closed store distinguishes damage to its last record from a torn write")
struct ClosingTests {
    private let fileSystem = InMemoryFileSystem()
    private let recorder = IssueRecorder()
    private let a = KVKey<String>("a")
    private let b = KVKey<String>("b")

    private func open(
        on fileSystem: (any POSIXFileSystem)? = nil, _ sharing: FileKVStore.Sharing = .exclusive
    ) throws -> FileKVStore {
        var options = recorder.options()
        options.sharing = sharing
        options.reserveLittle()
        return try FileKVStore(at: "/store", fileSystem: fileSystem ?? self.fileSystem, options: options)
    }

    /// Flips a bit of the last text in the log, and expects it to be set aside and the other to be served.
    private func expectDamage(of text: String) throws {
        let log = try fileSystem.readFile("/store/log")
        let place = try #require(log.firstRange(of: Array(text.utf8), after: LogHeader.size))
        let descriptor = try fileSystem.open("/store/log", .readWrite)
        try withUnsafeBytes(of: log[place] ^ 1) { (byte) throws(FileSystemError) in
            try fileSystem.writeFully(descriptor, from: byte, at: Int64(place))
        }
        try fileSystem.close(descriptor)
        let store = try open()
        #expect(try store.read(a) == "first")
        #expect(try store.read(b) != text)
        #expect(recorder.damage.map(\.kind) == [.records], "\(recorder.descriptions)")
        #expect(try store.damageReports().count == 1)
    }

    @Test(
        "after a write, and after a flush", arguments: [false, true], [FileKVStore.Sharing.exclusive, .shared])
    func written(isFlushed: Bool, _ sharing: FileKVStore.Sharing) throws {
        do {
            let store = try open(on: nil, sharing)
            try store.set(a, value: "first")
            try store.set(b, value: "second")
            if isFlushed { try store.synchronize() }
        }
        try expectDamage(of: "second")
    }

    @Test("after a sharing process that only read was the last to close it")
    func readBySharing() throws {
        let shared = SharedFixture()
        do {
            let reader = try shared.open(shared.process(1))
            do {
                let writer = try shared.open(shared.process(2))
                try writer.set(a, value: "first")
                try writer.set(b, value: "second")
                try writer.synchronize()
            }
            #expect(try reader.read(b) == "second")
        }
        try fileSystem.makeDirectories("/store")
        let descriptor = try fileSystem.open("/store/log", .readWrite, options: [.create], permissions: .privateFile)
        try fileSystem.writeBytes(try shared.bytes("log"), to: descriptor, at: 0)
        try fileSystem.close(descriptor)
        try expectDamage(of: "second")
    }

    @Test("after its log was compacted during writes")
    func compacted() throws {
        do {
            let watched = FailingFileSystem(fileSystem)
            let store = try open(on: watched)
            try store.set(a, value: "first")
            let isWritten = Atomic(false)
            watched.fail { [b] operation, _ in
                guard operation == .synchronize, !isWritten.exchange(true, ordering: .relaxed) else { return nil }
                do { try store.set(b, value: "second") } catch { return .ioError }
                return nil
            }
            try store.compact()
            watched.fail(nil)
        }
        try expectDamage(of: "second")
    }

    @Test("although its log could not be compacted")
    func compactedInVain() throws {
        let plan = FaultPlan([.on(.rename, call: 3, do: .fail(.noSpace))])
        do {
            let store = try open(on: FaultingFileSystem(fileSystem, plan: plan))
            try store.set(a, value: "first")
            for count in 0..<20 { try store.set(b, value: String(repeating: "x", count: 400 + count)) }
            try store.set(b, value: "second")
        }
        try plan.requireAllFired()
        try expectDamage(of: "second")
    }

    @Test("after a process was killed, by the next one")
    func killed() throws {
        do {
            let killed = FaultingFileSystem(fileSystem)
            let store = try open(on: killed)
            try store.set(a, value: "first")
            try store.set(b, value: "second")
            killed.crash()
        }
        do { _ = try open().get(a) }
        try expectDamage(of: "second")
    }
}

extension [UInt8] {
    /// The index of the first occurrence of some bytes after an index.
    fileprivate func firstRange(of bytes: [UInt8], after start: Int) -> Int? {
        indices.dropFirst(start).first { self[$0...].starts(with: bytes) }
    }
}
