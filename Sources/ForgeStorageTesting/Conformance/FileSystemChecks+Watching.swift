import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
import SystemPackage

extension ConformanceChecks {
    /// The promises of watches of directories; the subject names their limits.
    ///
    /// A system that reports changes without names, as Darwin does, passes with `DirectoryEvent.lost`
    /// in the place of every event.
    public static let fileSystemWatching: [ConformanceCheck<FileSystemUnderTest>] =
        watching.map { $0.needing(.directoryWatches) } + watchLimits.map { $0.needing(.watchLimits) }

    private static let watching: [FileSystemCheck] = [
        watches("names that appear and disappear are reported in the order of the changes") { tree, watch in
            let directory = try watch.watch("d")
            try tree.create("d/a")
            try tree.makeDirectory("d/b")
            try tree.makeLink("d/c", to: "a")
            try tree.fileSystem.link(tree("f"), to: tree("d/f"))
            try tree.fileSystem.rename(tree("d/a"), to: tree("d/x"))
            try tree.fileSystem.rename(tree("d/x"), to: tree("d/c"))
            try tree.fileSystem.rename(tree("d/f"), to: tree("e/f"))
            try tree.fileSystem.rename(tree("e/f"), to: tree("d/g"))
            try tree.fileSystem.unlink(tree("d/c"))
            try tree.fileSystem.removeDirectory(tree("d/b"))
            try tree.create("d/g", "an existing file")
            try watch.expect([
                .added("a", in: directory), .added("b", in: directory), .added("c", in: directory),
                .added("f", in: directory), .removed("a", in: directory), .added("x", in: directory),
                .removed("x", in: directory), .added("c", in: directory), .removed("f", in: directory),
                .added("g", in: directory), .removed("c", in: directory), .removed("b", in: directory),
            ])
        },
        watches("an exchange is reported as both names going and coming") { tree, watch in
            let (directory, other) = (try watch.watch("d"), try watch.watch("e"))
            try tree.create("e/x")
            try tree.fileSystem.rename(tree("d/s"), to: tree("e/x"), .exchanging)
            try watch.expect(
                [
                    .added("x", in: other), .removed("s", in: directory), .added("x", in: other),
                    .removed("x", in: other), .added("s", in: directory),
                ], isOrdered: false)
        },
        watches("a watch has the entries of its directories, on one level and under any path") { tree, watch in
            let (directory, other) = (try watch.watch("d"), try watch.watch("empty"))
            try expect(directory != other, "watch(d) and watch(empty): expected two numbers, got \(other)")
            try tree.create("d/s/below")
            try tree.create("e/elsewhere")
            try tree.create("top")
            try tree.create("empty/x")
            try tree.fileSystem.rename(tree("d"), to: tree("e/d"))
            try tree.create("e/d/y")
            try watch.expect([.added("x", in: other), .added("y", in: directory)])
        },
        watches("the close of a file that was open for writing is reported where it is asked for") { tree, watch in
            let (directory, other) = (try watch.watch("d", includesWrites: true), try watch.watch("e"))
            try tree.create("d/a", "1")
            try tree.create("e/a", "1")
            try tree.opening(tree("d/a"), .writeOnly) { descriptor in
                let second = try tree.fileSystem.duplicate(descriptor)
                try tree.write(descriptor, "2")
                try tree.fileSystem.close(second)
                try tree.create("d/marker")
            }
            try tree.open("d/a", .readOnly)
            try watch.expect([
                .added("a", in: directory), .written("a", in: directory), .added("a", in: other),
                .added("marker", in: directory), .written("marker", in: directory), .written("a", in: directory),
            ])
        },
        watches("a file with several names is reported as written under the name by which it was opened") {
            tree, watch in
            let directories = [
                ("d", try watch.watch("d", includesWrites: true)), ("e", try watch.watch("e", includesWrites: true)),
            ]
            try tree.create("d/a")
            let names = ["d/b", "e/a", "e/b", "d/s/a"]
            for name in names { try tree.fileSystem.link(tree("d/a"), to: tree(name)) }
            _ = try watch.events()
            for name in ["d/a"] + names.dropLast() {
                try tree.open(name, .writeOnly)
                guard let number = directories.first(where: { name.hasPrefix($0.0) })?.1 else { continue }
                let found = try watch.events()
                let expected = DirectoryEvent.written(POSIXPath(String(name.dropFirst(2))), in: number)
                try expect(
                    found.contains(expected) || found.contains(.lost),
                    "after \(name) was opened for writing and closed: expected \(expected), got \(found)")
            }
            try tree.fileSystem.unlink(tree("d/a"))
            try tree.open("d/b", .writeOnly)
            let (found, removed) = (try watch.events(), DirectoryEvent.written("a", in: directories[0].1))
            try expect(!found.contains(removed), "after a was removed and b written: got \(removed)")
        },
        watches("a directory that is watched again has the same number, and the last request counts") { tree, watch in
            let first = try watch.watch("d")
            try expectEqual(try watch.watch("sd/.", includesWrites: true), first, "the number of a second watch(d)")
            try tree.create("d/a")
            try watch.expect([.added("a", in: first), .written("a", in: first)])
            try expectEqual(try watch.watch("d"), first, "the number of a third watch(d)")
            try tree.create("d/b")
            try watch.expect([.added("b", in: first)])
        },
        watches("a directory is not reported after unwatch, other directories are") { tree, watch in
            let (directory, other) = (try watch.watch("d"), try watch.watch("e"))
            watch.unwatch(directory)
            watch.unwatch(directory)
            try tree.create("d/a")
            try tree.create("e/a")
            try watch.expect([.added("a", in: other)])
            let again = try watch.watch("d")
            try expect(again != other, "watch(d) after unwatch: expected another number than that of e, \(other)")
            try tree.create("d/b")
            try watch.expect([.added("b", in: again)])
        },
        watches("the watch of a directory ends with its removal, and its number is not used again") { tree, watch in
            let (old, other) = (try watch.watch("e"), try watch.watch("d"))
            try tree.fileSystem.removeDirectory(tree("e"))
            try tree.makeDirectory("e")
            try tree.create("e/a")
            try tree.create("d/a")
            try watch.expect([.added("a", in: other)])
            let new = try watch.watch("e")
            try expect(
                ![old, other].contains(new), "watch(e) of a new directory: got the number of an earlier one, \(new)")
            try tree.create("e/b")
            try watch.expect([.added("b", in: new)])
        },
        watches("a cancelled watch reports nothing more, and says so once") { tree, watch in
            _ = try watch.watch("d")
            watch.watch.cancel()
            watch.watch.cancel()
            try watch.waitForCancellation()
            try tree.create("d/a")
            watch.drain()
            try expectEqual(watch.received, [], "events after cancel()")
            try expectEqual(watch.cancellationCount, 1, "the number of calls of onCancel after two of cancel()")
        },
        watches("two watches of one directory have the same events") { tree, watch in
            let other = try WatchUnderTest(tree)
            defer { other.watch.cancel() }
            let numbers = (try watch.watch("d"), try other.watch("d"))
            try tree.create("d/a")
            try watch.expect([.added("a", in: numbers.0)])
            watch.watch.cancel()
            try tree.create("d/b")
            try other.expect([.added("a", in: numbers.1), .added("b", in: numbers.1)])
        },
        holds("the end of a process ends its watches") { tree in
            let (other, end) = try startProcess(tree)
            let watch = try WatchUnderTest(tree.seen(through: other))
            defer { watch.watch.cancel() }
            _ = try watch.watch("d")
            end()
            try tree.create("d/a")
            watch.drain()
            try expectEqual(watch.received, [], "events after the end of the process")
        }.needing(.processes),
        watches("a file and an invalid descriptor are not watched") { tree, watch in
            try tree.opening(tree("f"), .readOnly) { file in
                try tree.expectErrno(.notDirectory, "watch(f)") { _ = try watch.watch(file, includesWrites: false) }
            }
            try tree.expectErrno(.badFileDescriptor, "watch(1999999)") {
                _ = try watch.watch(Descriptor(rawValue: 1_999_999), includesWrites: false)
            }
        },
    ]

