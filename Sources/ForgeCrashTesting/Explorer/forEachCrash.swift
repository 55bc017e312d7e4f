public import ForgeFileSystem

/// Crashes a program at every moment, in every state that a profile allows, and recovers from each.
///
/// ```swift
/// try await forEachCrash { fileSystem, run in
///     let store = try Store(on: fileSystem)
///     try store.set("a", 1)
///     run.acknowledge("a")
/// } recover: { fileSystem, crash in
///     let store = try Store(on: fileSystem)
///     if crash.acknowledged.contains("a"), try store.get("a") != 1 { throw Lost() }
/// }
/// ```
///
/// - Parameters:
///   - profile: What crashes may do.
///   - limit: How many states are looked at; see ``CrashExplorer/limit``.
///   - seed: What everything random follows from.
///   - depth: How many crashes in a row: with 2 every recovery is crashed too.
///   - marking: What the program acknowledges.
///   - prepare: What was there before the program, durable.
///   - body: The program, deterministic. It may be synchronous or asynchronous.
///   - recover: Starts the program again on what a crash left and throws if a promise was broken.
/// - Returns: What was explored.
/// - Throws: ``CrashFailure`` if a state broke a promise, or what the program itself throws while nothing crashes.
@discardableResult
public nonisolated(nonsending) func forEachCrash<Mark: Sendable>(
    profile: CrashProfile = .posixStrict, limit: Int = 100_000, seed: UInt64 = 0, depth: Int = 2,
    marking: Mark.Type, prepare: @escaping CrashExplorer<Mark>.Prepare = { _ in },
    run body: @escaping CrashExplorer<Mark>.Body, recover: @escaping CrashExplorer<Mark>.Recover
) async throws -> CrashReport {
    let explorer = CrashExplorer(
        profile: profile, limit: limit, seed: seed, depth: depth, marking: marking, prepare: prepare, run: body,
        recover: recover)
    let report = try await explorer.explore()
    guard report.holds else { throw CrashFailure(report: report) }
    return report
}

/// Like `forEachCrash` above, for a program that marks its progress with strings.
///
/// - Parameters:
///   - profile: What crashes may do.
///   - limit: How many states are looked at; see ``CrashExplorer/limit``.
///   - seed: What everything random follows from.
///   - depth: How many crashes in a row.
///   - prepare: What was there before the program, durable.
///   - body: The program, deterministic. It may be synchronous or asynchronous.
///   - recover: Starts the program again on what a crash left and throws if a promise was broken.
/// - Returns: What was explored.
/// - Throws: ``CrashFailure`` if a state broke a promise, or what the program itself throws while nothing crashes.
@discardableResult
public nonisolated(nonsending) func forEachCrash(
    profile: CrashProfile = .posixStrict, limit: Int = 100_000, seed: UInt64 = 0, depth: Int = 2,
    prepare: @escaping CrashExplorer<String>.Prepare = { _ in },
    run body: @escaping CrashExplorer<String>.Body, recover: @escaping CrashExplorer<String>.Recover
) async throws -> CrashReport {
    try await forEachCrash(
        profile: profile, limit: limit, seed: seed, depth: depth, marking: String.self, prepare: prepare, run: body,
        recover: recover)
}

/// The same for a program that is a list of operations, each of which is acknowledged when `perform` returns: if it
/// fails, the fewest operations that fail are looked for.
///
/// - Parameters:
///   - operations: What the program does, in order. Any part of the list has to be a program too.
///   - profile: What crashes may do.
///   - limit: How many states are looked at; see ``CrashExplorer/limit``.
///   - seed: What everything random follows from.
///   - depth: How many crashes in a row.
///   - prepare: What was there before the program, durable.
///   - open: Makes what the operations are performed on.
///   - perform: Performs one operation.
///   - recover: Starts the program again on what a crash left and throws if a promise was broken.
/// - Returns: What was explored.
/// - Throws: ``CrashFailure`` with ``CrashReport/shrunkOperations``, or what the program itself throws.
@discardableResult
public nonisolated(nonsending) func forEachCrash<Operation: Sendable, Subject>(
    of operations: [Operation], profile: CrashProfile = .posixStrict, limit: Int = 100_000, seed: UInt64 = 0,
    depth: Int = 2, prepare: @escaping CrashExplorer<Operation>.Prepare = { _ in },
    open: nonisolated(nonsending) @escaping (InMemoryFileSystem) async throws -> Subject,
    perform: nonisolated(nonsending) @escaping (Operation, Subject) async throws -> Void,
    recover: @escaping CrashExplorer<Operation>.Recover
) async throws -> CrashReport {
    func explorer(_ operations: [Operation]) -> CrashExplorer<Operation> {
        CrashExplorer(
            profile: profile, limit: limit, seed: seed, depth: depth, marking: Operation.self, prepare: prepare,
            run: { fileSystem, run in
                let subject = try await open(fileSystem)
                for operation in operations {
                    run.begin(operation)
                    try await perform(operation, subject)
                    run.acknowledge(operation)
                }
            }, recover: recover)
    }
    var report = try await explorer(operations).explore()
    guard !report.holds else { return report }
    let fewest = await shrink(operations) { candidate in
        let smaller = explorer(candidate)
        var bounds = smaller.bounds
        bounds.stopsAtFirstViolation = true
        do {
            return await !smaller.explore(try await smaller.record(), profile, bounds).holds
        } catch {
            // What is no program without the others cannot be the shortest one.
            return false
        }
    }
    report.shrunkOperations = fewest.map { "\($0)" }
    throw CrashFailure(report: report)
}

/// Leaves out as many elements as possible while the rest still fails: halves first, single ones last.
nonisolated(nonsending) private func shrink<Element>(
    _ elements: [Element], _ fails: nonisolated(nonsending) ([Element]) async -> Bool
) async -> [Element] {
    var kept = elements
    var length = max(1, kept.count / 2)
    while true {
        var start = 0
        var hasShrunk = false
        while start < kept.count {
            var candidate = kept
            candidate.removeSubrange(start..<min(start + length, kept.count))
            if await fails(candidate) {
                kept = candidate
                hasShrunk = true
            } else {
                start += length
            }
        }
        if length > 1 {
            length /= 2
        } else if !hasShrunk {
            return kept
        }
    }
}
