import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

@Suite("The quarantine is bounded") struct QuarantineLimitTests {
    @Test("hundreds of changes of a value's type leave only the newest files, up to a limit")
    func count() throws {
        let fixture = LogFixture()
        let store = try fixture.open()
        for number in 0..<150 {
            try store.set(KVKey<String>("a"), value: "text \(number)")
            try store.set(KVKey<[Int]>("a"), value: [number])
        }
        let reports = try store.damageReports()
        #expect(reports.count <= 64)
        #expect(reports.count >= 32)
        let newest = try reports.map { try fixture.fileSystem.readFile(POSIXPath($0.file)) }
        #expect(newest.contains { String(decoding: $0, as: UTF8.self).contains("text 149") })
    }

    @Test("a value already set aside is found without a listing, and the directory is flushed once")
    func cost() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        let store = try FileKVStore(at: "/store", fileSystem: fileSystem, options: IssueRecorder().options())
        try store.set(KVKey<String>("a"), value: "text")
        try store.synchronize()
        fileSystem.log.removeAll()
        try store.set(KVKey<Int>("a"), value: 1)
        let operations = fileSystem.log.records.map(\.operation)
        #expect(operations.filter { $0 == .synchronize }.count <= 2, "the file and its directory")
    }
}
