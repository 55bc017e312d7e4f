public import ForgeFileStore
package import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    /// The promises of the changes that a file store reports (`StreamingFileStoring.changes(in:)`).
    public static let fileWatching: [ConformanceCheck<any StreamingFileStoring>] = fileChanges + fileIterations
}

private typealias Check = ConformanceCheck<any StreamingFileStoring>

extension ConformanceChecks {
    private static let fileChanges: [Check] = [
        Check("every kind of save is reported under its key") { store in
            var watcher = try await FileWatcher(store)
            let saved = try await watcher.changes {
                try await store.save(text("a"), to: "plain")
                try await store.save(text("a"), to: "conditional", if: .absent)
                try await store.write(to: "written") { try await $0.write(text("a")) }
                try await store.batch { $0.save(text("a"), to: "batch") }
            }
            try expectEqual(
                Set(saved), Set(["plain", "conditional", "written", "batch"].map(FileChange.changed)), "new files")
            for durability in Durability.allCases {
                let replaced = try await watcher.changes {
                    try await store.save(text("b"), to: "plain", durability: durability)
                }
                try expectEqual(replaced, [.changed("plain")], "a replaced file, \(durability)")
            }
        },
        Check("the removal of a file is reported") { store in
            try await store.save(text("a"), to: "d/f")
            var watcher = try await FileWatcher(store)
            try expectEqual(try await watcher.changes { try await store.delete("d/f") }, [.removed("d/f")], "changes")
        },
        Check("a written file is reported when it is committed, and no temporary file ever") { store in
            var watcher = try await FileWatcher(store)
            let writer = try await store.writer(for: "f")
            try expectEqual(try await watcher.changes { try await writer.write(text("a")) }, [], "before the commit")
            let committed = try await watcher.changes { try await writer.commit() }
            try expectEqual(committed, [.changed("f")], "after the commit")
        },
        Check("the files of a new directory are reported, on all levels") { store in
            var watcher = try await FileWatcher(store)
            let keys = (0..<60).map { "a\($0 % 3)/b\($0 % 5)/c/\($0)" }
            let found = try await watcher.changes {
                try await store.batch { batch in for key in keys { batch.save(text("a"), to: key) } }
            }
            try expectEqual(Set(found), Set(keys.map(FileChange.changed)), "changes")
        },
        Check("the removal of a directory is reported once, as the removal of everything in it") { store in
            for key in ["d/a", "d/b/c", "e/f"] { try await store.save(text("a"), to: key) }
            var watcher = try await FileWatcher(store)
            let removed = try await watcher.changes { try await store.deleteDirectory("d") }
            try expect(removed.contains(.removed("d")), "the removal of d should be reported, not \(removed)")
            let new = try await watcher.changes { try await store.save(text("a"), to: "d/b/c") }
            try expect(new.contains(.changed("d/b/c")), "a file in a new directory should be reported, not \(new)")
        },
        Check("deleteAll is reported") { store in
            for key in ["a", "d/b"] { try await store.save(text("a"), to: key) }
            var watcher = try await FileWatcher(store)
            let removed = try await watcher.changes { try await store.deleteAll() }
            try expect(Set(removed).isSuperset(of: [.removed("a"), .removed("d")]), "unexpected changes: \(removed)")
        },
        Check("only changes in the given directory are reported, whenever it is created") { store in
            var watcher = try await FileWatcher(store, in: "d/e", marker: "d/e/marker")
            let found = try await watcher.changes {
                for key in ["d/e/f", "d/f", "d/ee", "f", "d/e/g/h"] { try await store.save(text("a"), to: key) }
            }
            try expectEqual(Set(found), [.changed("d/e/f"), .changed("d/e/g/h")], "changes")
            let removed = try await watcher.changes { try await store.deleteDirectory("d") }
            try expectEqual(removed.first, .removed("d/e"), "the first change")
        },
        Check("the changes of a single file are reported, and no others") { store in
            try await store.save(text("a"), to: "d/f")
            var changes = store.changes(in: "d/f").makeAsyncIterator()
            try expectEqual(try await changes.next(), .resync, "the first change")
            for key in ["d/f2", "d/g", "f", "d/f"] { try await store.save(text("b"), to: key) }
            var change = try await changes.next()
            // Any change may be reported as one that is not known.
            try expect(
                change == .changed("d/f") || change == .resync,
                "the change after saves of d/f2, d/g, f and d/f: expected d/f, got \(String(describing: change))")
            try await store.delete("d/f")
            // One change may be reported as several.
            while change == .changed("d/f") { change = try await changes.next() }
            try expect(
                change == .removed("d/f") || change == .resync,
                "the change after delete(d/f): expected its removal, got \(String(describing: change))")
        },
    ]

