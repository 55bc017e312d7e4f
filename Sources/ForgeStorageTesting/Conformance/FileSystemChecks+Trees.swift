import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

extension ConformanceChecks {
    static let fileSystemEntries: [FileSystemCheck] = [
        holds("a renamed file has its new name only") { tree in
            let inode = try tree.status("f").inode
            try tree.fileSystem.rename(tree("f"), to: tree("d/g"))
            try expect(try !tree.exists("f"), "the old name is gone")
            try expectEqual(try tree.status("d/g").inode, inode, "the inode")
            try expectEqual(try tree.status("d/g").linkCount, 1, "the link count")
        },
        holds("a listing has names that begin with a dot, but not the directory and its parent") { tree in
            try tree.create("d/.hidden")
            try tree.create("d/...")
            try tree.makeDirectory("d/.d")
            try expectEqual(try tree.list("d").sorted(), ["...", ".d", ".hidden", "s"], "entries(of: d)")
        },
        holds("the removal of a name keeps the names that begin with it") { tree in
            for name in ["a", "a2", "a.b", ".a"] { try tree.create("d/" + name) }
            for name in ["d/x", "d/x2"] { try tree.makeDirectory(name) }
            try tree.fileSystem.unlink(tree("d/a"))
            try tree.fileSystem.removeDirectory(tree("d/x"))
            let names = try tree.list("d").sorted()
            try expectEqual(
                names, [".a", "a.b", "a2", "s", "x2"], "entries(of: d) after unlink(d/a), removeDirectory(d/x)")
        },
        holds("files have distinct inode numbers") { tree in
            let names = ["f", "d", "d/s", "e", "sf", "dang"]
            try expectEqual(Set(try names.map { try tree.status($0).inode }).count, names.count, "the numbers")
        },
        holds("a listing contains the type and inode number of each entry") { tree in
            let entries = try tree.fileSystem.entries(ofDirectory: tree("."))
            try expectEqual(entries.count, 9, "the names")
            for entry in entries {
                let status = try tree.status(String(entry.name))
                try expectEqual(entry.type, status.type, "the type of \(entry.name)")
                try expectEqual(entry.inode, status.inode, "the number of \(entry.name)")
            }
        },
        holds("concurrent listings of one open directory all contain every name") { tree in
            try tree.opening(tree("."), .readOnly, [.directory]) { directory in
                let fileSystem = tree.fileSystem
                let count = try fileSystem.entries(of: directory).count
                let failures = concurrently(4) { _ in
                    for _ in 0..<2_000 {
                        try expectEqual(try fileSystem.entries(of: directory).count, count, "the names")
                    }
                }
                try expectEqual(failures.compactMap { $0.map(String.init(describing:)) }, [], "the failures")
            }
        },
        holds("every lookup in a removed directory fails") { tree in
            try tree.opening(tree("e"), .readOnly, [.directory]) { directory in
                let fileSystem = tree.fileSystem
                try fileSystem.removeDirectory(tree("e"))
                let calls: [(String, () throws -> Void)] = [
                    ("listing", { _ = try fileSystem.entries(of: directory) }),
                    ("status", { _ = try fileSystem.status("x", at: directory) }),
                    ("unlink", { try fileSystem.unlink("x", at: directory) }),
                    ("link", { try fileSystem.link(tree("f"), at: .workingDirectory, to: "x", at: directory) }),
                    (
                        "rename",
                        {
                            try fileSystem.rename(
                                tree("f"), at: .workingDirectory, to: "x", at: directory, .replacing)
                        }
                    ),
                    ("symlink", { try fileSystem.createSymbolicLink("x", at: directory, to: "f") }),
                ]
                for (name, call) in calls { try tree.expectErrno(.noSuchFileOrDirectory, name, call) }
                guard !tree.isDarwin else { return }
                try tree.expectErrno(.noSuchFileOrDirectory, "a rename with a slash") {
                    try fileSystem.rename(tree("f"), at: .workingDirectory, to: "x/", at: directory, .replacing)
                }
            }
        },
        holds("a rename changes the times of both directories") { tree in
            let old = FileTime(seconds: 1_000_000)
            for name in [".", "d"] {
                try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree(name)))
            }
            try tree.fileSystem.rename(tree("f"), to: tree("d/f"))
            try expect(try tree.status(".").modified != old, "where it was")
            try expect(try tree.status("d").modified != old, "where it is")
        },
        holds("a new directory changes its parent's time") { tree in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree("d")))
            try tree.makeDirectory("d/x")
            try expect(try tree.status("d").modified != old, "its time")
        },
        holds("a new entry was modified and changed now") { tree in
            let before = try tree.status("f").changed
            try tree.create("d/file")
            try tree.makeDirectory("d/directory")
            try tree.makeLink("d/link", to: "file")
            for name in ["d/file", "d/directory", "d/link"] {
                let status = try tree.status(name)
                for (what, time) in [("modified", status.modified), ("changed", status.changed)] {
                    try expect(
                        time >= before, "\(what) of the new \(name): expected \(before) or a later time, got \(time)")
                }
            }
        },
        holds("a read changes no time of modification") { tree in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: old, modified: old, of: .path(tree("f")))
            try expectEqual(try tree.content("f"), "content", "the content")
            try expectEqual(try tree.status("f").modified, old, "its time")
        },
        holds("a new hard link updates the change time of the file") { tree in
            let before = try tree.status("f").changed
            for number in 0..<1_000_000 {
                try tree.fileSystem.link(tree("f"), to: tree("e/n"))
                try tree.fileSystem.rename(tree("e/n"), to: tree("e/m"))
                if try tree.status("f").changed > before { break }
                try expect(number < 999_999, "the time of change stands still")
                try tree.fileSystem.unlink(tree("e/m"))
            }
        },
        holds("all bits of a mode are stored") { tree in
            for mode: FilePermissions.RawValue in [0o4755, 0o2711, 0o1777, 0o7777, 0] {
                let permissions = FilePermissions(rawValue: mode)
                try tree.fileSystem.setPermissions(permissions, of: .path(tree("d")))
                try expectEqual(try tree.status("d").permissions, permissions, "the mode")
            }
        },
        refuses("a missing file is reported before an invalid time", .noSuchFileOrDirectory) { tree in
            let time = FileTime(seconds: 1, nanoseconds: 1_000_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: time, of: .path(tree("missing")))
        },
        refuses("an invalid time is refused", .invalidArgument) { tree in
            // Some of these are constants of the system for the present time, and for none.
            for nanoseconds in [-2, -1, 0x3fff_fffe, 0x3fff_ffff, 1_000_000_000] as [Int32] {
                let (old, time) = (FileTime(seconds: 1), FileTime(seconds: 1, nanoseconds: nanoseconds))
                try tree.opening(tree("f"), .readOnly) { descriptor in
                    for file in [FileReference.path(tree("f")), .descriptor(descriptor)] {
                        try tree.expectErrno(.invalidArgument, "setTimes(accessed: \(time), modified: \(old))") {
                            try tree.fileSystem.setTimes(accessed: time, modified: old, of: file)
                        }
                        try tree.expectErrno(.invalidArgument, "setTimes(accessed: nil, modified: \(time))") {
                            try tree.fileSystem.setTimes(accessed: nil, modified: time, of: file)
                        }
                    }
                }
            }
            let time = FileTime(seconds: 1, nanoseconds: 1_000_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: time, of: .path(tree("f")))
        },
        holds("truncating relative to a directory is like truncating by the whole path") { tree in
            try tree.create("d/x", "content")
            try tree.fileSystem.createNode(
                tree("d/socket"), at: .workingDirectory, type: .socket, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.opening(tree("d"), .readOnly) { directory in
                try tree.fileSystem.truncate(.path("x", at: directory), to: 3)
                try expectEqual(try tree.content("d/x"), "con", "the content")
                let cases: [(POSIXPath, Int64, Errno)] = [
                    ("missing", -1, .invalidArgument), ("missing", 1, .noSuchFileOrDirectory), ("s", 1, .isDirectory),
                    ("x/", 1, .notDirectory), ("socket", 1, .invalidArgument),
                ]
                for (name, size, errno) in cases where !tree.isDarwin {
                    try tree.expectErrno(errno, "\(name)") {
                        try tree.fileSystem.truncate(.path(name, at: directory), to: size)
                    }
                    try tree.expectErrno(errno, "\(name) by its whole path") {
                        try tree.fileSystem.truncate(.path(tree("d").appending(name)), to: size)
                    }
                }
            }
        },
    ]
}

