import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("A flush that fails once")
struct FailedFlushTests {
    /// Replaces a file, and repeats a flush that fails: the second flush does not cover the data of the first.
    private static func replace(_ fileSystem: any POSIXFileSystem) throws {
        let file = try fileSystem.open("/new", .writeOnly, options: [.create])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(letters("n", 100), to: file)
            do { try fileSystem.synchronize(file, .full) } catch { try fileSystem.synchronize(file, .full) }
        }
        try fileSystem.rename("/new", to: "/f")
        let root = try fileSystem.open("/")
        try fileSystem.closing(root) { () throws(FileSystemError) in try fileSystem.synchronize(root, .full) }
    }

    private static func prepare(_ fileSystem: InMemoryFileSystem) throws { try fileSystem.put("/f", letters("o", 50)) }

    @Test("and is repeated is found neither by the loop nor by the explorer, but by both together")
    func repeated() async throws {
        #expect(try Self.loop().conditionRunCount == 2)
        try await forEachCrash(prepare: { try Self.prepare($0) }) { fileSystem, run in
            try Self.replace(fileSystem)
            run.acknowledge("new")
        } recover: { fileSystem, crash in
            try Self.verify(fileSystem, crash)
        }
        let failure = await #expect(throws: CrashFailure.self) {
            try await forEachCrash(prepare: { try Self.prepare($0) }) { fileSystem, run in
                let plan = FaultPlan([.on(.synchronize, call: 1, do: .failSynchronization())])
                try Self.replace(FaultingFileSystem(fileSystem, plan: plan))
                run.acknowledge("new")
            } recover: { fileSystem, crash in
                try Self.verify(fileSystem, crash)
            }
        }
        let losses = failure?.report.violations.flatMap(\.losses) ?? []
        #expect(losses.contains { $0.contains("write 100 bytes at 0 to /new") || $0.contains("to /f") }, "\(losses)")
        let log = failure?.report.violations.first?.log ?? []
        #expect(log.contains { $0.hasSuffix("synchronize /new (.full), which fails") }, "\(log)")
    }

    /// The loop alone, which finds nothing.
    private static func loop() throws -> FailingCallReport {
        try forEachFailingCall(errnos: [], conditions: [.failedFlush]) {
            let fileSystem = InMemoryFileSystem()
            try prepare(fileSystem)
            return fileSystem
        } _: { fileSystem in
            try replace(fileSystem)
        } verify: { fileSystem, error in
            let content = try fileSystem.readFile("/f")
            try expectOldOrNew(content, old: letters("o", 50), new: letters("n", 100), after: error)
        }
    }

    private static func verify(_ fileSystem: InMemoryFileSystem, _ crash: Crash<String>) throws {
        let content = try fileSystem.content("/f")
        try demand(content == letters("o", 50) || content == letters("n", 100), "neither old nor new")
        if crash.acknowledged == ["new"] { try demand(content == letters("n", 100), "the new content is lost") }
    }
}
