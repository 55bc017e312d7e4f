#if os(Linux)
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Glibc
import SystemPackage
import Testing

/// Real programs on the in-memory file system, through the kernel.
@Suite(.serialized, .enabled(if: MountedFileSystem.isPossible))
struct MountTests {
    @Test(
        "ordinary commands work on a mounted file system",
        arguments: [
            "mkdir a && echo content > a/f && ln a/f a/g && ln -s f a/s && test \"$(cat a/s)\" = content",
            "mkdir a && touch a/f && mv a b && test -e b/f && test ! -e a && rm -r b && test ! -e b",
            "dd if=/dev/zero of=sparse bs=1 count=1 seek=1G 2>&1 && test $(du -k sparse | cut -f1) -le 8",
            "touch f && chmod 4751 f && test \"$(stat -c %a f)\" = 4751 && chown 12:34 f && test \"$(stat -c %u:%g f)\" = 12:34",
            "touch -d '1960-01-02 03:04:05.678901234 UTC' f && TZ=UTC stat -c %y f | grep -q '03:04:05.678901234'",
            "seq 1 2000 | xargs touch && test $(ls | wc -l) = 2000 && find . -name '*7*' -delete && ls | wc -l | grep -q 1458",
            "mkdir d && seq 100000 > d/f && ln d/f d/g && ln -s nowhere d/s && mkfifo d/p && tar cf t.tar d && mkdir x "
                + "&& tar xf t.tar -C x && diff d/f x/d/f && test x/d/f -ef x/d/g && test -p x/d/p && test -L x/d/s",
            "(flock -n 9 && ! flock -n lock true && (flock lock echo free > told 9>&- &) && sleep 0.3 && test ! -s told) "
                + "9>lock && flock lock true && flock lock grep -q free told",
            "printf 'one' > f && printf 'two' >> f && truncate -s 4 f && test \"$(cat f)\" = onet",
            "echo '#!/bin/sh\necho ran' > run && chmod 755 run && test \"$(./run)\" = ran",
        ])
    func commands(_ script: String) throws {
        try MountedFileSystem.with { place in
            let outcome = try place.shell(script)
            #expect(outcome.status == 0, "\(script)\n\(outcome.output)")
        }
    }

    @Test("git works on a mounted file system", .enabled(if: MountedFileSystem.has("git")))
    func git() throws {
        try MountedFileSystem.with { place in
            let outcome = try place.shell(
                """
                set -e
                export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
                git init -q r && cd r && git config user.email a@example.org && git config user.name a
                seq 1000 > f && git add f && git commit -qm one && seq 2000 > f && git commit -qam two
                git gc -q && git fsck && test -z "$(git status --porcelain)" && git checkout -q HEAD~ && wc -l < f
                """)
            #expect(outcome.status == 0, "\(outcome.output)")
            #expect(outcome.output.hasSuffix("1000\n"))
        }
    }

    @Test("SQLite works on a mounted file system", .enabled(if: MountedFileSystem.has("sqlite3")))
    func sqlite() throws {
        try MountedFileSystem.with { place in
            let outcome = try place.shell(
                """
                sqlite3 db "pragma journal_mode=wal; create table t(a); \
                with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000) \
                insert into t select i from n; select count(*), sum(a) from t; pragma integrity_check;"
                """)
            #expect(outcome.output == "wal\n10000|50005000\nok\n")
        }
    }

    @Test(
        "the file system checks other users' permissions, with their supplementary groups",
        .enabled(if: MountedFileSystem.has("setpriv")))
    func users() throws {
        try MountedFileSystem.with { place in
            let outcome = try place.shell(
                """
                as() { setpriv --reuid 1001 --regid 1001 --groups 1002,1003 "$@"; }
                set -e
                echo secret > f && chmod 640 f && ! as cat f 2> /dev/null
                chgrp 1003 f && test "$(as cat f)" = secret && ! as chmod 777 f 2> /dev/null
                mkdir -m 1777 t && as touch t/own && touch t/roots && ! as rm -f t/roots 2> /dev/null
                as rm t/own && as sh -c 'echo > t/mine && chgrp 1002 t/mine && ! chgrp 7 t/mine' 2> /dev/null
                """)
            #expect(outcome.status == 0, "\(outcome.output)")
        }
    }

    @Test("a full file system is full for every user")
    func quota() throws {
        try MountedFileSystem.with(["--size", "1000000", "--inodes", "20"]) { place in
            let outcome = try place.shell(
                """
                dd if=/dev/zero of=f bs=4096 count=1000 2>&1 | grep -q 'No space left' && test $(stat -c %s f) = 999424
                for name in $(seq 30); do touch n$name; done 2>&1 | grep -c 'No space left'
                df --output=iavail . | tail -1
                """)
            #expect(outcome.output.split(whereSeparator: \.isWhitespace) == ["12", "0"])
        }
    }

