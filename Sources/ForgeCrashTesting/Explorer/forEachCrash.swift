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
///   - profile: The permitted effects of crashes.
///   - limit: The number of states to visit; see ``CrashExplorer/limit``.
///   - seed: The seed of all randomness.
///   - depth: The number of consecutive crashes: with 2, every recovery is crashed too.
///   - marking: The type of the marks that the program acknowledges.
///   - prepare: Creates the initial state, which is durable.
///   - body: The program, deterministic. It may be synchronous or asynchronous.
///   - recover: Restarts the program on the state after a crash and throws if a promise was violated.
/// - Returns: The report.
/// - Throws: ``CrashFailure`` if a state violated a promise, or the error of the program without a crash.
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
///   - profile: The permitted effects of crashes.
///   - limit: The number of states to visit; see ``CrashExplorer/limit``.
///   - seed: The seed of all randomness.
///   - depth: The number of consecutive crashes.
///   - prepare: Creates the initial state, which is durable.
///   - body: The program, deterministic. It may be synchronous or asynchronous.
///   - recover: Restarts the program on the state after a crash and throws if a promise was violated.
/// - Returns: The report.
/// - Throws: ``CrashFailure`` if a state violated a promise, or the error of the program without a crash.
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

/// Crashes a program that is a list of operations, each acknowledged when `perform` returns; if it fails, shrinks the
/// list to the fewest operations that still fail.
///
/// - Parameters:
///   - operations: The operations of the program, in order. Any part of the list must be a valid program.
///   - profile: The permitted effects of crashes.
///   - limit: The number of states to visit; see ``CrashExplorer/limit``.
///   - seed: The seed of all randomness.
///   - depth: The number of consecutive crashes.
///   - prepare: Creates the initial state, which is durable.
///   - open: Creates the object that operations are performed on.
///   - perform: Performs one operation.
///   - recover: Restarts the program on the state after a crash and throws if a promise was violated.
/// - Returns: The report.
/// - Throws: ``CrashFailure`` with ``CrashReport/shrunkOperations``, or the error of the program without a crash.
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
            // A list that is not a valid program does not count as failing.
            return false
        }
    }
    report.shrunkOperations = fewest.map { "\($0)" }
    throw CrashFailure(report: report)
}

/// Removes as many elements as possible while the rest still fails: halves first, single ones last.
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