    private static let watchLimits: [FileSystemCheck] = [
        watches("no more directories are watched than the limit, until one is free") { tree, watch in
            let limit = tree.subject.maximumWatchCount ?? 0
            var numbers: [Int] = []
            for number in 0..<limit {
                try tree.makeDirectory("w\(number)")
                numbers.append(try watch.watch("w\(number)"))
            }
            try expectEqual(Set(numbers).count, limit, "different numbers of watches")
            try tree.expectErrno(.noSpace, "watch(d) after \(limit) directories") { _ = try watch.watch("d") }
            try expectEqual(try watch.watch("w0"), numbers[0], "watch(w0), which is watched, at the limit")
            watch.unwatch(numbers[1])
            _ = try watch.watch("d")
            try tree.expectErrno(.noSpace, "watch(e) at the limit again") { _ = try watch.watch("e") }
            try tree.fileSystem.removeDirectory(tree("w2"))
            _ = try watch.watch("e")
            let other = try WatchUnderTest(tree)
            defer { other.watch.cancel() }
            try tree.expectErrno(.noSpace, "watch(empty) of another watch") { _ = try other.watch("empty") }
            watch.watch.cancel()
            try watch.waitForCancellation()
            _ = try other.watch("empty")
        },
        watches("events above the limit are lost, which is reported, and later ones are reported again") {
            tree, watch in
            let limit = tree.subject.maximumQueuedEventCount ?? 0
            let directory = try watch.watch("d")
            try watch.whileSuspended {
                for number in 0..<limit + 2 { try tree.create("d/\(number)") }
            }
            let found = try watch.events()
            try expectEqual(found.last, .lost, "the last of \(limit + 2) events that were not taken")
            try expectEqual(
                Array(found.prefix(limit)), (0..<limit).map { .added(POSIXPath("\($0)"), in: directory) },
                "the events before those that were lost")
            try expectEqual(found.count, limit + 1, "the number of events, with one for those that were lost")
            try tree.create("d/later")
            try watch.expect([.added("later", in: directory)])
        },
    ]

