import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("Rules for faults")
struct FaultRuleTests {
    private func fileSystem(_ rules: FaultRule..., seed: UInt64 = 0) throws -> FaultingFileSystem {
        let base = try memory {
            try $0.makeDirectories("/d")
            try $0.put("0123456789", at: "/d/a.log")
            try $0.put("abc", at: "/b")
        }
        return FaultingFileSystem(base, plan: FaultPlan(rules, seed: seed))
    }

    /// The error numbers of a sequence of calls, nil for a success.
    private func outcomes(_ count: Int, _ body: () throws -> Void) throws -> [Errno?] {
        try (0..<count).map { _ in
            do {
                try body()
                return nil
            } catch let error as FileSystemError {
                return error.errno
            }
        }
    }

    @Test("a rule affects the nth matching call, counting only those")
    func nthCall() throws {
        let fileSystem = try fileSystem(.fail(.write, matching: "**/*.log", call: 3, with: .noSpace))
        let log = try fileSystem.open("/d/a.log", .writeOnly)
        let other = try fileSystem.open("/b", .writeOnly)
        let outcomes = try outcomes(4) {
            try fileSystem.writeFully(other, from: [1])
            try fileSystem.writeFully(log, from: [1])
        }
        #expect(outcomes == [nil, nil, .noSpace, nil])
        try fileSystem.plan.requireAllFired()
        #expect(fileSystem.plan.firedCount == 1)
        #expect(fileSystem.log.text.contains("write fd3 /d/a.log i1 count 1 = ENOSPC ! fail ENOSPC"))
    }

    @Test("a rule affects every kth call, or all after the first k")
    func everyAndAfter() throws {
        let every = try fileSystem(.fail(.status, every: 2, with: .ioError))
        #expect(try outcomes(5) { _ = try every.status("/b") } == [nil, .ioError, nil, .ioError, nil])
        let after = try fileSystem(.fail(.status, after: 2, with: .ioError))
        #expect(try outcomes(4) { _ = try after.status("/b") } == [nil, nil, .ioError, .ioError])
        let never = try fileSystem(.fail(.status, every: 0, with: .ioError))
        #expect(try outcomes(3) { _ = try never.status("/b") } == [nil, nil, nil])
    }

    @Test("random choices depend on the seed, and on no other rule")
    func probability() throws {
        func pattern(_ seed: UInt64, _ others: [FaultRule]) throws -> [Bool] {
            let plan = FaultPlan([.fail(.status, probability: 0.3, with: .ioError)] + others, seed: seed)
            let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
            return try outcomes(200) { _ = try fileSystem.status("/") }.map { $0 == .ioError }
        }
        let pattern7 = try pattern(7, [])
        #expect(try pattern(7, [.fail(.status, probability: 0.5, with: .noMemory)]) == pattern7)
        #expect(try pattern(8, []) != pattern7)
        #expect((40...80).contains(pattern7.count { $0 }))
    }

    @Test("a rule for an inode applies to every path and descriptor")
    func inode() throws {
        let fileSystem = try fileSystem()
        try fileSystem.link("/b", to: "/c")
        fileSystem.plan.add(.fail(matching: .inode(try fileSystem.status("/b").inode), with: .staleNFSFileHandle))
        #expect(try outcomes(1) { _ = try fileSystem.open("/c") } == [.staleNFSFileHandle])
        #expect(try outcomes(1) { _ = try fileSystem.status("/d/a.log") } == [nil])
    }

    @Test("a rule for a thread does not affect others")
    func thread() throws {
        let fileSystem = try fileSystem(.fail(.status, thread: "writer", with: .ioError))
        let outcome = try FaultingFileSystem.onThread(named: "writer") {
            try outcomes(1) { _ = try fileSystem.status("/b") }
        }
        #expect(outcome == [.ioError])
        #expect(try outcomes(1) { _ = try fileSystem.status("/b") } == [nil])
        #expect(fileSystem.log.text.contains("[writer] status /b"))
    }

