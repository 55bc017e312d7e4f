import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

/// The code of "Breaking things on purpose", unchanged.
@Suite("The examples of the article on faults")
struct ArticleTests {
    private func journal(on fileSystem: FaultingFileSystem) throws {
        for number in 1...3 {
            let descriptor = try fileSystem.open("/a.log", .writeOnly, options: [.create, .append])
            defer { fileSystem.discard(descriptor) }
            // Code that sees an error continues with the next line.
            do {
                try fileSystem.writeFully(descriptor, from: Array("\(number)\n".utf8))
                try fileSystem.synchronize(descriptor, .full)
            } catch {}
        }
        do { _ = try fileSystem.text(at: "/a.log") } catch {}
    }

    @Test("a plan")
    func plans() throws {
        let plan = FaultPlan([
            .fail(.write, matching: "**/*.log", call: 3, with: .noSpace),
            .fail(.synchronize, every: 2, with: .ioError, effect: .done),
            .on(.read, .write, do: .shorten(toBytes: 7)),
        ])
        let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
        try journal(on: fileSystem)
        try plan.requireAllFired()
    }

    @Test("every call in turn")
    func loops() throws {
        let settings = URL(filePath: "/settings")
        func settingsDisk() throws -> any POSIXFileSystem { try memory { try $0.put("old", at: "/settings") } }

        let report = try forEachFailingCall(on: { try settingsDisk() }) { fileSystem in
            try fileSystem.write(Data("new".utf8), to: settings)
        } verify: { fileSystem, error in
            let content = try fileSystem.read(from: settings)
            try expectOldOrNew(content, old: Data("old".utf8), new: Data("new".utf8), after: error)
        }
        #expect("\(report)".hasPrefix("11 calls, 204 runs"))
    }

    @Test("a store")
    func stores() throws {
        let theme = KVKey<String>("theme")
        // All error numbers, as in the article, only in a deep run.
        try forEachFailingCall(
            errnos: FailingCall.testedErrnos,
            on: { InMemoryFileSystem() },
            open: { try FileKVStore(at: POSIXPath("/settings"), fileSystem: $0) },
            prepare: { try $0.set(theme, value: "light") },
            change: { try $0.set(theme, value: "dark") },
            verify: { store, error in
                try expectOldOrNew(try store.read(theme), old: "light", new: "dark", after: error)
            })
    }

    @Test("a log and its lint findings")
    func logs() throws {
        let bytes: [UInt8] = [1, 2, 3]
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        let file = try fileSystem.open("/draft", .writeOnly, options: [.create])
        _ = try bytes.withUnsafeBytes { try fileSystem.write(file, from: $0, at: nil) }
        try fileSystem.close(file)
        try fileSystem.rename("/draft", to: "/letter")
        fileSystem.log.acknowledge("the letter is saved")
        #expect(
            fileSystem.log.lint().map(\.description) == [
                "line 3: closed a dirty file without synchronising: /draft",
                "line 4: directory never synchronised after create/rename: /letter",
                "line 4: renamed a file with unsynchronised data: /letter",
                "line 5: acknowledged with an unsynchronised name: /draft",
                "line 5: acknowledged with an unsynchronised name: /letter",
                "line 5: acknowledged with unsynchronised data: /draft",
            ])
        fileSystem.log.removeAll()
        try fileSystem.withDirectory("/") { (root) throws(FileSystemError) in try fileSystem.synchronize(root, .full) }
        try expectLog(
            fileSystem.log,
            """
            1 0ns open / i1 readOnly,directory = fd3
            2 0ns synchronize fd3 / i1 full = ok
            3 0ns close fd3 / i1 = ok
            """)
    }
}
