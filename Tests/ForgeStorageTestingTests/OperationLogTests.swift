import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Logging
import SystemPackage
import Testing

@Suite("The log of operations")
struct OperationLogTests {
    @Test("a recipe's log is the same text in every run, on every seed")
    func golden() throws {
        for seed in 0..<3 as Range<UInt64> {
            let base = InMemoryFileSystem(options: .init(seed: seed))
            try base.put("old", at: "/f")
            let fileSystem = FaultingFileSystem(base)
            try fileSystem.replace("/f", with: "new")
            fileSystem.log.acknowledge("f is new")
            try expectLog(
                fileSystem.log,
                """
                1 0ns open / i1 readOnly,directory = fd3
                2 0ns open /#tmp-1 i2 writeOnly,create,exclusiveCreate,noFollow,0600 = fd4
                3 0ns setPermissions fd4 /#tmp-1 i2 0600 = ok
                4 0ns write fd4 /#tmp-1 i2 count 3 = 3
                5 0ns synchronize fd4 /#tmp-1 i2 full = ok
                6 0ns close fd4 /#tmp-1 i2 = ok
                7 0ns rename /#tmp-1 to /f i2 replacing = ok
                8 0ns synchronize fd3 / i1 full = ok
                9 0ns close fd3 / i1 = ok
                10 acknowledge f is new
                """)
        }
    }