    private static let fileIterations: [Check] = [
        Check("the first change is resync, and covers what happened before") { store in
            var changes = store.changes().makeAsyncIterator()
            try await store.save(text("a"), to: "f")
            try expectEqual(try await changes.next(), .resync, "the first change")
            try await store.save(text("a"), to: "g")
            try expectEqual(try await changes.next(), .changed("g"), "the second change")
        },
        Check("the changes of a store without files begin at once, and its first file is one") { store in
            var changes = store.changes().makeAsyncIterator()
            try expectEqual(try await changes.next(), .resync, "the first change")
            try await store.save(text("a"), to: "f")
            // The creation of the root is reported as resync.
            let second = try await changes.next()
            try expect(
                second == .changed("f") || second == .resync,
                "the first file should be reported, not \(second.map { "\($0)" } ?? "the end")")
        },
        Check("the changes that a slow consumer does not take become one resync") { store in
            var watcher = try await FileWatcher(store)
            for round in 0..<3 {
                try await store.batch { batch in
                    for number in 0..<1000 { batch.save(text("a"), to: "d/\(round)-\(number)") }
                }
            }
            let found = try await watcher.changes {}
            try expectEqual(found.filter { $0 == .resync }.count, 1, "resyncs")
            try expect(found.count <= 1025, "1,024 changes should be kept at most, not \(found.count)")
            let later = try await watcher.changes { try await store.save(text("a"), to: "later") }
            try expect(later.contains(.changed("later")), "a later change should be reported, not \(later)")
        },
        Check("applied to a listing, the changes give the present listing") { store in
            var watcher = try await FileWatcher(store)
            var files: [String: FileRevision?] = [:]
            for round in 0..<20 {
                let found = try await watcher.changes {
                    for number in 0..<10 { try await store.save(text("\(round)"), to: "\(number % 3)/\(number)") }
                    try await store.delete("\(round % 3)/\(round % 3)")
                    if round.isMultiple(of: 3) { try await store.deleteDirectory("\((round + 1) % 3)") }
                    guard round == 10 else { return }
                    // Time to notice each of these before the next one.
                    for call in 0..<3 {
                        if call == 1 {
                            try await store.delete("again")
                        } else {
                            try await store.save(text("\(call)"), to: "again")
                        }
                        try await Task.sleep(for: .milliseconds(2))
                    }
                }
                for change in found { try await change.apply(to: &files, from: store) }
                var present: [String: FileRevision?] = [:]
                for try await file in store.files() where !file.isDirectory && !file.key.hasPrefix("marker") {
                    present[file.key] = file.revision
                }
                try expectEqual(files, present, "files after round \(round)")
            }
        },
        Check("every iteration has all changes") { store in
            try await store.save(text("a"), to: "f")
            let changes = store.changes()
            var first = changes.makeAsyncIterator()
            var second = changes.makeAsyncIterator()
            for expected in [FileChange.resync, .changed("f")] {
                try expectEqual(try await first.next(), expected, "first iteration")
                try expectEqual(try await second.next(), expected, "second iteration")
                try await store.save(text("a"), to: "f")
            }
        },
        Check("a cancelled iteration ends") { store in
            let (started, signal) = AsyncStream<Void>.makeStream()
            let task = Task {
                var count = 0
                for try await _ in store.changes() {
                    count += 1
                    signal.yield()
                }
                return count
            }
            for await _ in started { break }
            task.cancel()
            try expectEqual(try await task.value, 1, "changes")
            // Nor does one deliver what it has not delivered before.
            try await store.save(text("a"), to: "f")
            let (waiting, isWaiting) = AsyncStream<Void>.makeStream()
            let late = Task {
                defer { isWaiting.finish() }
                var changes = store.changes().makeAsyncIterator()
                _ = try await changes.next()
                try await store.batch { batch in for number in 0..<20 { batch.save(text("a"), to: "d/\(number)") } }
                _ = try await changes.next()
                isWaiting.yield()
                while !Task.isCancelled { await Task.yield() }
                return try await changes.next()
            }
            for await _ in waiting { break }
            late.cancel()
            try expectEqual(try await late.value, nil, "next() in a cancelled task, after 20 saves and one change")
        },
        Check("a directory whose key is invalid cannot be watched") { store in
            try await expectCode(.invalidKey(.dotComponent), "..") {
                var changes = store.changes(in: "../x").makeAsyncIterator()
                do {
                    return try await changes.next()
                } catch {
                    let next: FileChange?
                    do {
                        next = try await changes.next()
                    } catch {
                        throw ConformanceViolation("next() of the changes in ../x after its error has thrown: \(error)")
                    }
                    try expectEqual(next, nil, "next() of the changes in ../x after its error")
                    throw error
                }
            }
        },
    ]
}