    @Test(
        "permissions of a FIFO are checked by the kernel only",
        .enabled(if: MountedFileSystem.has("setpriv")), arguments: [false, true])
    func openingFIFO(kernelChecks: Bool) throws {
        let trace = FileManager.default.temporaryDirectory.path + "/forge-trace-\(UUID().uuidString)"
        defer { unlink(trace) }
        try MountedFileSystem.with(["--trace", trace] + (kernelChecks ? ["--kernel-permissions"] : [])) { place in
            let outcome = try place.shell(
                """
                mkfifo p && echo > f && chmod 0 p f
                as() { setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "$@" 2> /dev/null; }
                as 'exec 3<>p' && echo FIFO
                as 'exec 3<>f' && echo file
                true
                """)
            #expect(outcome.output == (kernelChecks ? "" : "FIFO\n"))
        }
        let asked = try String(contentsOfFile: trace, encoding: .utf8).split(separator: "\n")
            .filter { $0.contains(" user 65534 ") && !$0.hasPrefix("lookUp ") && !$0.hasPrefix("getAttributes ") }
        #expect(asked.count == (kernelChecks ? 0 : 1), "\(asked)")
        #expect(asked.allSatisfy { $0.hasPrefix("open ") && $0.hasSuffix(": EACCES") }, "\(asked)")
    }

    @Test("a signal unmounts at once, even while in use")
    func signalWhileBusy() throws {
        let place = try MountedFileSystem()
        let file = open(place.path + "/f", O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        #expect(file >= 0)
        defer { close(file) }
        place.process.terminate()
        place.process.waitUntilExit()
        #expect(place.process.terminationStatus == 0)
        #expect(!place.isMounted)
        // The file system is unmounted.
        #expect(write(file, "x", 1) == -1)
        #expect(errno == ENOTCONN)
        try place.remove()
    }

    @Test("a mount of a killed process can be unmounted")
    func unmountAfterKill() throws {
        let place = try MountedFileSystem()
        kill(place.process.processIdentifier, SIGKILL)
        place.process.waitUntilExit()
        #expect(place.isMounted)
        #expect(try LabProcess.run("forge-lab", ["unmount", place.path]).status == 0)
        #expect(!place.isMounted)
        try place.remove()
    }

    @Test("the file system behaves the same through the kernel")
    func conforms() async throws {
        let place = try MountedFileSystem()
        defer {
            place.process.terminate()
            place.process.waitUntilExit()
        }
        let umask = FilePermissions(rawValue: 0o777).subtracting(try place.granted())
        for check in ConformanceChecks.fileSystem {
            let directory = place.path + "/\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            var subject = FileSystemUnderTest(SystemFileSystem(), root: POSIXPath(directory))
            subject.umask = umask
            do {
                try await check.run(on: subject)
            } catch {
                Issue.record(error, "\(check)")
            }
        }
        #expect(try LabProcess.run("forge-lab", ["unmount", place.path]).status == 0)
        try place.remove()
    }
}

/// Locks of `fcntl(2)`, and the reasons why no store uses them.
@Suite(.serialized)
struct RangeLockTests {
    @Test("a lock of fcntl(2) does not exclude its own process, and closing any descriptor of the file releases it")
    func onDisk() throws {
        let path = FileManager.default.temporaryDirectory.path + "/forge-lock-\(UUID().uuidString)"
        try expectForgetfulLocks(path)
    }

    @Test("the same holds on a mounted file system", .enabled(if: MountedFileSystem.isPossible))
    func mounted() throws {
        try MountedFileSystem.with { place in try expectForgetfulLocks(place.path + "/f") }
    }

    private func expectForgetfulLocks(_ path: String) throws {
        let fileSystem = SystemFileSystem()
        let open = { try fileSystem.open(POSIXPath(path), .readWrite, options: [.create]) }
        let (first, second, observer) = (try open(), try open(), try open())
        defer { unlink(path) }
        #expect(lock(first) == 0)
        #expect(lock(second) == 0)
        #expect(isLocked(observer))
        try fileSystem.close(second)
        #expect(!isLocked(observer))
        try fileSystem.close(first)
        try fileSystem.close(observer)
    }

    private func lock(_ descriptor: Descriptor) -> CInt {
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        return fcntl(descriptor.rawValue, F_SETLK, &range)
    }

    /// Whether an open-file-description lock would be refused (`F_OFD_GETLK`).
    private func isLocked(_ descriptor: Descriptor) -> Bool {
        var range = flock()
        range.l_type = Int16(F_WRLCK)
        #expect(fcntl(descriptor.rawValue, 36, &range) == 0)
        return range.l_type != Int16(F_UNLCK)
    }
}
#endif
