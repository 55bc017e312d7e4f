public import ForgeFileSystem
import Foundation
public import SystemPackage

/// Runs `body` once for each of its calls to the file system, with that call failing, for each error number, once and for
/// ever, and verifies after each run that nothing was harmed.
///
/// ```swift
/// try forEachFailingCall(on: { InMemoryFileSystem() }) { fileSystem in
///     try fileSystem.write(Data("new".utf8), to: file)
/// } verify: { fileSystem, error in
///     // whole, and new unless there was an error
/// }
/// ```
///
/// The first run has no failures, counts the calls and is verified too; `body` must not throw in it. Each run has a file
/// system of its own. Descriptors that the body leaves open are an error; what it keeps open on purpose it has to let go
/// before it returns.
///
/// - Parameters:
///   - errnos: The error numbers; by default the nine of ``FailingCall/errnos``.
///   - modes: Whether the call fails once, or all from it on.
///   - effects: Whether what fails has its effect; by default it has not.
///   - makeFileSystem: Makes a file system in the state that `body` starts from.
///   - body: What is tried. It has to make the same calls in every run for as long as none fails.
///   - verify: Looks at the file system, whose faults are switched off by then, and throws if anything is wrong with it;
///     `error` is what `body` threw.
/// - Returns: What was tried.
/// - Throws: ``FailingCallFailures`` with the runs that ended badly, ``NothingFailed`` if there was nothing to fail, or
///   what `makeFileSystem`, or `body` in the first run, threw.
@discardableResult
public func forEachFailingCall(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void,
    verify: (_ fileSystem: FaultingFileSystem, _ error: (any Error)?) throws -> Void
) throws -> FailingCallReport {
    var tally = FailingCallTally(errnos, modes, effects)
    func run(_ call: FailingCall?) throws {
        let fileSystem = FaultingFileSystem(try makeFileSystem(), plan: FaultPlan(call.map { [$0.rule] } ?? []))
        var failure: (any Error)?
        do {
            try body(fileSystem)
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        fileSystem.waitForOthers()
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do { try verify(fileSystem, failure) } catch { violation = error }
        fileSystem.waitForOthers()
        tally.verified(call, on: fileSystem, violation)
    }
    try run(nil)
    for call in try tally.calls { try run(call) }
    return try tally.result()
}

/// The same for a body that is asynchronous.
@discardableResult
nonisolated(nonsending) public func forEachFailingCall(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: nonisolated(nonsending) (FaultingFileSystem) async throws -> Void,
    verify: nonisolated(nonsending) (_ fileSystem: FaultingFileSystem, _ error: (any Error)?) async throws -> Void
) async throws -> FailingCallReport {
    var tally = FailingCallTally(errnos, modes, effects)
    var calls: [FailingCall?] = [nil]
    while let call = calls.popLast() {
        let fileSystem = FaultingFileSystem(try makeFileSystem(), plan: FaultPlan(call.map { [$0.rule] } ?? []))
        var failure: (any Error)?
        do {
            try await body(fileSystem)
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        await fileSystem.settle()
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do { try await verify(fileSystem, failure) } catch { violation = error }
        await fileSystem.settle()
        tally.verified(call, on: fileSystem, violation)
        if call == nil { calls = try tally.calls.reversed() }
    }
    return try tally.result()
}

extension FaultingFileSystem {
    /// How long other threads are given to let go of what they share, such as a store that they have just looked at: what
    /// is still open after that was leaked.
    private static var patience: Duration { .seconds(1) }

    nonisolated(nonsending) func settle() async {
        let clock = ContinuousClock()
        let deadline = clock.now + Self.patience
        while !openDescriptors.isEmpty, clock.now < deadline { await Task.yield() }
    }

    func waitForOthers() {
        let clock = ContinuousClock()
        let deadline = clock.now + Self.patience
        while !openDescriptors.isEmpty, clock.now < deadline { Thread.sleep(forTimeInterval: 0.0001) }
    }
}