    private static func watches(
        _ description: String, _ body: @escaping @Sendable (FileSystemFixture, WatchUnderTest) throws -> Void
    ) -> FileSystemCheck {
        holds(description) { tree in
            let watch = try WatchUnderTest(tree)
            defer { watch.watch.cancel() }
            try body(tree, watch)
        }
    }
}

extension ConformanceChecks {
    /// The promises of the signals of files.
    public static let fileSystemSignals: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a signal of a file reaches every observer of the file until it is cancelled, under each name") { tree in
            try tree.opening(tree("f"), .readWrite) { file in
                try tree.create("other")
                try tree.fileSystem.link(tree("f"), to: tree("g"))
                let signals = try ["f", "g", "other"].map { name in
                    try tree.opening(tree(name), .readWrite) { try expectSignal(of: $0, name, in: tree.fileSystem) }
                }
                let counts = signals.map { _ in CallCount() }
                let observations = try zip(signals, counts).map { signal, count in
                    try signal.observe {
                        count.increment()
                        return nil
                    }
                }
                for count in counts { try count.wait(for: 1, "calls of an observer without a signal") }
                signals[1].send()
                for count in counts.prefix(2) { try count.wait(for: 2, "calls of an observer after one signal") }
                observations[0].cancel()
                let before = counts[0].value
                signals[0].send()
                try counts[1].wait(for: 3, "calls of an observer after two signals")
                try expectEqual(counts[0].value, before, "calls of an observer after cancel() and a signal")
                withExtendedLifetime((observations, file)) {}
            }
        },
        holds("an observer of a signal is called again after the time that it returns") { tree in
            try tree.opening(tree("f"), .readWrite) { file in
                let signal = try expectSignal(of: file, "f", in: tree.fileSystem)
                let count = CallCount()
                let observation = try signal.observe {
                    count.increment()
                    return count.value < 3 ? .milliseconds(1) : nil
                }
                try count.wait(for: 3, "calls of an observer that returns 1 ms, without a signal")
                withExtendedLifetime(observation) {}
            }
        },
        holds("the end of a process ends its observers of a signal, and no others") { tree in
            let (other, end) = try startProcess(tree)
            let counts = [CallCount(), CallCount()]
            let fileSystems = [tree.fileSystem, other]
            let observations = try zip(fileSystems, counts).map { fileSystem, count in
                try tree.seen(through: fileSystem).opening(tree("f"), .readWrite) { file in
                    let signal = try expectSignal(of: file, "f", in: fileSystem)
                    let observation = try signal.observe {
                        count.increment()
                        return nil
                    }
                    return (signal, observation)
                }
            }
            for count in counts { try count.wait(for: 1, "calls of an observer without a signal") }
            end()
            observations[0].0.send()
            try counts[0].wait(for: 2, "calls of an observer after the end of another process and a signal")
            try expectEqual(counts[1].value, 1, "calls of the observer of a process that has ended, after a signal")
            withExtendedLifetime(observations) {}
        }.needing(.processes),
        refuses("an invalid descriptor has no signal", .badFileDescriptor) { tree in
            _ = try tree.fileSystem.makeSignal(of: Descriptor(rawValue: 1_999_999))
        },
    ].map { $0.needing(.signals) }

    private static func expectSignal(
        of file: Descriptor, _ name: String, in fileSystem: any POSIXFileSystem
    ) throws -> any FileSignal {
        guard let signal = try fileSystem.makeSignal(of: file) else {
            throw ConformanceViolation("makeSignal(of: \(name)): expected a signal, got nil")
        }
        return signal
    }
}

