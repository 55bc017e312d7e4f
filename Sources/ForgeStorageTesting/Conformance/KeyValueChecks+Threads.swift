import Dispatch
import ForgeKVStore
import Foundation
import Synchronization

extension ConformanceChecks {
    /// A call, by its text.
    private typealias Write<Store> = (call: String, body: (Store) throws -> Void)

    /// What a thread sees of the writes of another one, and how names are compared.
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
        ConformanceCheck("long names that differ in one byte are different keys") { store in
            // In the first, the middle and the last bytes, and on both sides of powers of two.
            let places = [0, 1, 31, 32, 63, 64, 100, 127, 128, 150, 198, 199]
            let names = places.map { String(repeating: "x", count: $0) + "y" + String(repeating: "x", count: 199 - $0) }
            for (name, place) in zip(names, places) { try store.set(KVKey<Int>(name), value: place) }
            for (name, place) in zip(names, places) {
                try expectEqual(
                    store.get(KVKey<Int>(name)), place, "get of the name of 200 bytes with another one at \(place)")
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
                    try expect(
                        numbers[0] <= numbers[1],
                        "get(\(first)), then get(\(second)), beside batches that set both to one number: got \(numbers)"
                    )
                }
            }
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
