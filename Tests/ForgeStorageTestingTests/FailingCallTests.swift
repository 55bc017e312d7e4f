import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("The loop over failing calls")
struct FailingCallTests {
    private static let file = URL(filePath: "/f")

    private static func start() throws -> any POSIXFileSystem { try memory { try $0.put("old", at: "/f") } }

    @Test("each call fails with each error number, once and for ever")
    func counts() throws {
        var seen: Set<String> = []
        let report = try forEachFailingCall(on: Self.start) { fileSystem in
            _ = try fileSystem.status("/f")
            _ = try fileSystem.status("/")
        } verify: { fileSystem, error in
            let failed = fileSystem.log.records.filter { !$0.faults.isEmpty }
            seen.insert(failed.map { "\($0.sequence) \($0.faults)" }.joined(separator: ","))
            #expect(fileSystem.plan.isArmed == false)
            #expect((error == nil) == failed.isEmpty)
        }
        // The second call's "once" and "for ever" look the same.
        #expect(report.description == "2 calls, 36 runs, 36 of them threw, 36 faults")
        #expect(seen.count == 1 + 2 * 9)
    }

    @Test("a body without calls, or a loop without failures, is an error")
    func refusesNothing() {
        let error = #expect(throws: NothingFailed.self) {
            try forEachFailingCall(on: Self.start) { _ in
            } verify: { _, _ in
            }
        }
        #expect(error?.description == "the body called nothing on the file system it was given")
        let noModes = #expect(throws: NothingFailed.self) {
            try forEachFailingCall(modes: [], on: Self.start) {
                try $0.put("new", at: "/f")
            } verify: { _, _ in
            }
        }
        #expect(noModes?.description == "no error numbers, no modes or no effects were given")
        #expect(throws: NothingFailed.self) {
            try forEachFailingCall(errnos: [], on: Self.start) {
                _ = try $0.status("/")
            } verify: { _, _ in
            }
        }
    }

    @Test("a body that fails without any fault is not run further")
    func failsByItself() {
        #expect(throws: FileSystemError.self) {
            try forEachFailingCall(on: Self.start) {
                _ = try $0.status("/none")
            } verify: { _, _ in
            }
        }
    }

    @Test("a file written in place is detected as torn")
    func findsTornFiles() throws {
        let failures = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(conditions: [], on: Self.start) { fileSystem in
                try fileSystem.put("new", at: "/f")
            } verify: { fileSystem, error in
                try expectOldOrNew(try fileSystem.text(at: "/f"), old: "old", new: "new", after: error)
            }
        }
        let first = try #require(failures?.failures.first)
        #expect(first.call?.description == "call 2 fails with EIO once")
        #expect(first.problem.hasPrefix("expected the old state old or the new one new after write"))
        #expect(first.transcript.contains("= EIO ! fail EIO"))
        #expect(failures?.count == 16)
        #expect(failures?.failures.count == 8)
        #expect(failures?.description.hasPrefix("16 runs failed, the first 8 being\ncall 2 fails") == true)
    }

    @Test("with a step some runs are skipped, and a file written in place is still detected as torn")
    func steps() throws {
        var failed: [String] = []
        let report = try forEachFailingCall(errnos: [.ioError], every: 3, on: Self.start) { fileSystem in
            for _ in 0..<4 { _ = try fileSystem.status("/f") }
        } verify: { fileSystem, _ in
            failed.append("\(fileSystem.log.records.count { $0.faults.isEmpty }) before \(fileSystem.plan.firedCount)")
        }
        #expect(report.callCount == 4 && report.runCount == 3)
        #expect(failed == ["4 before 0", "0 before 1", "1 before 1", "3 before 1"])
        let others = try forEachFailingCall(errnos: [.ioError], every: 3, from: 2, on: Self.start) { fileSystem in
            for _ in 0..<4 { _ = try fileSystem.status("/f") }
        } verify: { _, _ in
        }
        #expect(others.callCount == 4 && others.runCount == 2)
        let failures = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(errnos: [.ioError], conditions: [], every: 3, on: Self.start) { fileSystem in
                try fileSystem.put("new", at: "/f")
            } verify: { fileSystem, error in
                try expectOldOrNew(try fileSystem.text(at: "/f"), old: "old", new: "new", after: error)
            }
        }
        #expect(failures?.failures.map(\.call?.description) == ["call 2 fails with EIO for ever"])
    }

    @Test("a swallowed error is detected by the state")
    func findsSwallowedErrors() {
        #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(on: Self.start) { fileSystem in
                do { try fileSystem.write(Data("new".utf8), to: Self.file) } catch {}
            } verify: { fileSystem, error in
                try expectOldOrNew(try fileSystem.text(at: "/f"), old: "old", new: "new", after: error)
            }
        }
    }

    @Test("an unclosed descriptor is detected, in the body and in the verification")
    func findsLeaks() throws {
        let body = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(errnos: [.ioError], modes: [.once], on: Self.start) { fileSystem in
                let descriptor = try fileSystem.open("/f")
                _ = try fileSystem.status("/")
                try fileSystem.close(descriptor)
            } verify: { _, _ in
            }
        }
        #expect(body?.failures.map(\.problem) == ["the body left open: /f"])
        let verifying = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(errnos: [.ioError], modes: [.once], on: Self.start) { fileSystem in
                _ = try fileSystem.status("/f")
            } verify: { fileSystem, error in
                if error == nil { _ = try fileSystem.open("/f") }
            }
        }
        #expect(
            verifying?.failures.map(\.description).first?.hasPrefix("no call fails: verifying left open: /f") == true)
    }

    @Test("many leaks cost no wait each")
    func manyLeaks() {
        let clock = ContinuousClock()
        let start = clock.now
        let failures = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(conditions: [], on: Self.start) { fileSystem in
                let descriptor = try fileSystem.open("/f")
                for _ in 0..<3 { _ = try fileSystem.status("/") }
                try fileSystem.close(descriptor)
            } verify: { _, _ in
            }
        }
        #expect(failures?.count == 3 * 18)
        #expect(clock.now - start < .seconds(20), "with a second each: 54 seconds")
    }

    @Test("a writer that ignores the count of a short write is detected, and so is a reader")
    func findsShortTransfers() throws {
        func replace(_ fileSystem: FaultingFileSystem, loops: Bool) throws {
            let file = try fileSystem.open("/new", .writeOnly, options: [.create])
            try closing(file, of: fileSystem) {
                if loops {
                    try fileSystem.writeBytes(Array("new content".utf8), to: file, at: 0)
                } else {
                    _ = try Array("new content".utf8).withUnsafeBytes { try fileSystem.write(file, from: $0, at: 0) }
                }
                try fileSystem.synchronize(file, .full)
            }
            try fileSystem.rename("/new", to: "/f")
        }
        for loops in [true, false] {
            let failed = failedCalls {
                try forEachFailingCall(on: Self.start) { fileSystem in
                    try replace(fileSystem, loops: loops)
                } verify: { fileSystem, error in
                    try expectOldOrNew(try fileSystem.text(at: "/f"), old: "old", new: "new content", after: error)
                }
            }
            let short = ["call 2 transfers only 1 bytes", "call 2 transfers only 5 bytes"]
            let full = [1, 10].map { "the device is full after \($0) bytes, in call 2" }
            #expect(Set(failed) == Set(loops ? [] : short + full))
        }
        let failed = failedCalls {
            try forEachFailingCall(on: Self.start) { fileSystem in
                let file = try fileSystem.open("/f")
                try closing(file, of: fileSystem) {
                    var bytes = [UInt8](repeating: 0, count: 3)
                    _ = try bytes.withUnsafeMutableBytes { try fileSystem.read(file, into: $0, at: 0) }
                    guard bytes == Array("old".utf8) else { throw FileSystemError(.read, .illegalByteSequence) }
                }
            } verify: { _, error in
                if (error as? FileSystemError)?.errno == .illegalByteSequence {
                    throw ConformanceViolation("the reader took a part for the whole")
                }
            }
        }
        #expect(failed == ["call 2 transfers only 1 bytes"])
    }

    private func closing(_ file: Descriptor, of fileSystem: FaultingFileSystem, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            // The error of the body takes precedence.
            do { try fileSystem.close(file) } catch _ {}
            throw error
        }
        try fileSystem.close(file)
    }

    private func failedCalls(_ body: () throws -> FailingCallReport) -> [String] {
        do {
            _ = try body()
            return []
        } catch let error as FailingCallFailures {
            return error.failures.compactMap { $0.call?.description }
        } catch {
            return ["\(error)"]
        }
    }

    @Test("the failing call is described by its number, its fault and its mode")
    func descriptions() {
        func refuse(_ fileSystem: FaultingFileSystem, _ error: (any Error)?) throws {
            if error != nil { throw ConformanceViolation("it failed") }
        }
        let errors = failedCalls {
            try forEachFailingCall(errnos: [.ioError, .interrupted], effects: FaultEffect.allCases, on: Self.start) {
                _ = try $0.status("/f")
            } verify: {
                try refuse($0, $1)
            }
        }
        #expect(
            errors == [
                "call 1 fails with EIO once", "call 1 fails with EIO once, after its effect",
                "call 1 fails with EIO for ever", "call 1 fails with EIO for ever, after its effect",
                "call 1 fails with EINTR once", "call 1 fails with EINTR for ever",
            ])
        let flushes = failedCalls {
            try forEachFailingCall(errnos: [], conditions: [.failedFlush], on: Self.start) { fileSystem in
                let file = try fileSystem.open("/f", .writeOnly)
                try closing(file, of: fileSystem) { try fileSystem.synchronize(file, .full) }
            } verify: {
                try refuse($0, $1)
            }
        }
        #expect(flushes == ["call 2, a flush, fails, and its data stays undecided"])
    }

    @Test("an interruption for ever ends after 64 calls")
    func interruptions() throws {
        let report = try forEachFailingCall(errnos: [.interrupted], modes: [.forEver], on: Self.start) { fileSystem in
            while true {
                do throws(FileSystemError) {
                    _ = try fileSystem.status("/f")
                    return
                } catch {
                    guard error.errno == .interrupted else { throw error }
                }
            }
        } verify: { _, _ in
        }
        #expect(report.description == "1 calls, 1 runs, 0 of them threw, 64 faults")
    }

    @Test("the device fills up at each boundary of each write, and each flush fails once")
    func conditions() throws {
        var actions: [FaultAction] = []
        let report = try forEachFailingCall(errnos: [], on: Self.start) { fileSystem in
            let file = try fileSystem.open("/f", .readWrite)
            try fileSystem.closing(file) { () throws(FileSystemError) in
                try fileSystem.writeBytes([UInt8](repeating: 1, count: 10), to: file)
                do { try fileSystem.synchronize(file, .full) } catch { try fileSystem.synchronize(file, .full) }
                for count in [2, 3, 1] { try fileSystem.writeBytes([UInt8](repeating: 2, count: count), to: file) }
            }
        } verify: { fileSystem, _ in
            actions += fileSystem.plan.rules.map(\.action)
        }
        #expect(report.runCount == 0 && report.conditionRunCount == actions.count)
        let full = actions.filter { if case .fillUp = $0 { true } else { false } }
        #expect(full == [0, 1, 9, 10, 11, 12, 13, 14, 15].map { .fillUp(afterBytes: $0) })
        #expect(actions.filter { $0 == .failSynchronization() }.count == 1)
        let shortened = actions.filter { if case .shorten = $0 { true } else { false } }
        #expect(shortened == [1, 5, 1, 1].map { .shorten(toBytes: $0) })
    }

    @Test("a retry without an end is stopped and named")
    func endlessRetry() throws {
        let failures = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(errnos: [.ioError], conditions: [], on: Self.start) { fileSystem in
                while true {
                    do {
                        _ = try fileSystem.status("/f")
                        return
                    } catch {}
                }
            } verify: { _, _ in
            }
        }
        #expect(failures?.count == 1)
        let problem = try #require(failures?.failures.first?.problem)
        #expect(problem.hasPrefix("the body retries endlessly: after 2020 calls, where 1 suffice"))
        #expect(problem.contains("it called status /f"))
    }

    @Test("a body with different calls in each run is detected")
    func findsChance() {
        var run = 0
        let error = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(errnos: [.ioError], modes: [.once], on: Self.start) { fileSystem in
                run += 1
                if run == 1 { _ = try fileSystem.status("/f") }
            } verify: { _, _ in
            }
        }
        #expect(error?.failures.first?.problem.contains("was never made") == true)
    }

    @Test("an asynchronous body runs the same way")
    func asynchronous() async throws {
        let report = try await forEachFailingCall(on: Self.start) { fileSystem in
            await Task.yield()
            try fileSystem.write(Data("new".utf8), to: Self.file)
        } verify: { fileSystem, error in
            await Task.yield()
            try expectOldOrNew(try fileSystem.text(at: "/f"), old: "old", new: "new", after: error)
        }
        #expect(report.runCount == report.callCount * 18)
        await #expect(throws: FileSystemError.self) {
            try await forEachFailingCall(on: Self.start) { fileSystem in
                await Task.yield()
                _ = try fileSystem.status("/none")
            } verify: { _, _ in
                await Task.yield()
            }
        }
    }

    /// Fails each call of a store that replaces a value and compacts; `verify` receives the log of the calls.
    private static func failCalls(verify: (OperationLog) throws -> Void) throws {
        let key = KVKey<String>("a")
        var log = OperationLog()
        try forEachFailingCall(errnos: [.ioError], modes: [.forEver], conditions: []) {
            InMemoryFileSystem()
        } open: { fileSystem in
            log = fileSystem.log
            return try FileKVStore(at: "/store", fileSystem: fileSystem)
        } prepare: { store in
            try store.set(key, value: "old")
        } change: { store in
            try store.set(key, value: "new")
            try store.compact()
        } verify: { _, _ in
            try verify(log)
        }
    }

    @Test("what a key-value store logs is part of the message of a failed run")
    func messages() throws {
        let failures = #expect(throws: FailingCallFailures.self) {
            try Self.failCalls { log in
                if !log.messages.isEmpty { throw ConformanceViolation("it logs") }
            }
        }
        let transcripts = try #require(failures?.failures.map(\.transcript))
        #expect(transcripts.allSatisfy { $0.contains("\nerror: ") || $0.contains("\nwarning: ") }, "\(transcripts)")
    }

    @Test("a key-value store whose calls fail prints nothing")
    func silence() async {
        let result = await #expect(
            processExitsWith: .success, observing: [\.standardErrorContent, \.standardOutputContent]
        ) {
            try FailingCallTests.failCalls { _ in }
        }
        for content in [result?.standardErrorContent, result?.standardOutputContent] {
            #expect(String(decoding: content ?? [], as: UTF8.self) == "")
        }
    }

    /// A deliberately careless store.
    private struct CarelessStore {
        let fileSystem: any POSIXFileSystem

        func save(_ text: String) throws {
            try fileSystem.put(text, at: "/#tmp-aaaaaaaaaaaaaaaa")
            try fileSystem.rename("/#tmp-aaaaaaaaaaaaaaaa", to: "/f")
        }
    }

    @Test("a store that never removes temporary files is detected")
    func findsLeftovers() throws {
        let error = #expect(throws: FailingCallFailures.self) {
            try forEachFailingCall(
                errnos: [.ioError], modes: [.once], on: { InMemoryFileSystem() },
                open: { CarelessStore(fileSystem: $0) }, prepare: { try $0.save("old") },
                change: { try $0.save("new") },
                verify: { store, error in
                    try expectOldOrNew(try store.fileSystem.text(at: "/f"), old: "old", new: "new", after: error)
                })
        }
        #expect(error?.failures.first?.problem.hasPrefix("not swept: /#tmp-aaaaaaaaaaaaaaaa (") ?? false)
    }

    @Test("an asynchronous store that never removes temporary files is detected")
    func findsLeftoversOfAsynchronousStores() async throws {
        let error = await #expect(throws: FailingCallFailures.self) {
            try await forEachFailingCall(errnos: [.ioError], modes: [.once], on: { InMemoryFileSystem() }) {
                fileSystem in
                await Task.yield()
                return CarelessStore(fileSystem: fileSystem)
            } prepare: { store in
                await Task.yield()
                try store.save("old")
            } change: { store in
                await Task.yield()
                try store.save("new")
            } verify: { _, _ in
                await Task.yield()
            }
        }
        #expect(error?.failures.first?.problem.hasPrefix("not swept: /#tmp-aaaaaaaaaaaaaaaa (") ?? false)
    }

    @Test("an asynchronous store is opened, changed and reopened")
    func asynchronousStore() async throws {
        let report = try await forEachFailingCall(errnos: FailingCall.testedErrnos, on: { InMemoryFileSystem() }) {
            fileSystem in
            await Task.yield()
            return try StoreDirectory("/store", on: fileSystem)
        } prepare: { store in
            await Task.yield()
            try store.makeDirectory(try RelativeKey("a"))
        } change: { store in
            await Task.yield()
            try store.removeTree(try RelativeKey("a"))
        } verify: { store, error in
            await Task.yield()
            try expectOldOrNew(try store.list(nil, isRecursive: true).count, old: 1, new: 0, after: error)
        }
        #expect(report.runCount == report.callCount * 2 * FailingCall.testedErrnos.count)
    }
}
