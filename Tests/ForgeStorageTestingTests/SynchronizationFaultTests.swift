import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("Failing and falsely successful synchronisations")
struct SynchronizationFaultTests {
    private func fileSystem(_ rules: FaultRule...) throws -> FaultingFileSystem {
        FaultingFileSystem(try memory { try $0.put("abc", at: "/f") }, plan: FaultPlan(rules))
    }

    private func synchronize(_ fileSystem: FaultingFileSystem, _ descriptor: Descriptor) -> Errno? {
        do {
            try fileSystem.synchronize(descriptor, .full)
            return nil
        } catch {
            return error.errno
        }
    }

    @Test(
        "a failure is reported to the caller once, and later synchronisations succeed",
        arguments: [
            Errno.ioError, .noSpace,
        ])
    func caller(_ errno: Errno) throws {
        let fileSystem = try fileSystem(.on(.synchronize, do: .failSynchronization(errno)))
        let first = try fileSystem.open("/f", .readWrite)
        let second = try fileSystem.open("/f", .readWrite)
        #expect(synchronize(fileSystem, first) == errno)
        #expect(synchronize(fileSystem, first) == nil)
        #expect(synchronize(fileSystem, second) == nil)
        #expect(
            fileSystem.log.records.filter { $0.operation == .synchronize }.map(\.isForwarded) == [false, true, true])
    }

    @Test("every open file reports a failure once, files opened later never")
    func openFiles() throws {
        let fileSystem = try fileSystem(
            .on(.synchronize, call: 1, do: .failSynchronization(reportedTo: .openFiles)))
        let first = try fileSystem.open("/f", .readWrite)
        let second = try fileSystem.open("/f", .readWrite)
        let sameAsSecond = try fileSystem.duplicate(second)
        let third = try fileSystem.open("/f", .readWrite)
        #expect(synchronize(fileSystem, first) == .ioError)
        let later = try fileSystem.open("/f", .readWrite)
        try fileSystem.close(third)
        #expect(synchronize(fileSystem, later) == nil)
        #expect(synchronize(fileSystem, second) == .ioError)
        #expect(synchronize(fileSystem, sameAsSecond) == nil)
        #expect(synchronize(fileSystem, first) == nil)
        #expect(fileSystem.log.text.contains("! EIO of an earlier write-back"))
    }

    @Test("a background write-back failure is reported by the next synchronisation of files open at the time")
    func background() throws {
        let fileSystem = try fileSystem(.on(.write, do: .failSynchronization(reportedTo: .openFiles)))
        let first = try fileSystem.open("/f", .readWrite)
        try fileSystem.writeFully(first, from: [1])
        #expect(synchronize(fileSystem, first) == .ioError)
        // The rule affects each file once.
        try fileSystem.writeFully(first, from: [1])
        #expect(synchronize(fileSystem, first) == nil)
        try fileSystem.put("new", at: "/g")
        let later = try fileSystem.open("/g")
        #expect(synchronize(fileSystem, later) == nil)
        try fileSystem.plan.requireAllFired()
    }

    @Test("a false success is recorded as such in the log")
    func lies() throws {
        let fileSystem = try fileSystem(.on(.synchronize, matching: "/f", do: .lieAboutSynchronization))
        let descriptor = try fileSystem.open("/f", .readWrite)
        try fileSystem.writeFully(descriptor, from: [1], at: 3)
        #expect(synchronize(fileSystem, descriptor) == nil)
        #expect(synchronize(fileSystem, descriptor) == nil)
        #expect(fileSystem.log.falseSynchronizations.count == 2)
        #expect(
            fileSystem.log.text.contains("synchronize fd3 /f i1 full = ok ! synchronisation is a lie (not forwarded)"))
        fileSystem.log.acknowledge("safe")
        #expect(fileSystem.log.lint().map(\.kind) == [.acknowledgedUnsynchronizedData])
        let once = try self.fileSystem(.on(.synchronize, do: .failSynchronization(reportedTo: .unreported)))
        let other = try once.open("/f")
        #expect(synchronize(once, other) == nil)
        #expect(synchronize(once, other) == nil)
        #expect(once.log.falseSynchronizations.count == 1)
    }

    @Test("a recipe cannot detect a false success; it reports a failure")
    func recipes() throws {
        let lied = try fileSystem(.on(.synchronize, do: .lieAboutSynchronization))
        try lied.replace("/f", with: "new")
        let failed = try fileSystem(.on(.synchronize, matching: "/", do: .failSynchronization(.noSpace)))
        let error = #expect(throws: FileSystemError.self) { try failed.replace("/f", with: "new") }
        #expect(error?.isEffectVisible == true)
        #expect(error?.errno == .noSpace)
    }
}