extension ConformanceChecks {
    static let fileSystemConcurrency: [FileSystemCheck] = [
        holds("of many concurrent attempts to create one directory, exactly one succeeds") { tree in
            let outcomes = concurrently(8) { _ in try tree.makeDirectory("race") }
            try expectEqual(outcomes.count { $0 == nil }, 1, "successes")
            try expectEqual(outcomes.count { $0?.errno == .fileExists }, 7, "refusals")
        },
        holds("a thousand files created concurrently all exist") { tree in
            let outcomes = concurrently(1000) { number in try tree.create("e/n\(number)") }
            try expect(outcomes.allSatisfy { $0 == nil }, "each creation succeeds")
            try expectEqual(Set(try tree.list("e")).count, 1000, "the names")
        },
        holds("records appended concurrently through several opens are whole, and none is lost") { tree in
            let writers = 8
            let each = 1000
            try tree.create("log")
            let before = try tree.status("log").modified
            let outcomes = concurrently(writers) { writer in
                try tree.opening(tree("log"), .writeOnly, [.append]) { descriptor in
                    let record = String(repeating: String(writer), count: 15) + "\n"
                    for _ in 0..<each { try tree.write(descriptor, record) }
                }
            }
            try expect(outcomes.allSatisfy { $0 == nil }, "each write succeeds")
            let records = try tree.content("log").split(separator: "\n")
            try expectEqual(records.count, writers * each, "the records")
            try expect(records.allSatisfy { $0.count == 15 && Set($0).count == 1 }, "no record is mixed")
            let after = try tree.status("log").modified
            try expect(after >= before, "modified after 8,000 writes: expected \(before) or a later time, got \(after)")
        },
        holds("a listing during removals contains every remaining name exactly once") { tree in
            for number in 0..<200 { try tree.create("e/n\(number)") }
            let listings = Mutex<[[String]]>([])
            let outcomes = concurrently(2) { worker in
                guard worker == 0 else {
                    for number in 0..<100 { try tree.fileSystem.unlink(tree("e/n\(number)")) }
                    return
                }
                for _ in 0..<20 {
                    let names = try tree.list("e")
                    listings.withLock { $0.append(names) }
                }
            }
            try expect(outcomes.allSatisfy { $0 == nil }, "nothing fails")
            let staying = Set((100..<200).map { "n\($0)" })
            for names in listings.withLock({ $0 }) {
                try expectEqual(names.filter(staying.contains).sorted(), staying.sorted(), "the names that stay")
            }
        },
    ]

