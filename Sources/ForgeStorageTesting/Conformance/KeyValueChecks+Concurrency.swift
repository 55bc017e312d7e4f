import Dispatch
import ForgeKVStore
import Foundation
import Synchronization

extension ConformanceChecks {
    static let keyValueConcurrency: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("writers of different keys do not interfere") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        for index in 0..<25 {
                            let key = KVKey<Int>("\(writer).\(index)")
                            try store.set(key, value: writer * 1000 + index)
                            try expectEqual(store.get(key), writer * 1000 + index, "get right after set")
                        }
                    }
                }
                try await group.waitForAll()
            }
            for writer in 0..<8 {
                for index in 0..<25 {
                    try expectEqual(
                        store.get(KVKey<Int>("\(writer).\(index)")), writer * 1000 + index, "\(writer).\(index)")
                }
            }
        },
        ConformanceCheck("of concurrent writers of one key one wins, and no reader sees a torn value") { store in
            let key = KVKey<[Int]>("a")
            try store.set(key, value: [Int](repeating: 1, count: 100))
            try await overlapping(writers: 2, readers: 1, overlaps: 16) { writer, _ in
                try store.set(key, value: [Int](repeating: writer, count: 100))
            } read: { _ in
                let value = store.get(key)
                // Making the text takes longer than a call, and would count as a part of it.
                guard value.map({ $0.count == 100 && Set($0).count == 1 }) ?? false else {
                    throw ConformanceViolation("get(a) beside set(a) of 100 equal numbers: got \(shown(value))")
                }
            }
            try expect((0..<2).contains(store.get(key)?.first ?? -1), "no writer has won")
        },
        ConformanceCheck("a value that is replaced is never absent meanwhile") { store in
            let key = KVKey<Int>("a")
            try store.set(key, value: 0)
            let isOver = Flag()
            let end = ContinuousClock.now + .milliseconds(12)
            try await racing(threads: 2) { thread in
                guard thread == 0 else {
                    while !isOver.isSet {
                        try expect(store.get(key) != nil, "get(a) beside set(a), which replaces the value: got nil")
                        sched_yield()
                    }
                    return
                }
                defer { isOver.set() }
                var call = 0
                while call < 16 || call < 600 && ContinuousClock.now < end {
                    call += 1
                    try store.set(key, value: call)
                    if call.isMultiple(of: 16) { interruptOthers() }
                }
            }
        },
        ConformanceCheck("concurrent removals and writes of one key leave it present or absent") { store in
            let key = KVKey<String>("a")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    group.addTask {
                        for index in 0..<25 {
                            if (writer + index).isMultiple(of: 2) {
                                try store.set(key, value: "value")
                            } else {
                                try store.remove(key)
                            }
                            let value = store.get(key)
                            try expect(value == nil || value == "value", "read \(value ?? "nil")")
                        }
                    }
                }
                try await group.waitForAll()
            }
            try expectEqual(store.contains(key), store.get(key) != nil, "contains")
        },
    ]
}

extension ConformanceChecks {
    /// A number as bytes, the most significant first.
    private static func bytes(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }

