public import ForgeFileSystem
public import SystemPackage

/// Runs `body` once for each of its file-system calls, error number and mode, with that call failing, and verifies the
/// result of each run.
///
/// ```swift
/// try forEachFailingCall(on: { InMemoryFileSystem() }) { fileSystem in
///     try fileSystem.write(Data("new".utf8), to: file)
/// } verify: { fileSystem, error in
///     // whole, and new unless there was an error
/// }
/// ```
///
/// Further runs shorten a transfer, fill the device, or fail a flush (``FailingCall/Condition``).
///
/// The first run has no failures; it counts the calls, must not throw, and is verified too. Each run has a new file
/// system. Descriptors still open after `body` count as leaks. A body that retries without an end is reported: after
/// many more calls than it needs, the fault is lifted.
///
/// - Parameters:
///   - errnos: The error numbers; ``FailingCall/errnos`` by default.
///   - modes: Whether only the call fails, or all later ones too.
///   - effects: Whether a failing call takes effect; by default it does not.
///   - conditions: What a disk does beyond failing with an error number; all by default.
///   - step: The distance between the runs that are made, in the order of calls, error numbers, modes and effects, and
///     then of calls and conditions; 1 makes all of them.
///   - start: The first run that is made, counted from 0. Tests that begin with the same calls cover all of them if
///     they start at different runs.
///   - makeFileSystem: Makes a file system in the initial state.
///   - body: The code under test. It must make the same calls in every run until one fails.
///   - verify: Checks the file system, with faults disarmed; `error` is the error of `body`.
/// - Returns: A report of the runs.
/// - Throws: ``FailingCallFailures`` with the failed runs, ``NothingFailed`` if `body` makes no calls, or the error of
///   `makeFileSystem`, or of `body` in the first run.
@discardableResult
public func forEachFailingCall(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], conditions: [FailingCall.Condition] = FailingCall.Condition.allCases,
    every step: Int = 1, from start: Int = 0,
    on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void,
    verify: (_ fileSystem: FaultingFileSystem, _ error: (any Error)?) throws -> Void
) throws -> FailingCallReport {
    var tally = FailingCallTally(errnos, modes, effects, conditions, every: step, from: start)
    func run(_ call: FailingCall?) throws {
        let fileSystem = FaultingFileSystem(try makeFileSystem(), plan: tally.plan(call))
        var failure: (any Error)?
        do {
            try body(fileSystem)
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        tally.wait(for: fileSystem)
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do { try verify(fileSystem, failure) } catch { violation = error }
        tally.wait(for: fileSystem)
        tally.verified(call, on: fileSystem, violation)
    }
    try run(nil)
    for call in try tally.calls { try run(call) }
    return try tally.result()
}

/// Fails every call of an asynchronous body in turn.
@discardableResult
nonisolated(nonsending) public func forEachFailingCall(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], conditions: [FailingCall.Condition] = FailingCall.Condition.allCases,
    every step: Int = 1, from start: Int = 0,
    on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: nonisolated(nonsending) (FaultingFileSystem) async throws -> Void,
    verify: nonisolated(nonsending) (_ fileSystem: FaultingFileSystem, _ error: (any Error)?) async throws -> Void
) async throws -> FailingCallReport {
    var tally = FailingCallTally(errnos, modes, effects, conditions, every: step, from: start)
    var calls: [FailingCall?] = [nil]
    while let call = calls.popLast() {
        let fileSystem = FaultingFileSystem(try makeFileSystem(), plan: tally.plan(call))
        var failure: (any Error)?
        do {
            try await body(fileSystem)
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        await tally.settle(fileSystem)
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do { try await verify(fileSystem, failure) } catch { violation = error }
        await tally.settle(fileSystem)
        tally.verified(call, on: fileSystem, violation)
        if call == nil { calls = try tally.calls.reversed() }
    }
    return try tally.result()
}