    @Test("a log that differs is described line by line")
    func mismatch() throws {
        let fileSystem = FaultingFileSystem(try memory { try $0.put("x", at: "/f") })
        for _ in 0..<9 { _ = try fileSystem.status("/f") }
        try fileSystem.unlink("/f")
        let lines = fileSystem.log.text.split(separator: "\n").map(String.init)
        let expected = ["0 first"] + lines.dropLast() + ["", "  10 0ns unlink /g = ok  "]
        let error = #expect(throws: TranscriptMismatch.self) {
            try expectLog(fileSystem.log, expected.joined(separator: "\n"))
        }
        #expect(
            error?.description == """
                the log is not as expected (- missing, + unexpected)
                - 0 first
                  1 0ns status /f i1 = file of 1 bytes
                  2 0ns status /f i1 = file of 1 bytes
                  … 5 lines as expected …
                  8 0ns status /f i1 = file of 1 bytes
                  9 0ns status /f i1 = file of 1 bytes
                - 10 0ns unlink /g = ok
                + 10 0ns unlink /f i1 = ok
                """)
    }

    @Test("of the lines as expected, two are shown beside each difference, and no single one is left out")
    func context() {
        let log = OperationLog()
        for number in 1...15 { log.acknowledge("\(number)") }
        var expected = log.text.split(separator: "\n").map(String.init)
        expected[4] = "x"
        expected[10] = "y"
        let error = #expect(throws: TranscriptMismatch.self) {
            try expectLog(log, expected.joined(separator: "\n"))
        }
        #expect(
            error?.description == """
                the log is not as expected (- missing, + unexpected)
                  … 2 lines as expected …
                  3 acknowledge 3
                  4 acknowledge 4
                - x
                + 5 acknowledge 5
                  6 acknowledge 6
                  7 acknowledge 7
                  8 acknowledge 8
                  9 acknowledge 9
                  10 acknowledge 10
                - y
                + 11 acknowledge 11
                  12 acknowledge 12
                  13 acknowledge 13
                  … 2 lines as expected …
                """)
    }

    @Test("the logger of a file system keeps its messages")
    func logger() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        let store = try FileKVStore(at: URL(filePath: "/store"), fileSystem: fileSystem)
        try store.set(KVKey<Int>("a"), value: 1)
        let other = FaultingFileSystem(InMemoryFileSystem())
        var logger = other.logger
        logger[metadataKey: "place"] = "here"
        logger.debug("not kept")
        logger.warning("kept")
        #expect(logger[metadataKey: "place"] == "here")
        #expect(other.log.messages == ["warning: kept"])
    }

    @Test("an inode number reused by the system is another file in the log")
    func reusedInodes() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        for _ in 0..<2 {
            try fileSystem.put("x", at: "/f")
            try fileSystem.unlink("/f")
        }
        let inodes = fileSystem.log.records.filter { $0.operation == .unlink }.map(\.inode)
        #expect(inodes == [2, 3])
        fileSystem.log.removeAll()
        #expect(fileSystem.log.entries.isEmpty)
        #expect("\(fileSystem.log)".isEmpty)
    }

    @Test("names of temporary files are numbered, but not other names that begin with a hash")
    func reservedNames() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        for name in [
            "#tmp-aaaaaaaaaaaaaaaa", "#trash-bbbbbbbbbbbbbbbb", "#tmp-short", "#else", "#tmp-aaaaaaaaaaaaaaaa",
        ] {
            _ = try? fileSystem.status(POSIXPath("/" + name))
        }
        let paths = fileSystem.log.text.split(separator: "\n").map { $0.split(separator: " ")[3] }
        #expect(paths == ["/#tmp-1", "/#trash-2", "/#tmp-short", "/#else", "/#tmp-1"])
    }

    @Test("every kind of call has its line")
    func lines() throws {
        let fileSystem = FaultingFileSystem(InMemoryFileSystem())
        try fileSystem.createSymbolicLink("/s", to: "t")
        _ = try fileSystem.readSymbolicLink("/s")
        let descriptor = try fileSystem.open("t", .readWrite, options: [.create, .append, .truncate, .nonBlocking])
        try fileSystem.allocate(descriptor, at: 1, length: 2)
        try fileSystem.truncate(.descriptor(descriptor), to: 9)
        _ = try fileSystem.seek(descriptor, to: -1, from: .end)
        _ = try fileSystem.seek(descriptor, to: 0, from: .current)
        try fileSystem.lock(descriptor, .shared, waiting: true)
        try fileSystem.setOwner(UserID(3), group: nil, of: .descriptor(descriptor))
        try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: .descriptor(descriptor))
        let copy = try fileSystem.duplicate(descriptor)
        try fileSystem.close(copy)
        try fileSystem.close(descriptor)
        try fileSystem.createNode("/p", at: .workingDirectory, type: .fifo, permissions: [], deviceNumber: 0)
        #expect(throws: FileSystemError.self) { try fileSystem.status("") }
        let root = try fileSystem.open("/", options: [.directory])
        _ = try fileSystem.entries(of: root)
        let mapped = try fileSystem.open("/t", .readWrite)
        let mapping = try fileSystem.map(mapped, at: 0, count: 4096)
        Array("abc".utf8).withUnsafeBytes { mapping.store($0, at: 5) }
        try fileSystem.rename("/t", to: "/u")
        try mapping.writeBack()
        try fileSystem.close(mapped)
        try expectLog(
            fileSystem.log,
            """
            1 0ns createSymbolicLink /s to t i2 = ok
            2 0ns readSymbolicLink /s i2 = t
            3 0ns open t i3 readWrite,create,truncate,append,nonBlocking,0600 = fd3
            4 0ns allocate fd3 t i3 at 1 count 2 = ok
            5 0ns truncate fd3 t i3 count 9 = ok
            6 0ns seek fd3 t i3 at -1 end = 8
            7 0ns seek fd3 t i3 at 0 current = 8
            8 0ns lock fd3 t i3 shared waiting = ok
            9 0ns setOwner fd3 t i3 3: = ok
            10 0ns setTimes fd3 t i3 modified = ok
            11 0ns duplicate fd3 t i3 = fd4
            12 0ns close fd4 t i3 = ok
            13 0ns close fd3 t i3 = ok
            14 0ns createNode /p i4 special file 00 = ok
            15 0ns status "" = ENOENT
            16 0ns open / i1 readOnly,directory = fd3
            17 0ns list fd3 / i1 = 3 entries
            18 0ns open /t i3 readWrite = fd4
            19 0ns map fd4 /t i3 at 0 count 4096 = ok
            20 0ns store /t i3 at 5 count 3 = ok
            21 0ns rename /t to /u i3 replacing = ok
            22 0ns writeBack /u i3 at 0 count 4096 = ok
            23 0ns close fd4 /u i3 = ok
            """)
    }
}