    /// The promises of a transactional store to concurrent callers.
    static let keyValueAtomicity: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("no update by 4 threads is lost") { store in
            let key = KVKey<Int>("a")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask { for _ in 0..<100 { try store.update(key, default: 0) { $0 += 1 } } }
                }
                try await group.waitForAll()
            }
            try expectEqual(store.get(key), 400, "the sum of 400 updates by 1")
        },
        ConformanceCheck("exactly one of 4 threads that create one key succeeds") { store in
            for round in 0..<20 {
                let key = KVKey<Int>("\(round)")
                let winners = try await withThrowingTaskGroup(of: Int?.self) { group in
                    for writer in 0..<4 {
                        group.addTask { try store.createIfAbsent(key, value: writer) ? writer : nil }
                    }
                    var winners: [Int] = []
                    for try await winner in group { if let winner { winners.append(winner) } }
                    return winners
                }
                try expectEqual(winners.count, 1, "how many have created \(round)")
                try expectEqual(store.get(key), winners.first, "the value of \(round)")
            }
        },
        ConformanceCheck("of concurrent batches that require one revision, exactly one is applied") { store in
            // Looking at the other requirements takes most of the time of a call, so that a store which does not check and
            // change in one step is interrupted between both.
            let others = (0..<50).map { "other \($0)" }
            try store.setRawValue(bytes(0), named: "a")
            let applied = try await competing(tasks: 3) {
                guard let entry = try store.entry(named: "a") else { throw ConformanceViolation("a has no entry") }
                var batch = KVBatch()
                batch.require("a", revision: entry.revision)
                for name in others { batch.require(name, revision: nil) }
                batch.append(.set(name: "a", bytes: bytes(entry.bytes.reduce(0) { $0 << 8 | UInt64($1) } + 1)))
                do {
                    try store.commit(batch)
                    return true
                } catch let error as KVStoreError where error.code == .conflict {
                    return false
                }
            }
            try expectEqual(
                try store.rawValue(named: "a"), bytes(UInt64(applied)),
                "a after \(applied) batches that required its revision and increased it")
        },
        ConformanceCheck("an entry that is read while it is replaced has bytes and revision of one write") { store in
            // Stores keep raw values, integers and other numbers in different ways.
            try store.set(KVKey<Int>("a"), value: -1)
            try await overlapping(writers: 1, readers: 1, overlaps: 12) { _, call in
                switch call % 3 {
                case 0: try store.set(KVKey<Double>("a"), value: Double(call))
                case 1:
                    try store.set(KVKey<Int>("b"), value: call)
                    try store.setRawValue(try store.rawValue(named: "b") ?? [], named: "a")
                default: try store.set(KVKey<Int>("a"), value: call)
                }
            } read: { _ in
                guard var last = try store.entry(named: "a") else { throw ConformanceViolation("a has no entry") }
                for _ in 0..<40 {
                    guard let entry = try store.entry(named: "a") else { throw ConformanceViolation("a has no entry") }
                    let isLater = entry.revision > last.revision && entry.bytes != last.bytes
                    guard entry == last || isLater else {
                        throw ConformanceViolation("entry(named: a) beside writes: got \(entry) after \(last)")
                    }
                    last = entry
                }
            }
        },
        ConformanceCheck("a snapshot contains a whole batch or nothing of it") { store in
            // Many names make a snapshot that reads name by name, or piece by piece, take long; each batch adds and removes
            // names, or follows a removal of all, so that a store also moves what it has.
            let others = (0..<500).map { "other \($0)" }
            // The names of even and of odd batches.
            let names = (0..<2).map { parity in (0..<24).map { "\(parity) \($0)" } }
            @Sendable func batch(_ number: UInt64) -> KVBatch {
                let (new, old, bytes) = (names[Int(number % 2)], names[Int(1 - number % 2)], bytes(number))
                var batch = KVBatch()
                batch.append(.set(name: "a", bytes: bytes))
                for index in new.indices {
                    batch.append(.set(name: new[index], bytes: bytes))
                    batch.append(.remove(name: old[index]))
                }
                return batch
            }
            @Sendable func fill(_ number: UInt64) throws {
                var all = batch(number)
                for name in others { all.append(.set(name: name, bytes: [1])) }
                try store.commit(all)
            }
            try fill(0)
            let last = Mutex<UInt64>(0)
            try await overlapping(writers: 1, readers: 1, overlaps: 20, pausing: true) { _, call in
                switch call % 4 {
                case 2: try store.removeAll()
                case 3: try fill(UInt64(call + 1))
                default: try store.commit(batch(UInt64(call + 1)))
                }
            } read: { _ in
                let snapshot = try store.snapshot()
                // After `removeAll`.
                guard !snapshot.isEmpty else { return }
                guard let a = snapshot["a"]?.bytes else { throw ConformanceViolation("a snapshot lacks a") }
                let number = a.reduce(0) { $0 << 8 | UInt64($1) }
                let call = "snapshot() beside removeAll and batches that replace 24 names and set a"
                for name in names[Int(number % 2)] where snapshot[name]?.bytes != a {
                    let found = snapshot[name].map { "\($0.bytes)" } ?? "nil"
                    throw ConformanceViolation("\(call): a is of batch \(number), \(name) is \(found)")
                }
                try expectEqual(
                    snapshot.count, others.count + 25, "\(call): the number of names, where a is of batch \(number)")
                let earlier = last.withLock { last in
                    defer { last = number }
                    return last
                }
                try expect(number >= earlier, "\(call): batch \(number), after a snapshot of batch \(earlier)")
            }
        },
        ConformanceCheck("a snapshot lists every name once, with a whole value, while values are replaced") { store in
            // More names than a store may look through in one piece; some values are too long to be copied with others.
            let names = (0..<700).map { "\($0)" }
            @Sendable func value(of name: String, _ byte: UInt8) -> [UInt8] {
                [UInt8](repeating: byte, count: name.hasSuffix("7") ? 2_000 : 8)
            }
            try store.batch { batch in
                for name in names { batch.append(.set(name: name, bytes: value(of: name, 0))) }
            }
            let isOver = Flag()
            try await racing(threads: 2) { thread in
                guard thread == 0 else {
                    var call = 0
                    while !isOver.isSet {
                        let name = names[call % 10]
                        call += 1
                        try store.setRawValue(value(of: name, UInt8(truncatingIfNeeded: call)), named: name)
                        if call.isMultiple(of: 4) { interruptOthers() }
                    }
                    return
                }
                defer { isOver.set() }
                for _ in 0..<4 {
                    let snapshot = try store.snapshot()
                    let call = "snapshot() beside setRawValue of ten of \(names.count) names"
                    for (list, found) in [("names", snapshot.names), ("its elements", snapshot.map(\.name))] {
                        try expect(
                            found.count == names.count && Set(found) == Set(names) && snapshot.count == names.count,
                            "\(call): expected each of them in \(list), got \(found.count), and a count of "
                                + "\(snapshot.count)")
                    }
                    for (name, entry) in snapshot where entry.bytes != value(of: name, entry.bytes.first ?? 0) {
                        throw ConformanceViolation(
                            "\(call): expected \(value(of: name, 0).count) equal bytes of \(name), got "
                                + "\(entry.bytes.count), the first of them \(shown(entry.bytes.prefix(8)))")
                    }
                }
            }
        },
    ]
}