private func text(_ text: String) -> Data { Data(text.utf8) }

extension FileChange {
    /// Applies the change to known revisions, as a consumer does.
    package func apply(
        to files: inout [String: FileRevision?], from store: any StreamingFileStoring
    ) async throws {
        switch self {
        case .changed(let key):
            do {
                files[key] = .some(try await store.info(key).revision)
            } catch let error as FileStoreError where error.code == .notFound {
                // A removal follows.
            }
        case .removed(let key):
            files = files.filter { $0.key != key && !$0.key.hasPrefix(key + "/") }
        case .resync:
            files = [:]
            for file in try await store.list(recursive: true) where !file.isDirectory && !file.key.hasPrefix("marker") {
                files[file.key] = .some(file.revision)
            }
        }
    }
}

/// Watches a store, and ends every step by a save of its own, so that no check has to wait for changes that never come.
package struct FileWatcher {
    private let store: any StreamingFileStoring
    private let marker: String
    private var iterator: FileChanges.AsyncIterator
    private var stepCount = 0

    /// Starts to watch a store, whose root exists afterwards: its creation would be another `resync`.
    package init(
        _ store: any StreamingFileStoring, in directory: String = "", marker: String = "marker"
    ) async throws {
        self.store = store
        self.marker = marker
        try await store.save(Data(), to: "marker-0")
        iterator = store.changes(in: directory).makeAsyncIterator()
        try expectEqual(try await iterator.next(), .resync, "the first change")
    }

    /// The changes that `body` makes, without those of markers, and each once. If there is a `resync`, it is the last.
    package mutating func changes<Result>(_ body: () async throws -> Result) async throws -> [FileChange] {
        _ = try await body()
        stepCount += 1
        let last = "\(marker)-\(stepCount)"
        try await store.save(Data(), to: last)
        var found: [FileChange] = []
        while let change = try await iterator.next() {
            switch change {
            case .changed(last): return found
            case .changed(let key), .removed(let key):
                if !key.hasPrefix(marker), found.last != change { found.append(change) }
            case .resync: return found + [change]
            }
        }
        throw ConformanceViolation("the changes should not end")
    }
}