    @Test("an error before the effect changes nothing, one after the effect does")
    func effects() throws {
        let before = try fileSystem(.fail(.rename, .unlink, with: .ioError))
        #expect(try outcomes(1) { try before.rename("/b", to: "/c") } == [.ioError])
        #expect(try before.text(at: "/b") == "abc")
        #expect(before.log.records.first { $0.operation == .rename }?.isForwarded == false)
        let after = try fileSystem(.fail(.rename, .unlink, with: .ioError, effect: .done))
        #expect(try outcomes(1) { try after.rename("/b", to: "/c") } == [.ioError])
        #expect(try after.text(at: "/c") == "abc")
        #expect(try outcomes(1) { try after.unlink("/none") } == [.noSuchFileOrDirectory])
    }

    @Test("an opening or duplication that failed after its effect leaks nothing", arguments: [true, false])
    func openAfterEffect(_ opens: Bool) throws {
        let fileSystem = try fileSystem(.fail(.open, .duplicate, after: opens ? 0 : 1, with: .ioError, effect: .done))
        let result = try outcomes(1) {
            let descriptor = try fileSystem.open("/new", .writeOnly, options: [.create])
            defer { fileSystem.discard(descriptor) }
            _ = try fileSystem.duplicate(descriptor)
        }
        #expect(result == [.ioError])
        #expect(fileSystem.fileExists(atPath: "/new"))
        #expect(fileSystem.openDescriptors.isEmpty)
        #expect((fileSystem.base as? InMemoryFileSystem)?.openDescriptors.isEmpty == true)
    }

    @Test("a descriptor is released even if closing it fails", arguments: [FaultEffect.none, .done])
    func close(_ effect: FaultEffect) throws {
        let fileSystem = try fileSystem(.fail(.close, with: .interrupted, effect: effect))
        let descriptor = try fileSystem.open("/b")
        #expect(try outcomes(2) { try fileSystem.close(descriptor) } == [.interrupted, .interrupted])
        #expect((fileSystem.base as? InMemoryFileSystem)?.openDescriptors.isEmpty == true)
    }

    @Test("reads and writes are shortened, and loops transfer everything")
    func shortTransfers() throws {
        let fileSystem = try fileSystem(
            .on(.read, .write, do: .shorten(toBytes: 3)), .on(.read, call: 2, do: .interrupt))
        try fileSystem.put("0123456789", at: "/new")
        #expect(try fileSystem.text(at: "/new") == "0123456789")
        #expect(fileSystem.log.records.filter { $0.operation == .write }.map(\.transferredCount) == [3, 3, 3, 1])
    }