extension ConformanceChecks {
    /// A call, by its text.
    private typealias Write<Store> = (call: String, body: (Store) throws -> Void)

    /// Checks of writes that another thread reads, and of the comparison of names.
    static let keyValueThreads: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("a thread that has read a key sees what another one writes") { store in
            let key = KVKey<Int>("a")
            let writes: [Write<any KVStoring>] = [
                ("set(a, value: 1)", { try $0.set(key, value: 1) }),
                ("set(a, value: 2)", { try $0.set(key, value: 2) }),
                ("remove(a)", { try $0.remove(key) }), ("set(a, value: 3)", { try $0.set(key, value: 3) }),
                ("removeAll()", { try $0.removeAll() }),
            ]
            try await checkReads(of: writes, in: store, "get(a) and contains(a)") {
                "\(store.get(key).map { "\($0)" } ?? "nil"), \(store.contains(key))"
            }
        },
        ConformanceCheck("once a set has returned, no read that began before it brings the old value back") { store in
            // Two threads read each key without pause while it is written.
            let keys = (0..<300).map { KVKey<Int>("\($0)") }
            for key in keys { try store.set(key, value: 0) }
            let current = Atomic(0)
            let remaining = Atomic(2)
            try await racing(threads: 3) { thread in
                guard thread == 2 else {
                    defer { remaining.subtract(1, ordering: .releasing) }
                    var (index, reads) = (0, 0)
                    while index < keys.count {
                        _ = store.get(keys[index])
                        index = current.load(ordering: .relaxed)
                        reads += 1
                        // Where the system does not end a thread's turn, the writer may wait for this one's.
                        if reads.isMultiple(of: 64) { sched_yield() }
                    }
                    return
                }
                do {
                    defer { current.store(keys.count, ordering: .relaxed) }
                    for (index, key) in keys.enumerated() {
                        current.store(index, ordering: .relaxed)
                        if index.isMultiple(of: 16) { interruptOthers() }
                        for value in 1...2 { try store.set(key, value: value) }
                    }
                }
                while remaining.load(ordering: .acquiring) > 0 { interruptOthers() }
                for key in keys {
                    try expectEqual(
                        store.get(key), 2, "get(\(key.name)) after the last of two set calls beside readers")
                }
            }
            // A value that is replaced while a reader decodes it.
            let decoded = KVKey<CheckMeetingValue>("decoded")
            try store.set(decoded, value: CheckMeetingValue(number: 1))
            let meeting = CheckMeeting()
            try await racing(threads: 2) { thread in
                if thread == 0 {
                    _ = CheckMeetingValue.$meeting.withValue(meeting) { store.get(decoded) }
                } else {
                    meeting.wait(for: 1)
                    try store.set(decoded, value: CheckMeetingValue(number: 2))
                    meeting.arrive(waitingFor: 1)
                }
            }
            try expectEqual(
                store.get(decoded)?.number, 2, "get(decoded) after it was replaced while another get decoded it")
        },
        ConformanceCheck("long names that differ in one byte are different keys") { store in
            // In the first, the middle and the last bytes, and on both sides of powers of two.
            let places = [0, 1, 31, 32, 63, 64, 100, 127, 128, 150, 198, 199]
            let names = places.map { String(repeating: "x", count: $0) + "y" + String(repeating: "x", count: 199 - $0) }
            for (name, place) in zip(names, places) { try store.set(KVKey<Int>(name), value: place) }
            for (name, place) in zip(names, places) {
                try expectEqual(
                    store.get(KVKey<Int>(name)), place, "get of the name of 200 bytes with another one at \(place)")
            }
            // Many short ones: a store may compare hashes of a few bits, and then the bytes in parts.
            let short = (100..<400).flatMap { ["xxxxxxxx\($0)", "xxxxxxxx\($0)xxxxxxxx"] }
            for (number, name) in short.enumerated() { try store.set(KVKey<Int>(name), value: number) }
            for (number, name) in short.enumerated() {
                try expectEqual(store.get(KVKey<Int>(name)), number, "get(\(name)) beside \(short.count) such names")
            }
        },
    ]

    static let transactionalKeyValueThreads: [ConformanceCheck<any KVTransactionalStoring>] = [
        ConformanceCheck("a thread that has read an entry sees what another one writes") { store in
            let writes: [Write<any KVTransactionalStoring>] = [
                ("setRawValue([1], named: a)", { try $0.setRawValue([1], named: "a") }),
                ("commit that sets a to [2]", { try $0.batch { $0.append(.set(name: "a", bytes: [2])) } }),
                ("set(a, value: 3)", { try $0.set(KVKey<Int>("a"), value: 3) }),
                ("removeValue(named: a)", { try $0.removeValue(named: "a") }),
                ("setRawValue([4], named: a)", { try $0.setRawValue([4], named: "a") }),
                ("commit that removes a", { try $0.batch { $0.append(.remove(name: "a")) } }),
            ]
            try await checkReads(of: writes, in: store, "entry, rawValue and snapshot of a") {
                do {
                    let entry = try store.entry(named: "a")
                    let (bytes, snapshot) = (try store.rawValue(named: "a"), try store.snapshot()["a"])
                    return "\(entry.map { "\($0)" } ?? "nil"), \(bytes.map { "\($0)" } ?? "nil"), \(snapshot == entry)"
                } catch {
                    return "\(error)"
                }
            }
        },
        ConformanceCheck("a reader of one key after another sees a whole batch or nothing of it") { store in
            let names = ["first"] + (0..<16).map { "between \($0)" } + ["last"]
            @Sendable func commit(_ number: Int) throws {
                try store.batch { batch in for name in names { try batch.set(KVKey<Int>(name), value: number) } }
            }
            try commit(0)
            try await overlapping(writers: 1, readers: 1, overlaps: 24) { _, call in
                try commit(call + 1)
            } read: { _ in
                // A batch that is between both reads makes the second number greater.
                for (first, second) in [("first", "last"), ("last", "first")] {
                    let numbers = [first, second].map { store.get(KVKey<Int>($0)) ?? -1 }
                    // Making the text takes longer than a call, and would count as a part of it.
                    guard numbers[0] <= numbers[1] else {
                        throw ConformanceViolation(
                            "get(\(first)), then get(\(second)), beside batches that set both to one number: "
                                + "got \(numbers)")
                    }
                }
            }
        },
        ConformanceCheck("of concurrent removeIfPresent calls one returns true for each value") { store in
            let key = KVKey<Int>("a")
            let removed = Mutex(0)
            let created = try await competing(tasks: 3) {
                if try store.removeIfPresent(key) { removed.withLock { $0 += 1 } }
                return try store.createIfAbsent(key, value: 1)
            }
            let left = store.contains(key) ? 1 : 0
            try expectEqual(
                removed.withLock { $0 }, created - left,
                "how many calls of removeIfPresent(a) have returned true, after \(created) of createIfAbsent(a) have, "
                    + "where \(left) value is left")
        },
        ConformanceCheck("canonically equivalent names in one batch are different names") { store in
            let (composed, decomposed) = ("\u{E9}", "e\u{301}")
            try store.batch { batch in
                batch.require(composed, revision: nil)
                batch.require(decomposed, revision: nil)
                batch.append(.set(name: composed, bytes: [1]))
                batch.append(.set(name: decomposed, bytes: [2]))
            }
            let found = try [composed, decomposed].map { try store.rawValue(named: $0) }
            try expectEqual(
                found, [[1], [2]], "the raw values of U+00E9 and U+0065 U+0301 after a batch that sets both")
            try store.batch { batch in
                batch.append(.set(name: composed, bytes: [3]))
                batch.append(.remove(name: decomposed))
            }
            let left = try [composed, decomposed].map { try store.rawValue(named: $0) }
            try expectEqual(
                left, [[3], nil], "the raw values of U+00E9 and U+0065 U+0301 after a batch that removes the second")
        },
    ]

    /// Makes calls on this thread, and compares after each what this thread and another one read.
    private static func checkReads<Store: Sendable>(
        of writes: [Write<Store>], in store: Store, _ text: String, file: StaticString = #fileID, line: UInt = #line,
        _ read: @escaping @Sendable () -> String
    ) async throws {
        let thread = CheckThread()
        var before = await thread.call(read)
        for (call, body) in writes {
            try body(store)
            let (here, there) = (read(), await thread.call(read))
            try expectEqual(
                there, here, "\(text) on another thread, which had read \(before), after \(call)", file: file,
                line: line)
            before = there
        }
    }
}

/// A thread that makes one call after the other, until the object is released.
private final class CheckThread: Sendable {
    private final class Calls: Sendable {
        let next = Mutex<(@Sendable () -> Void)?>(nil)
        let isThere = DispatchSemaphore(value: 0)
    }

    private let calls = Calls()

    init() {
        let thread = Thread { [calls] in
            while true {
                calls.isThere.wait()
                let body = calls.next.withLock { next in
                    defer { next = nil }
                    return next
                }
                guard let body else { return }
                body()
            }
        }
        thread.start()
    }

    deinit { calls.isThere.signal() }

    func call<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            calls.next.withLock { $0 = { continuation.resume(returning: body()) } }
            calls.isThere.signal()
        }
    }
}
