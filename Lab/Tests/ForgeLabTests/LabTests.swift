import Foundation
import TestDepth
import Testing

/// Runs of the lab's tools on the stores, as processes.
@Suite struct LabTests {
    @Test("the same seed gives the same log and the same tree in every process")
    func determinism() throws {
        var outputs: Set<String> = []
        for _ in 0..<5 {
            let run = try LabProcess.run("forge-lab", ["determinism", "--seed", "7", "--operations", "500"])
            #expect(run.status == 0)
            outputs.insert(run.output)
        }
        #expect(outputs.count == 1, "\(outputs)")
        let other = try LabProcess.run("forge-lab", ["determinism", "--seed", "8", "--operations", "500"])
        #expect(!outputs.contains(other.output))
    }

    @Test("crashing several programs in parallel gives the same results as in sequence")
    func crashJobs() throws {
        func counts(jobs: Int) throws -> [[Substring]] {
            let arguments = ["crash", "--store", "keyValue", "--states", "300", "--limit", "60", "--jobs", "\(jobs)"]
            let run = try LabProcess.run("forge-lab", arguments)
            #expect(run.status == 0, "\(run.output)")
            // All columns but the last two, which contain durations.
            return run.output.split(separator: "\n").map { $0.split(separator: " ").dropLast(2) }
        }
        let expected = try counts(jobs: 1)
        #expect(expected.count == 2)
        for _ in 0..<2 { #expect(try counts(jobs: 4) == expected) }
    }
}

/// Shared stores that real processes close, of which some are killed.
struct ClosingTests {
    @Test("an exclusive opening succeeds after each closing beside other processes, also after kills")
    func closings() throws {
        let rounds = TestDepth.limit(60, deep: 10_000)
        let outcome = try LabProcess.run("forge-lab", ["closings", "--rounds", "\(rounds)"])
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("\(rounds) exclusive openings succeeded, "), "\(outcome.output)")
        print(outcome.output, terminator: "")
    }
}

/// These tests are run only with `FORGE_DEEP`, which raises their limits.
@Suite struct DepthTests {
    @Test("the lab's tests run with the limits of a deep run")
    func isDeep() { #expect(TestDepth.isDeep) }
}

/// Random calls on disk and in memory, by processes confined to directories of their own.
struct FuzzTests {
    private static let callsEach = 100_000

    @Test(
        "the in-memory file system behaves as the one on disk for random calls",
        arguments: [(1, false), (UInt64.random(in: 2...(.max)), false), (3, true), (.random(in: 4...(.max)), true)])
    func agrees(seed: UInt64, isConfined: Bool) throws {
        var arguments = ["fuzz", "--seed", "\(seed)", "--operations", "\(Self.callsEach)"]
        if isConfined { arguments.append("--confined") }
        let outcome = try LabProcess.run("forge-lab", arguments)
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("\(Self.callsEach) calls on 250 trees, 0 differences"), "\(outcome.output)")
        print(outcome.output, terminator: "")
        // Random calls prove little if most of them fail.
        let succeeded = outcome.output.split(separator: "\n").last?.split(separator: " ").first.flatMap { Double($0) }
        #expect((succeeded ?? 0) > 40, "\(outcome.output)")
    }
}

/// Stores opened on damaged and forged logs, in processes that may trap.
struct LogFuzzTests {
    @Test(
        "no damaged log makes a store trap, return values that were never written, or lose later writes",
        arguments: [1, UInt64.random(in: 2...(.max))])
    func logs(seed: UInt64) throws {
        let outcome = try LabProcess.run("forge-lab", ["fuzz-logs", "--seed", "\(seed)", "--count", "1500"])
        #expect(outcome.status == 0, "\(outcome.output)")
        #expect(outcome.output.contains("seed \(seed): 1500 logs, "), "\(outcome.output)")
        #expect(outcome.output.contains("; 0 violations"), "\(outcome.output)")
        print(outcome.output, terminator: "")
    }
}