    @Test("an interrupted call has no effect")
    func interrupt() throws {
        let fileSystem = try fileSystem(.on(.write, call: 1, do: .interrupt))
        let descriptor = try fileSystem.open("/b", .writeOnly)
        let bytes: [UInt8] = [1]
        let error = #expect(throws: FileSystemError.self) {
            try bytes.withUnsafeBytes { _ = try fileSystem.write(descriptor, from: $0, at: nil) }
        }
        #expect(error?.errno == .interrupted)
        #expect(error?.path == nil)
        #expect(try fileSystem.text(at: "/b") == "abc")
        try fileSystem.close(descriptor)
    }

    @Test("a full device accepts what fits, then nothing, until the rule is lifted")
    func fillUp() throws {
        let fileSystem = try fileSystem(
            .on(.write, .allocate, .open, .createDirectory, .link, name: "full", do: .fillUp(afterBytes: 5)))
        let descriptor = try fileSystem.open("/b", .writeOnly)
        try fileSystem.writeFully(descriptor, from: [1, 2, 3])
        #expect(try outcomes(1) { try fileSystem.allocate(descriptor, at: 0, length: 3) } == [.noSpace])
        #expect(try outcomes(1) { try fileSystem.writeFully(descriptor, from: [4, 5, 6]) } == [.noSpace])
        #expect(try fileSystem.base.readFile("/b") == [1, 2, 3, 4, 5])
        #expect(try outcomes(1) { try fileSystem.createDirectory("/e") } == [.noSpace])
        #expect(try outcomes(1) { try fileSystem.link("/b", to: "/e") } == [.noSpace])
        #expect(try outcomes(1) { try fileSystem.unlink("/d/a.log") } == [nil])
        fileSystem.plan.lift("full")
        try fileSystem.writeFully(descriptor, from: [6])
        try fileSystem.close(descriptor)
        #expect(try fileSystem.base.readFile("/b") == [1, 2, 3, 4, 5, 6])
        try fileSystem.plan.requireAllFired()
        #expect(fileSystem.plan.rules.isEmpty)
    }

    @Test("a quota fails with its own error number")
    func quota() throws {
        let fileSystem = try fileSystem(.on(.write, do: .fillUp(afterBytes: 0, .diskQuotaExceeded)))
        #expect(try outcomes(1) { try fileSystem.put("x", at: "/b") } == [.diskQuotaExceeded])
    }

    @Test("a device that becomes read-only refuses every change from then on, and can be read")
    func readOnly() throws {
        let fileSystem = try fileSystem(.on(.write, call: 2, do: .becomeReadOnly))
        let descriptor = try fileSystem.open("/b", .readWrite)
        try fileSystem.writeFully(descriptor, from: [1])
        #expect(try outcomes(1) { try fileSystem.writeFully(descriptor, from: [1]) } == [.readOnlyFileSystem])
        let attempts: [() throws -> Void] = [
            { try fileSystem.writeFully(descriptor, from: [1]) },
            { try fileSystem.truncate(.descriptor(descriptor), to: 0) },
            { try fileSystem.setPermissions([], of: .descriptor(descriptor)) },
            { try fileSystem.rename("/b", to: "/c") },
            { try fileSystem.unlink("/b") },
            { try fileSystem.createDirectory("/e") },
            { _ = try fileSystem.open("/new", .readOnly, options: [.create]) },
            { _ = try fileSystem.open("/b", .writeOnly) },
        ]
        for attempt in attempts { #expect(try outcomes(1, attempt) == [.readOnlyFileSystem]) }
        #expect(try fileSystem.readFile("/b").count == 3)
        try fileSystem.synchronize(descriptor, .full)
        try fileSystem.close(descriptor)
    }

    @Test("delays pass on a virtual clock, in every matching call")
    func latency() throws {
        let fileSystem = try fileSystem(
            .on(.status, do: .delay(.milliseconds(20))), .on(.status, call: 2, do: .delay(.seconds(1))))
        for _ in 0..<3 { _ = try fileSystem.status("/b") }
        #expect(fileSystem.clock.now == .milliseconds(1060))
        #expect(fileSystem.log.records.map(\.time) == [.zero, .milliseconds(20), .milliseconds(1040)])
        fileSystem.clock.advance(by: .seconds(-5))
        #expect(fileSystem.clock.now == .milliseconds(1060))
    }

    @Test("requireAllFired throws until every rule has fired")
    func deadRules() throws {
        let fileSystem = try fileSystem(
            .fail(.status, with: .ioError), .fail(.write, matching: "/none/**", call: 2, with: .noSpace, effect: .done),
            .on(.status, name: "useless", do: .shorten(toBytes: 1)))
        _ = try outcomes(1) { _ = try fileSystem.status("/b") }
        let error = #expect(throws: DeadFaultRules.self) { try fileSystem.plan.requireAllFired() }
        #expect(
            error?.description == """
                never fired: write on /none/**, call 2: fail ENOSPC afterwards (no such call); \
                useless: status on anything, always: shorten to 1 bytes (calls on /b)
                """)
        for name in 0..<10 { try fileSystem.put("x", at: POSIXPath("/d/\(name % 9)")) }
        let later = #expect(throws: DeadFaultRules.self) { try fileSystem.plan.requireAllFired() }
        #expect(later?.seenPaths == [(0..<8).map { POSIXPath("/d/\($0)") }, ["/b"]])
        #expect(later?.description.contains("(calls on /d/0, /d/1, /d/2, /d/3, /d/4, /d/5, /d/6, /d/7, …); ") == true)
    }

    @Test("a rule for the path of a store's file affects the temporary file that becomes it")
    func temporaryFiles() async throws {
        func fileSystem(_ rule: FaultRule) -> FaultingFileSystem {
            FaultingFileSystem(InMemoryFileSystem(), plan: FaultPlan([rule]))
        }
        func affected(_ fileSystem: FaultingFileSystem) -> [POSIXPath?] {
            fileSystem.log.records.filter { !$0.faults.isEmpty }.map(\.path)
        }
        let vaults = fileSystem(.fail(.write, matching: "/vault*", with: .noSpace))
        let vault = try VaultCrypt(at: URL(filePath: "/vault"), key: VaultKey.random(), fileSystem: vaults)
        #expect(throws: CryptError.self) { try vault.set("secret", for: CryptKey<String>(key: "s")) }
        try vaults.plan.requireAllFired()
        #expect(affected(vaults) == ["/#tmp-of-vaults"])

        let files = fileSystem(.fail(.write, matching: "/files/d/*", with: .noSpace))
        let store = DiskFileStore(root: URL(filePath: "/files"), fileSystem: files)
        try await store.save(Data("a".utf8), to: "a")
        await #expect(throws: FileStoreError.self) { try await store.save(Data("a".utf8), to: "d/a") }
        try files.plan.requireAllFired()

        let values = FaultingFileSystem(InMemoryFileSystem())
        let kv = try FileKVStore(at: "/kv", fileSystem: values, options: .init(logger: values.logger))
        try kv.set(KVKey<Int>("a"), value: 1)
        values.plan.add(.fail(.open, matching: "/kv/log", with: .noSpace))
        #expect(throws: KVStoreError.self) { try kv.compact() }
        #expect(affected(values) == ["/kv/#log-new"])
    }

    @Test("a rule for other names does not affect the temporary files of stores")
    func otherTemporaryFiles() throws {
        let temporary: POSIXPath = "/d/#tmp-of-vaults"
        let fileSystem = try fileSystem(
            .fail(.write, matching: "/d", with: .ioError), .fail(.write, matching: "/d/#lock", with: .ioError),
            .fail(.write, matching: "/d/", with: .ioError), .fail(.write, matching: "/d/*/a", with: .ioError),
            .fail(.write, matching: "/b*", with: .ioError), .fail(.rename, .unlink, matching: "/d/b", with: .ioError))
        for name in [temporary, "/d/#tmp-store-vaults"] {
            try fileSystem.put("new", at: name)
            try fileSystem.rename(name, to: "/d/a")
        }
        try fileSystem.put("new", at: temporary)
        try fileSystem.unlink(temporary)
        #expect(fileSystem.plan.firedCount == 0)
        for pattern in ["/d/b", "/d/*", "**/*", "**", "**/b", "/d/?", "/*/b", "/d/#tmp-*"] as [PathGlob] {
            fileSystem.plan.add(.fail(.write, matching: .path(pattern), name: "planted", with: .ioError))
            #expect(try outcomes(1) { try fileSystem.put("new", at: temporary) } == [.ioError], "\(pattern)")
            fileSystem.plan.lift("planted")
        }
    }

    @Test("the first matching rule decides, and a disarmed plan does nothing")
    func order() throws {
        let fileSystem = try fileSystem(.fail(.status, call: 1, with: .ioError), .fail(.status, with: .noMemory))
        fileSystem.plan.isArmed = false
        #expect(try outcomes(1) { _ = try fileSystem.status("/b") } == [nil])
        fileSystem.plan.isArmed = true
        #expect(try outcomes(2) { _ = try fileSystem.status("/b") } == [.ioError, .noMemory])
        #expect(fileSystem.plan.callCount == 2)
    }

    @Test(
        "rules describe themselves",
        arguments: [
            (.on(do: .interrupt), "any operation on anything, always: interrupt"),
            (
                .on(.read, .write, matching: .inode(4), every: 3, after: 9, do: .shorten(toBytes: 2)),
                "read/write on inode 4, every 3, after 9: shorten to 2 bytes"
            ),
            (
                .on(.write, probability: 0.5, thread: "t", do: .fillUp(afterBytes: 7)),
                "write on anything, probability 0.5, thread t: ENOSPC after 7 bytes"
            ),
            (
                FaultRule([.open], FaultOccurrence(calls: 2...4), do: .becomeReadOnly),
                "open on anything, calls 2 to 4: read-only"
            ),
            (.on(.open, do: .delay(.microseconds(3))), "open on anything, always: delay 3000ns"),
            (.on(.open, do: .delay(.milliseconds(1500))), "open on anything, always: delay 1500000000ns"),
            (
                .on(.open, do: .delay(.seconds(-10_000_000_000))),
                "open on anything, always: delay -9223372036854775808ns"
            ),
            (
                .on(.open, do: .delay(.milliseconds(9_223_372_036_900))),
                "open on anything, always: delay 9223372036854775807ns"
            ),
            (.on(.open, do: .crash()), "open on anything, always: crash"),
            (.on(.open, do: .crash(effect: .done)), "open on anything, always: crash afterwards"),
            (
                .on(.read, do: .corrupt(.flippedBit(offset: 1, bit: 2))),
                "read on anything, always: corrupt: bit 2 of byte 1 flipped"
            ),
            (.on(.read, do: .corrupt(.zeroedSector(3))), "read on anything, always: corrupt: sector 3 zeroed"),
            (.on(.read, do: .corrupt(.staleSector(3))), "read on anything, always: corrupt: sector 3 stale"),
            (
                .on(.read, do: .corrupt(.misdirectedSector(3, from: 5))),
                "read on anything, always: corrupt: sector 3 read from 5"
            ),
            (
                .on(.synchronize, do: .failSynchronization(reportedTo: .openFiles)),
                "synchronize on anything, always: synchronisation fails with EIO, told to openFiles"
            ),
            (
                .on(.synchronize, do: .lieAboutSynchronization),
                "synchronize on anything, always: synchronisation is a lie"
            ),
        ] as [(FaultRule, String)])
    func descriptions(_ rule: FaultRule, _ expected: String) {
        #expect(rule.description == expected)
    }

    /// A mapping of the log, through a file system with these rules.
    private func mapping(of fileSystem: FaultingFileSystem) throws -> FileMapping {
        let descriptor = try fileSystem.open("/d/a.log", .readWrite)
        let mapping = try fileSystem.map(descriptor, at: 0, count: 10)
        try fileSystem.close(descriptor)
        return mapping
    }

    private func store(_ text: String, in mapping: FileMapping) {
        Array(text.utf8).withUnsafeBytes { mapping.store($0, at: 0) }
    }

    @Test("mapping and writing back fail like any other call")
    func mappings() throws {
        let fileSystem = try fileSystem(
            .fail(.map, call: 1, with: .noMemory), .fail(.writeBack, matching: "**/*.log", every: 2, with: .ioError))
        let log = try fileSystem.open("/d/a.log", .readWrite)
        #expect(try outcomes(2) { _ = try fileSystem.map(log, at: 0, count: 10) } == [.noMemory, nil])
        let mapping = try fileSystem.map(log, at: 0, count: 10)
        #expect(try outcomes(3) { try mapping.writeBack() } == [nil, .ioError, nil])
        try fileSystem.close(log)
        try fileSystem.plan.requireAllFired()
    }

    @Test("a device that became read-only is not mapped")
    func readOnlyMappings() throws {
        let fileSystem = try fileSystem(.on(.read, do: .becomeReadOnly))
        let log = try fileSystem.open("/d/a.log", .readWrite)
        _ = try fileSystem.readBytes(of: log, at: 0, count: 1)
        #expect(try outcomes(1) { _ = try fileSystem.map(log, at: 0, count: 10) } == [.readOnlyFileSystem])
        try fileSystem.close(log)
    }

    @Test("a store cannot fail, and a rule for all calls does not count it")
    func stores() throws {
        let fileSystem = try fileSystem(
            .fail(.store, with: .ioError), .on(.store, do: .delay(.seconds(1))), .fail(call: 4, with: .ioError))
        let mapping = try mapping(of: fileSystem)
        store("S", in: mapping)
        #expect(fileSystem.clock.now == .seconds(1))
        #expect(try outcomes(2) { try mapping.writeBack() } == [.ioError, nil])
        #expect(try fileSystem.base.readFile("/d/a.log").starts(with: "S12".utf8))
        #expect(fileSystem.plan.callCount == 5)
    }

    @Test("a process that dies at a store has completed it or not, and no later one", arguments: FaultEffect.allCases)
    func crashAtStore(_ effect: FaultEffect) throws {
        let fileSystem = try fileSystem(.on(.store, call: 2, do: .crash(effect: effect)))
        let mapping = try mapping(of: fileSystem)
        store("first", in: mapping)
        store("SECOND", in: mapping)
        #expect(fileSystem.isCrashed)
        store("third", in: mapping)
        let error = #expect(throws: FileSystemError.self) { try mapping.writeBack() }
        #expect(error?.underlying is ProcessCrashed)
        fileSystem.restart()
        store("fourth", in: mapping)
        #expect(throws: FileSystemError.self) { try mapping.writeBack() }
        let expected = effect == .done ? "SECOND6789" : "first56789"
        #expect(try fileSystem.readFile("/d/a.log") == Array(expected.utf8))
    }

    @Test("the loop over failing calls fails mapping and writing back")
    func failingCalls() throws {
        let report = try forEachFailingCall(errnos: [.ioError], modes: [.once], conditions: []) {
            try memory { try $0.put("0123456789", at: "/f") }
        } _: { fileSystem in
            let descriptor = try fileSystem.open("/f", .readWrite)
            try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                let mapping = try fileSystem.map(descriptor, at: 0, count: 10)
                store("new", in: mapping)
                try mapping.writeBack()
                try fileSystem.synchronize(descriptor, .data)
            }
        } verify: { fileSystem, error in
            let operation = (error as? FileSystemError)?.operation
            let content = try fileSystem.readFile("/f")
            #expect(content.starts(with: "new".utf8) == (operation != .open && operation != .map))
        }
        // Opening, mapping, writing back, synchronising and closing.
        #expect(report.callCount == 5)
        #expect(report.throwingRunCount == 5)
    }
}

