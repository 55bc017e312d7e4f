import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

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
