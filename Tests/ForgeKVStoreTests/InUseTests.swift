import ForgeFileSystem
import Foundation
import Testing

@testable import ForgeKVStore

@Suite("A store that another process has open") struct InUseTests {
    @Test("throws an error that says so in one line, names the process and has a property of its own")
    func error() throws {
        let fileSystem = InMemoryFileSystem()
        var options = IssueRecorder().options()
        options.processes = ProcessTable(own: ProcessIdentity(id: 812), isRunning: { _ in true })
        let owner = try FileKVStore(at: "/store", fileSystem: fileSystem.process(), options: options)
        let error = #expect(throws: KVStoreError.self) {
            try FileKVStore(at: "/store", fileSystem: fileSystem.process(), options: IssueRecorder().options())
        }
        withExtendedLifetime(owner) {}
        #expect(error?.isInUse == true)
        #expect(error?.description == "open in /store: unavailable: in use by process 812")
        #expect(KVStoreError(.unavailable(.closed), .set).isInUse == false)
    }
}