/// The helper that accepts the command lines of pjdfstest's own.
@Suite(.serialized)
struct CallTests {
    @Test(
        "calls print the output of pjdfstest's helper",
        arguments: [
            ("mkdir d 0755 : stat d type,mode,nlink", "0\ndir,0755,2\n", 0),
            ("mkdir d 0755 : mkdir d 0755 : rmdir d", "0\nEEXIST\n", 1),
            ("-U 022 create f 0666 : lstat f mode,size,uid,gid", "0\n0644,0,0,0\n", 0),
            ("open f O_CREAT,O_RDWR 0644 : write 0 hello : pread 0 9 1 : fstat 0 size,blocks", "0\n0\nello\n5,8\n", 0),
            ("open f O_CREAT|O_WRONLY 0644 : ftruncate 0 -1", "0\nEINVAL\n", 1),
            ("mkdir d 0700 : chown d 65534 65533 : stat d uid,gid", "0\n0\n65534,65533\n", 0),
            ("symlink nowhere s : lstat s type : stat s type", "0\nsymlink\nENOENT\n", 1),
            ("mknod n c 0644 1 300 : lstat n type,major,minor", "0\nchar,1,300\n", 0),
            ("mkfifo p 0644 : open p O_WRONLY,O_NONBLOCK", "0\nENXIO\n", 1),
            ("bind s : bind s", "0\nEADDRINUSE\n", 1),
            ("bind s : connect s", "0\nECONNREFUSED\n", 1),
            ("unlink NULL", "EFAULT\n", 1),
            ("unlinkat BADFD f none", "EBADF\n", 1),
            (
                "mkdir d 0755 : open d O_DIRECTORY : mkdirat 0 e 0700 : unlinkat AT_FDCWD d/e AT_REMOVEDIR",
                "0\n0\n0\n0\n", 0
            ),
            ("create f 0644 : link f g : linkat AT_FDCWD g AT_FDCWD h none : stat f nlink", "0\n0\n0\n3\n", 0),
            (
                "create f 0644 : symlink f s : linkat AT_FDCWD s AT_FDCWD g AT_SYMLINK_FOLLOW : lstat g type",
                "0\n0\n0\nregular\n", 0
            ),
            ("create f 0644 : utimensat AT_FDCWD f 5 7 9 UTIME_OMIT 0 : stat f atime,atime_ns", "0\n0\n5,7\n", 0),
            ("pathconf . _PC_NAME_MAX : pathconf missing _PC_NAME_MAX", "255\nENOENT\n", 1),
            ("-u 65534 -g 65534,65533 mkdir d 0755", "EACCES\n", 1),
            ("create f 0644 : chown f 65534 65534 : chmod f 06711 : stat f mode", "0\n0\n0\n06711\n", 0),
            ("create f 0644 : access f 7", "0\nEACCES\n", 1),
            ("create f 0644 : chmod f 7 8", "0\n", 1),
            ("mkdir d", "", 1), ("frobnicate d", "", 1), ("", "", 1),
        ])
    func answers(_ words: String, _ expected: String, _ status: Int32) throws {
        try withServer { socket in
            let arguments = ["call", "--socket", socket, "--"] + words.split(separator: " ").map(String.init)
            let outcome = try LabProcess.run("forge-lab", arguments)
            #expect(outcome.output == expected)
            #expect(outcome.status == status)
        }
    }

    @Test("a call closes its files and keeps those it created")
    func processes() throws {
        try withServer { socket in
            for (words, expected) in [
                ("mkdir d 0777 : chmod d 0777 : open d O_RDONLY", "0\n0\n0\n"),
                ("-u 65534 -g 65533,65532 -- create d/f 0640", "0\n"),
                ("-u 1 -g 65532 open d/f O_RDONLY", "EACCES\n"),
                ("-u 65534 -g 1,65532 -- chown d/f -1 65532", "0\n"),
                ("-u 1 -g 2,65532 open d/f O_RDONLY", "0\n"),
                ("fstat 0 type", ""),
            ] {
                let words = words.split(separator: " ").map(String.init)
                let outcome = try LabProcess.run("forge-lab", ["call", "--socket", socket, "--"] + words)
                #expect(outcome.output == expected)
            }
        }
    }

    private func withServer(_ body: (String) throws -> Void) throws {
        // A socket's path has to be short.
        let directory = "/tmp/forge-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let server = Process()
        server.executableURL = try LabProcess.executable("forge-lab")
        server.arguments = ["serve", "--socket", directory + "/socket"]
        let pipe = Pipe()
        server.standardOutput = pipe
        try server.run()
        defer {
            server.terminate()
            server.waitUntilExit()
        }
        #expect(String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self).hasPrefix("listening"))
        try body(directory + "/socket")
    }
}