@Suite("Patterns for paths")
struct PathGlobTests {
    @Test(
        "a pattern matches whole paths",
        arguments: [
            ("/a/b.log", "/a/b.log", true), ("/a/b.log", "/a/b.logs", false), ("/a/b.log", "a/b.log", false),
            ("*.log", "b.log", true), ("*.log", ".log", true), ("*.log", "a/b.log", false),
            ("**/*.log", "b.log", true), ("**/*.log", "/b.log", true), ("**/*.log", "/a/b/c.log", true),
            ("**/*.log", "/a/b.log/c", false), ("**/b", "/ab", false), ("**/b", "/a/b", true), ("**/b", "b", true),
            ("/a/**", "/a/b/c", true), ("/a/**", "/a/", true), ("/a/**", "/a", false), ("/a/**", "/ab/c", false),
            ("/a/**/z", "/a/z", true), ("/a/**/z", "/a/b/c/z", true), ("/a/**/z", "/a/bz", false),
            ("a**z", "abc/xyz", true), ("a**/z", "ab/c/z", true), ("**", "", true), ("**", "/x/y", true),
            ("?", "é", true), ("?", "ab", false), ("a?c", "a/c", false), ("a?c", "aéc", true), ("?", "", false),
            ("*", "", true), ("", "", true), ("", "a", false), ("**/**/x", "/q/x", true),
            ("*a*b*c", "xxaxxbxxc", true), ("*a*b*c", "xxaxxcxxb", false),
        ] as [(PathGlob, POSIXPath, Bool)])
    func matches(_ glob: PathGlob, _ path: POSIXPath, _ expected: Bool) {
        #expect(glob.matches(path) == expected)
    }

    @Test("a pattern with exponential backtracking elsewhere is matched quickly")
    func staysLinear() {
        let glob = PathGlob(String(repeating: "**/*a", count: 30) + "b")
        #expect(!glob.matches(POSIXPath(String(repeating: "a/", count: 500))))
        #expect(glob.description.hasPrefix("**/*a"))
    }
}