    static let fileSystemWaiting: [FileSystemCheck] = [
        holds("a waiting thread gets a lock once it is free, and not before") { tree in
            try tree.opening(tree("f"), .readOnly) { first in
                try tree.opening(tree("f"), .readOnly) { second in
                    try tree.fileSystem.lock(first, .exclusive, waiting: false)
                    let outcome = Mutex<Result<Void, any Error>?>(nil)
                    let isOver = DispatchSemaphore(value: 0)
                    let waiter = Thread {
                        let result = Result { try tree.fileSystem.lock(second, .exclusive, waiting: true) }
                        outcome.withLock { $0 = result }
                        isOver.signal()
                    }
                    waiter.start()
                    // Gives the other thread time to request the lock; the check does not depend on it.
                    let isEarly = isOver.wait(timeout: .now() + .milliseconds(50)) == .success
                    try tree.fileSystem.lock(first, .unlocked, waiting: false)
                    if !isEarly { isOver.wait() }
                    try outcome.withLock { $0 }?.get()
                    try expect(!isEarly, "the lock was granted while another thread held it")
                }
            }
        }
    ]

    static let fileSystemTrees: [FileSystemCheck] = [
        refuses("removing a missing tree is an error", .noSuchFileOrDirectory) {
            try $0.fileSystem.removeTree($0("missing"))
        },
        holds("removing a link to a directory as a tree removes only the link") { tree in
            try tree.fileSystem.removeTree(tree("sd"))
            try expect(try !tree.exists("sd") && tree.exists("d/s"), "the directory stays")
        },
        holds("removing a tree never follows a link in it") { tree in
            try tree.create("d/s/x")
            try tree.makeLink("e/inner", to: "../d")
            try tree.fileSystem.removeTree(tree("e"))
            try expect(try !tree.exists("e") && tree.exists("d/s/x"), "what the link led to stays")
        },
        refuses("a tree is not removed as `.` or `..`", .invalidArgument) { tree in
            try tree.expectErrno(.invalidArgument, "removeTree(d/..)") { try tree.fileSystem.removeTree(tree("d/..")) }
            try tree.fileSystem.removeTree(tree("d/."))
        },
        holds("a copied tree is complete and consists of new files") { tree in
            try tree.create("d/s/x", "deep")
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o640), of: .path(tree("d/s/x")))
            try tree.fileSystem.setPermissions(FilePermissions(rawValue: 0o711), of: .path(tree("d/s")))
            try tree.makeLink("d/l", to: "../f")
            try tree.fileSystem.copyTree(tree("d"), to: tree("copy"))
            try expectEqual(try tree.list("copy").sorted(), ["l", "s"], "the names")
            try expectEqual(try tree.content("copy/s/x"), "deep", "the content")
            try expectEqual(try tree.fileSystem.readSymbolicLink(tree("copy/l")), "../f", "the link")
            for name in ["s", "s/x", "l"] {
                let (old, new) = (try tree.status("d/" + name), try tree.status("copy/" + name))
                try expect(old.inode != new.inode, "\(name) is a new inode")
                try expectEqual(new.type, old.type, "the type of \(name)")
                try expectEqual(new.permissions, old.permissions, "the permissions of \(name)")
            }
            try tree.create("copy/s/x", "changed")
            try expectEqual(try tree.content("d/s/x"), "deep", "the original")
        },
        refuses("a tree is not copied onto an existing entry", .fileExists) {
            try $0.fileSystem.copyTree($0("d"), to: $0("e"))
        },
        refuses("a tree is not copied into itself", .invalidArgument) {
            try $0.fileSystem.copyTree($0("d"), to: $0("d/s/copy"))
        },
        holds("a tree with a FIFO is not copied") { tree in
            try tree.fileSystem.createNode(
                tree("d/s/fifo"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.expectErrno(.notSupported, "copyTree(d, to: copy)") {
                try tree.fileSystem.copyTree(tree("d"), to: tree("copy"))
            }
        },
        refuses("a file is not copied as a tree", .notDirectory) {
            try $0.fileSystem.copyTree($0("f"), to: $0("copy"))
        },
        holds("a listing contains the directory's entries, not names that share its prefix") { tree in
            try tree.makeDirectory("dd")
            try tree.create("dd/other")
            try expectEqual(try tree.list("d"), ["s"], "the listing")
            let urls = try tree.fileSystem.contentsOfDirectory(at: URL(tree("d")))
            try expectEqual(urls.map(\.lastPathComponent), ["s"], "the listing by URL")
        },
        holds("a directory exists, a dangling link does not") { tree in
            try expect(tree.fileSystem.fileExists(atPath: String(tree("d"))), "the directory")
            try expect(!tree.fileSystem.fileExists(atPath: String(tree("dang"))), "the link")
            try expectEqual(try tree.status("dang").type, .symbolicLink, "the link itself")
            for (name, followsLinks, expected) in [
                ("d", true, true), ("f", false, true), ("dang", false, true), ("dang", true, false),
                ("missing", false, false),
            ] {
                let found = try tree.fileSystem.exists(tree(name), followsSymbolicLinks: followsLinks)
                try expectEqual(found, expected, "exists(\(name), followsSymbolicLinks: \(followsLinks))")
            }
            try tree.expectErrno(.notDirectory, "exists(f/x)") { _ = try tree.fileSystem.exists(tree("f/x")) }
        },
        refuses("directories are not created over a file on the way", .notDirectory) { tree in
            try tree.fileSystem.createDirectory(at: URL(tree("f/x/y")), withIntermediateDirectories: true)
        },
        holds("creating existing directories succeeds, also concurrently") { tree in
            let url = URL(tree("d/s"))
            try tree.fileSystem.createDirectory(at: url, withIntermediateDirectories: true)
            let deep = URL(tree("deep/er/still"))
            let outcomes = concurrently(8) { _ in
                try tree.fileSystem.createDirectory(at: deep, withIntermediateDirectories: true)
            }
            try expect(outcomes.allSatisfy { $0 == nil }, "each succeeds")
            try expectEqual(try tree.status("deep/er/still").type, .directory, "the type")
        },
        holds("a hundred thousand opens and closes leave nothing open") { tree in
            let path = tree("f")
            for _ in 0..<100_000 { try tree.fileSystem.close(try tree.fileSystem.open(path)) }
        },
        holds("slashes and `.` in a path collapse") { tree in
            let inode = try tree.status("d/s").inode
            for spelling in ["d//s", "d/./s", ".//d/././/s//", "d/s/.", "d/s/../s"] {
                try expectEqual(try tree.status(spelling).inode, inode, spelling)
            }
        },
        holds("a file written by URL replaces the old one and round-trips byte for byte") { tree in
            let url = URL(tree("f"))
            try tree.fileSystem.write(Data([1, 2, 3]), to: url)
            try expectEqual(try tree.fileSystem.read(from: url), Data([1, 2, 3]), "the content")
            try tree.fileSystem.write(Data(), to: url)
            try expectEqual(try tree.fileSystem.read(from: url), Data(), "the empty content")
            try tree.fileSystem.removeItem(at: url)
            try tree.expectErrno(.noSuchFileOrDirectory, "reading what was removed") {
                _ = try tree.fileSystem.read(from: url)
            }
            try tree.expectErrno(.noSuchFileOrDirectory, "removing it again") {
                try tree.fileSystem.removeItem(at: url)
            }
        },
        refuses("a file is not written by URL into a missing directory", .noSuchFileOrDirectory) { tree in
            try tree.fileSystem.write(Data([1]), to: URL(tree("missing/x")))
        },
        holds("an item is removed by URL with its whole tree") { tree in
            try tree.create("d/s/x")
            try tree.fileSystem.removeItem(at: URL(tree("d")))
            try expect(try !tree.exists("d"), "the directory is gone")
        },
    ]

    /// Runs `body` on several threads concurrently and returns the result of each.
    static func concurrently(
        _ count: Int, _ body: @Sendable (Int) throws -> Void
    ) -> [FileSystemError?] {
        let outcomes = Mutex<[FileSystemError?]>([])
        DispatchQueue.concurrentPerform(iterations: count) { number in
            var failure: FileSystemError?
            do {
                try body(number)
            } catch let error as FileSystemError {
                failure = error
            } catch {
                failure = FileSystemError(.resolve, .notRecoverable, underlying: error)
            }
            outcomes.withLock { $0.append(failure) }
        }
        return outcomes.withLock { $0 }
    }
}
