import Foundation
import Synchronization

extension ConformanceChecks {
    private typealias Check = ConformanceCheck<FileOperationsUnderTest>

    /// The promises of calls by several threads at once.
    static let fileOperationsInParallel: [ConformanceCheck<FileOperationsUnderTest>] = [
        Check("concurrent writers of different files do not interfere") { subject in
            try subject.atOnce(4, "write(…, to: files of different directories)") { writer in
                try subject.createDirectory("d\(writer)")
                for number in 0..<25 { try subject.write("\(writer).\(number)", "d\(writer)/\(number)") }
            }
            for writer in 0..<4 {
                for number in 0..<25 { try subject.expectContent("\(writer).\(number)", "d\(writer)/\(number)") }
            }
        },
        Check("concurrent writers of different files in one directory lose none") { subject in
            try subject.createDirectory("shared")
            let names = (0..<4).map { writer in (0..<5).map { "\(writer).\($0)" } }
            try subject.repeatedly { round in
                try subject.atOnce(4, "write(…, to: different files of one directory)") { writer in
                    for name in names[writer] { try subject.write("\(round) of " + name, "shared/" + name) }
                }
                for name in names.joined() { try subject.expectContent("\(round) of " + name, "shared/" + name) }
                try subject.expectNames(names.flatMap(\.self), in: "shared")
                for name in names.joined() { try subject.remove("shared/" + name) }
            }
        },
        Check("concurrent removals in one directory remove their own entries and no other") { subject in
            try subject.createDirectory("removals")
            let removed = (0..<4).map { thread in (0..<5).map { "\(thread).\($0)" } }
            try subject.write("kept", "removals/kept")
            try subject.repeatedly { _ in
                for name in removed.joined() {
                    if name.utf8.last == UInt8(ascii: "0") {
                        try subject.createDirectory("removals/" + name)
                    } else {
                        try subject.write("content", "removals/" + name)
                    }
                }
                try subject.atOnce(4, "removeItem(at: different entries of one directory)") { thread in
                    for name in removed[thread] { try subject.remove("removals/" + name) }
                }
                try subject.expectNames(["kept"], in: "removals")
                try subject.expectContent("kept", "removals/kept")
            }
        },
        Check("a directory that several threads create at once with its parents is a success for each") { subject in
            try subject.createDirectory("shared")
            // The threads begin each tree together, and may meet at each of its directories.
            let below = Array(repeating: "d", count: 24).joined(separator: "/")
            let end = ContinuousClock.now + .milliseconds(300)
            let created = Mutex<[String]>([])
            let threads = 2
            let arrived = Mutex(0)
            try subject.atOnce(threads, "createDirectory(at: shared/…/d, withIntermediateDirectories: true)") {
                thread in
                for round in 0..<48 where round < 16 || ContinuousClock.now < end {
                    arrived.withLock { $0 += 1 }
                    while arrived.withLock(\.self) < threads * (round + 1), ContinuousClock.now < end { sched_yield() }
                    try subject.createDirectory("shared/\(round)/\(below)", parents: true)
                    try subject.write("\(thread)", "shared/\(round)/\(below)/\(thread)")
                    created.withLock { $0.append("shared/\(round)/\(below)/\(thread)") }
                }
            }
            // Whatever was created in place of a directory that the other thread had created is without its file.
            for name in created.withLock(\.self) { try subject.expectContent(String(name.suffix(1)), name) }
        },
        Check("of several threads that create one directory without its parents, one succeeds") { subject in
            try subject.repeatedly { _ in
                try subject.expectOneSuccess("createDirectory(at: once, withIntermediateDirectories: false)") {
                    try subject.createDirectory("once")
                }
                try subject.expectNames(["once"])
                try subject.remove("once")
            }
        },
        Check("of several threads that remove one item, one succeeds") { subject in
            for round in 0..<4 {
                if round.isMultiple(of: 2) {
                    try subject.write("content", "removed once")
                } else {
                    try subject.createDirectory("removed once")
                }
                try subject.expectOneSuccess("removeItem(at: removed once)") { try subject.remove("removed once") }
                try subject.expectNames([])
            }
            // Two threads remove many items in step: where a call looks and removes in two steps, some meet between them.
            let end = ContinuousClock.now + .milliseconds(60)
            var names: [String] = []
            while names.count < 16 || names.count < 600 && ContinuousClock.now < end {
                names.append("\(names.count)")
                try subject.createDirectory(names.last ?? "")
            }
            let items = names
            let successes = Mutex([Int](repeating: 0, count: items.count))
            let arrived = Mutex(0)
            try subject.atOnce(2, "removeItem(at: the same items)") { _ in
                for (index, name) in items.enumerated() {
                    arrived.withLock { $0 += 1 }
                    var turns = 0
                    while arrived.withLock(\.self) < 2 * (index + 1) {
                        turns += 1
                        // A thread that only yields may keep the other one from ever running.
                        if turns < 500 { sched_yield() } else { interruptOthers() }
                    }
                    do {
                        try subject.remove(name)
                        successes.withLock { $0[index] += 1 }
                    } catch {}
                }
            }
            CallTrace.current?.setLastChange(nil)
            for (name, count) in zip(items, successes.withLock(\.self)) {
                try expect(
                    count == 1, "removeItem(at: \(name)) by 2 threads at once: expected one success, got \(count)")
            }
            try subject.expectNames([])
        },
        Check("a directory that is listed while entries come and go has each entry that stays") { subject in
            try subject.createDirectory("listed")
            // By name and by creation, entries that come and go are before, between and after those that stay.
            let all = (0..<81).map { "\(100 + $0) \($0.isMultiple(of: 2) ? "new" : "kept")" }
            for name in all { try subject.write("", "listed/" + name) }
            let kept = all.filter { $0.hasSuffix("kept") }
            let new = all.filter { $0.hasSuffix("new") }.map { subject.url("listed/" + $0) }
            let isOver = Flag()
            let wrong = Mutex<[String]?>(nil)
            try subject.atOnce(4, "contentsOfDirectory(at: listed) while entries come and go") { thread in
                guard thread > 0 else {
                    defer { isOver.set() }
                    for _ in 0..<40 {
                        let found = try subject.names(in: "listed").filter { $0.hasSuffix("kept") }
                        guard found.count == kept.count, Set(found) == Set(kept) else {
                            return wrong.withLock { $0 = found }
                        }
                    }
                    return
                }
                // All are removed one after the other, from everywhere, and then created again.
                let urls = new.indices.filter { $0 % 3 == thread - 1 }.map { new[$0] }
                var call = 0
                while !isOver.isSet {
                    let url = urls[call * 11 % urls.count]
                    if call / urls.count % 2 == 0 {
                        try subject.remove(at: url)
                    } else {
                        try subject.write(Data(), to: url)
                    }
                    call += 1
                    // A thread that wakes up interrupts the listing, even if it had to wait for a lock.
                    interruptOthers()
                }
            }
            guard let found = wrong.withLock(\.self) else { return }
            try expectEqual(Set(found), Set(kept), "contentsOfDirectory(at: listed), the entries that stay")
            try expectEqual(found.count, kept.count, "contentsOfDirectory(at: listed), the entries that stay")
        },
        Check("a file that is written while its directory is removed is not in one that is created next") { subject in
            // The larger a content is, the longer is the part of a call after it has found the directory.
            let files = [("vanishing/a", 1 << 20), ("vanishing/d/a", 65_536), ("vanishing/d/b", 16)].map {
                (url: subject.url($0.0), content: Data(repeating: 1, count: $0.1))
            }
            try subject.repeatedly(8) { round in
                // In some rounds nothing is in the directory before its removal, or only what a single thread writes.
                let beginsEmpty = round.isMultiple(of: 2)
                let files = beginsEmpty ? Array(files.prefix(1)) : files
                try subject.createDirectory(beginsEmpty ? "vanishing" : "vanishing/d", parents: true)
                let (isOver, isRemoved) = (Flag(), Flag())
                let writing = Mutex(0)
                try subject.atOnce(1 + files.count, "removeItem(at: vanishing), and write(…, to: files in it),") {
                    thread in
                    guard thread > 0 else {
                        // The removal begins within calls of all the others.
                        while writing.withLock(\.self) < files.count { interruptOthers() }
                        isOver.set()
                        // A directory in which an entry appears meanwhile may be refused.
                        do { try subject.remove("vanishing") } catch { return }
                        isRemoved.set()
                        // The calls that have begun go on.
                        return try subject.createDirectory("created")
                    }
                    let file = files[thread - 1]
                    var calls = 0
                    while !isOver.isSet {
                        if calls == 0, beginsEmpty { writing.withLock { $0 += 1 } }
                        // The directory is missing, once it is removed.
                        do { try subject.write(file.content, to: file.url) } catch {}
                        calls += 1
                        if calls == 1, !beginsEmpty { writing.withLock { $0 += 1 } }
                    }
                }
                if isRemoved.isSet {
                    CallTrace.current?.setLastChange(
                        "removeItem(at: vanishing) while files are written in it, and createDirectory(at: created)")
                    try subject.expectNames([], in: "created")
                    try subject.remove("created")
                } else {
                    try subject.remove("vanishing")
                }
                try subject.expectExists(false, "/vanishing")
                try subject.expectFailure("write(…, to: vanishing/a), whose directory was removed") {
                    try subject.write("content", "vanishing/a")
                }
                for name in ["vanishing", "vanishing/d"] {
                    try subject.createDirectory(name)
                    CallTrace.current?.setLastChange(
                        "removeItem(at: vanishing) while files are written in it, and createDirectory(at: \(name))")
                    try subject.expectNames([], in: name)
                }
                try subject.remove("vanishing")
            }
        },
        Check("a file that is read while it is replaced has the old content or the new") { subject in
            // Of different and of equal lengths, and larger than the buffers that a transfer may use.
            let contents = [300_000, 300_000, 230_000].enumerated().map { index, count in
                Data(repeating: UInt8(index + 1), count: count)
            }
            @Sendable func expectWhole(_ content: Data) throws {
                guard !contents.contains(content) else { return }
                let end = content.firstIndex { $0 != content.first } ?? content.endIndex
                let found =
                    end == content.endIndex
                    ? shown(content)
                    : "a mixture: \(shown(content)), whose first \(end - content.startIndex) bytes are equal"
                throw ConformanceViolation(
                    "read(from: a) beside write(…, to: a): expected "
                        + "\(contents.map { shown($0) }.joined(separator: " or ")), got \(found)")
            }
            try subject.write(contents[0], to: subject.url("a"))
            try await overlapping(writers: 2, readers: 2, overlaps: 150) { writer, call in
                try subject.write(contents[(writer + call) % contents.count], to: subject.url("a"))
            } read: { _ in
                try expectWhole(try subject.content(at: subject.url("a")))
            }
            // A mixture that stays is found whatever the order of the threads was.
            for content in contents {
                try subject.write(content, to: subject.url("a"))
                try expectEqual(try subject.content(at: subject.url("a")), content, "read(from: a)")
            }
            try subject.expectNames(["a"])
        }.needing(.atomicReplacement),
    ]
}

extension FileOperationsUnderTest {
    /// Throws a violation unless exactly one of several threads that call `body` at once succeeds.
    fileprivate func expectOneSuccess(
        _ call: String, file: StaticString = #fileID, line: UInt = #line, _ body: @escaping @Sendable () throws -> Void
    ) throws {
        let successes = Mutex(0)
        let errors = Mutex<[String]>([])
        try atOnce(4, call, file: file, line: line) { _ in
            do {
                try body()
                successes.withLock { $0 += 1 }
            } catch {
                errors.withLock { $0.append("\((error as? FailedCall)?.error ?? error)") }
            }
        }
        CallTrace.current?.setLastChange(nil)
        let count = successes.withLock { $0 }
        try expect(
            count == 1,
            "\(call) by 4 threads at once: expected one success, got \(count) and \(errors.withLock { $0 })",
            file: file, line: line)
    }
}