/// A watch, and the events that it has reported.
private final class WatchUnderTest: Sendable {
    private struct State {
        var events: [DirectoryEvent] = []
        var cancellationCount = 0
    }

    /// The state that the handlers share with this object.
    private final class Reports: Sendable {
        let state = Mutex(State())
        let changed = DispatchSemaphore(value: 0)
    }

    let watch: any DirectoryWatching
    private let tree: FileSystemFixture
    private let queue: DispatchQueue
    private let reports: Reports

    init(_ tree: FileSystemFixture) throws {
        let (queue, reports) = (DispatchQueue(label: "ConformanceCheck.watch"), Reports())
        watch = try tree.fileSystem.makeDirectoryWatch(on: queue) { events in
            reports.state.withLock { $0.events += events }
            reports.changed.signal()
        } onCancel: {
            reports.state.withLock { $0.cancellationCount += 1 }
            reports.changed.signal()
        }
        (self.tree, self.queue, self.reports) = (tree, queue, reports)
    }

    var received: [DirectoryEvent] { reports.state.withLock { $0.events } }
    var cancellationCount: Int { reports.state.withLock { $0.cancellationCount } }

    func watch(_ name: String, includesWrites: Bool = false) throws -> Int {
        try tree.opening(tree(name), .readOnly, [.directory]) { try watch($0, includesWrites: includesWrites) }
    }

    func watch(_ directory: Descriptor, includesWrites: Bool) throws -> Int {
        try queue.sync { try watch.watch(directory, includesWrites: includesWrites) }
    }

    func unwatch(_ number: Int) { queue.sync { watch.unwatch(number) } }

    /// Waits for what is on its way to the handlers.
    func drain() { queue.sync {} }

    /// Calls `body` while no event can be delivered.
    func whileSuspended(_ body: () throws -> Void) rethrows {
        queue.suspend()
        defer { queue.resume() }
        try body()
    }

    /// Takes the events of all earlier changes; without those after a loss.
    func events() throws -> [DirectoryEvent] {
        // The event of a later change follows them.
        try tree.makeDirectory("marker")
        let number = try watch("marker")
        try tree.create("marker/x")
        try wait("events") { $0.events.contains { $0 == .lost || $0 == .added("x", in: number) } }
        unwatch(number)
        try tree.fileSystem.unlink(tree("marker/x"))
        try tree.fileSystem.removeDirectory(tree("marker"))
        drain()
        return reports.state.withLock { state in
            defer { state.events = [] }
            return state.events.filter { $0 != .added("x", in: number) && $0 != .removed("x", in: number) }
        }
    }

    /// Expects exactly these events of the changes since the last call, or a loss.
    func expect(
        _ expected: [DirectoryEvent], isOrdered: Bool = true, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let found = try events()
        let isEqual =
            isOrdered
            ? found == expected : found.count == expected.count && Set(found).isSuperset(of: expected)
        guard isEqual || found.contains(.lost) else {
            throw ConformanceViolation("the events: expected \(expected), got \(found)", file: file, line: line)
        }
    }

    func waitForCancellation() throws { try wait("onCancel") { $0.cancellationCount > 0 } }

    private func wait(_ what: String, for condition: (State) -> Bool) throws {
        while !reports.state.withLock({ condition($0) }) {
            guard reports.changed.wait(timeout: .now() + .seconds(10)) == .success else {
                throw ConformanceViolation("\(what): none for 10 s, after \(received)")
            }
        }
    }
}

/// The number of calls of a closure, for which a check can wait.
private final class CallCount: Sendable {
    private let count = Mutex(0)
    private let increased = DispatchSemaphore(value: 0)

    var value: Int { count.withLock { $0 } }

    func increment() {
        count.withLock { $0 += 1 }
        increased.signal()
    }

    func wait(
        for expected: Int, _ what: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        while value < expected {
            guard increased.wait(timeout: .now() + .seconds(10)) == .success else {
                throw ConformanceViolation(
                    "\(what): expected \(expected), got \(value) in 10 s", file: file, line: line)
            }
        }
    }
}
