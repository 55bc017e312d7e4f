public import ForgeFileSystem
public import ForgeKVStore
public import Foundation
public import Logging
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
/// system. Descriptors still open after `body` count as leaks. A body that retries endlessly is reported: after
/// many more calls than it needs, the fault is lifted.
///
/// Not simulated: a device that fails for some time and then recovers, faults at two places of one run, short transfers
/// of `copyRange`, and threads in another order than that of the run. A ``FaultPlan`` of your own makes the first three.
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

/// Fails every call of a store in turn, while it is opened and changed, then reopens it to verify.
///
/// ```swift
/// try forEachFailingCall(
///     on: { InMemoryFileSystem() },
///     open: { fileSystem in try FileKVStore(at: "/settings", fileSystem: fileSystem) },
///     prepare: { store in try store.set(key, value: "old") },
///     change: { store in try store.set(key, value: "new") },
///     verify: { store, error in
///         try expectOldOrNew(try store.read(key), old: "old", new: "new", after: error)
///     })
/// ```
/// A `FileKVStore` opened as above prints nothing; what it logs is part of the message of a failed run.
///
/// The store is released before verification. After each run nothing may be left open, and no temporary files of the
/// store may be left after `open` and `verify`. So `open` must make the store remove them, which for a `DiskFileStore`
/// requires a call of `open()`. If a store removes them with its first write only, as a vault does, `verify` must
/// write.
///
/// - Parameters:
///   - errnos: The error numbers.
///   - modes: Whether only the call fails, or all later ones too.
///   - effects: Whether a failing call takes effect.
///   - conditions: What a disk does beyond failing with an error number; all by default.
///   - step: The distance between the runs that are made; 1 makes all of them.
///   - start: The first run that is made, counted from 0.
///   - root: The directory to search for temporary files.
///   - makeFileSystem: Makes an empty file system.
///   - open: Opens the store. Do not retain it: open descriptors count as leaks.
///   - prepare: Puts a new store into the old state, without failures.
///   - change: Changes the store.
///   - verify: Checks the store, reopened without failures; `error` is the error of `open` or `change`.
/// - Returns: A report of the runs.
/// - Throws: As the loop over calls does.
@discardableResult
public func forEachFailingCall<Store>(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], conditions: [FailingCall.Condition] = FailingCall.Condition.allCases,
    every step: Int = 1, from start: Int = 0,
    under root: POSIXPath = "/",
    on makeFileSystem: () throws -> any POSIXFileSystem, open: (FaultingFileSystem) throws -> Store,
    prepare: (Store) throws -> Void, change: (Store) throws -> Void,
    verify: (_ store: Store, _ error: (any Error)?) throws -> Void
) throws -> FailingCallReport {
    var tally = FailingCallTally(errnos, modes, effects, conditions, every: step, from: start)
    func run(_ call: FailingCall?) throws {
        let preparing = FaultingFileSystem(try makeFileSystem())
        do { try prepare(try open(preparing)) }
        tally.wait(for: preparing)
        try requireNothingOpen(preparing)
        let fileSystem = FaultingFileSystem(preparing.base, plan: tally.plan(call))
        var failure: (any Error)?
        do {
            try change(try open(fileSystem))
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        tally.wait(for: fileSystem)
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do {
            do { try verify(try open(fileSystem), failure) }
            tally.wait(for: fileSystem)
            try requireNoLeftovers(fileSystem, root)
        } catch {
            violation = error
            tally.wait(for: fileSystem)
        }
        tally.verified(call, on: fileSystem, violation)
    }
    try run(nil)
    for call in try tally.calls { try run(call) }
    return try tally.result()
}

/// Fails every call of a store with asynchronous calls in turn.
@discardableResult
nonisolated(nonsending) public func forEachFailingCall<Store>(
    errnos: [Errno] = FailingCall.errnos, modes: [FailingCall.Mode] = FailingCall.Mode.allCases,
    effects: [FaultEffect] = [.none], conditions: [FailingCall.Condition] = FailingCall.Condition.allCases,
    every step: Int = 1, from start: Int = 0,
    under root: POSIXPath = "/",
    on makeFileSystem: () throws -> any POSIXFileSystem,
    open: nonisolated(nonsending) (FaultingFileSystem) async throws -> Store,
    prepare: nonisolated(nonsending) (Store) async throws -> Void,
    change: nonisolated(nonsending) (Store) async throws -> Void,
    verify: nonisolated(nonsending) (_ store: Store, _ error: (any Error)?) async throws -> Void
) async throws -> FailingCallReport {
    // Each run prepares the old state before the faults are armed.
    var tally = FailingCallTally(errnos, modes, effects, conditions, every: step, from: start)
    var calls: [FailingCall?] = [nil]
    while let call = calls.popLast() {
        let preparing = FaultingFileSystem(try makeFileSystem())
        do { try await prepare(try await open(preparing)) }
        await tally.settle(preparing)
        try requireNothingOpen(preparing)
        let fileSystem = FaultingFileSystem(preparing.base, plan: tally.plan(call))
        var failure: (any Error)?
        do {
            try await change(try await open(fileSystem))
        } catch {
            guard call != nil else { throw error }
            failure = error
        }
        await tally.settle(fileSystem)
        tally.bodyEnded(call, on: fileSystem, failure)
        var violation: (any Error)?
        do {
            do { try await verify(try await open(fileSystem), failure) }
            await tally.settle(fileSystem)
            try requireNoLeftovers(fileSystem, root)
        } catch {
            violation = error
            await tally.settle(fileSystem)
        }
        tally.verified(call, on: fileSystem, violation)
        if call == nil { calls = try tally.calls.reversed() }
    }
    return try tally.result()
}

/// Throws unless `actual` is the new state, or the old one after an error.
public func expectOldOrNew<Value: Equatable>(
    _ actual: Value, old: Value, new: Value, after error: (any Error)?
) throws {
    guard actual != new else { return }
    guard let error else { throw ConformanceViolation("expected the new state \(new), got \(actual)") }
    guard actual != old else { return }
    throw ConformanceViolation("expected the old state \(old) or the new one \(new) after \(error), got \(actual)")
}

extension POSIXFileSystem {
    /// The temporary files and partially deleted trees of stores below a directory, which the next exclusive opening
    /// must sweep.
    public func leftovers(under directory: POSIXPath = "/") throws(FileSystemError) -> [POSIXPath] {
        var found: [POSIXPath] = []
        for entry in try entries(ofDirectory: directory) {
            let path = directory.appending(entry.name)
            if entry.name.isLeftover {
                found.append(path)
            } else if entry.type == .directory {
                found += try leftovers(under: path)
            }
        }
        return found
    }
}

private func requireNothingOpen(_ fileSystem: FaultingFileSystem) throws {
    let paths = fileSystem.openDescriptors.compactMap { fileSystem.path(of: $0)?.description }
    guard paths.isEmpty else {
        throw ConformanceViolation("left open without any failure: \(paths.joined(separator: ", "))")
    }
}

private func requireNoLeftovers(_ fileSystem: FaultingFileSystem, _ root: POSIXPath) throws {
    let leftovers = try fileSystem.base.leftovers(under: root)
    guard leftovers.isEmpty else {
        throw ConformanceViolation("not swept: \(leftovers.map(\.description).joined(separator: ", "))")
    }
}

// MARK: Messages of stores

extension FaultingFileSystem {
    /// A logger that prints nothing: its messages are kept in the ``log``, and shown with the failures of a loop.
    public var logger: Logger {
        let log = log
        return Logger(label: "ForgeStorageTesting") { _ in KeptMessages(log: log) }
    }
}

extension FileKVStore {
    /// Opens a store on a file system with faults: its messages go to `FaultingFileSystem.logger`.
    public convenience init(at url: URL, fileSystem: FaultingFileSystem) throws {
        try self.init(at: url, fileSystem: fileSystem, options: Options(logger: fileSystem.logger))
    }

    /// Opens a store on a file system with faults: its messages go to `FaultingFileSystem.logger`.
    public convenience init(at path: POSIXPath, fileSystem: FaultingFileSystem) throws {
        try self.init(at: path, fileSystem: fileSystem, options: Options(logger: fileSystem.logger))
    }
}

private struct KeptMessages: LogHandler {
    let log: OperationLog
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        log.append(message: "\(event.level): \(event.message)")
    }
}

/// The result of a loop over flipped bits.
public struct FlippedBitReport: Hashable, Sendable {
    /// The number of bits that were flipped, one at a time.
    public internal(set) var bitCount = 0

    /// The number of those that the body read; flips of others cannot be detected.
    public internal(set) var readCount = 0
}

/// Runs `body` once for each bit of a file, with that bit flipped in every read.
///
/// Not simulated: several flipped bits at once, which a checksum may miss, and all that ``FileCorruption`` leaves out.
/// Content that is read through a mapping is never corrupted: let the store read the file, as `FileKVStore` does on
/// opening.
///
/// - Parameters:
///   - path: The file.
///   - step: The distance between flipped bits; 1 flips every bit.
///   - makeFileSystem: Makes a file system that contains the file.
///   - body: Reads the file and throws if it gets a wrong value.
/// - Returns: A report of the runs.
/// - Throws: ``ConformanceViolation`` with the flipped bit and the error of `body`, ``NothingFailed`` if the body read
///   nothing of the file.
@discardableResult
public func forEachFlippedBit(
    of path: POSIXPath, every step: Int = 1, on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void
) throws -> FlippedBitReport {
    var report = FlippedBitReport()
    let sizeInBytes = try makeFileSystem().status(path).sizeInBytes
    for number in stride(from: 0, to: 8 * sizeInBytes, by: step) {
        let base = try makeFileSystem()
        let corruption = FileCorruption.flippedBit(offset: number / 8, bit: Int(number % 8))
        let rule = FaultRule([.read], matching: .inode(try base.status(path).inode), do: .corrupt(corruption))
        let plan = FaultPlan([rule])
        do {
            try body(FaultingFileSystem(base, plan: plan))
        } catch {
            throw ConformanceViolation("\(path) with \(corruption): \(error)")
        }
        report.bitCount += 1
        report.readCount += plan.firedCount > 0 ? 1 : 0
    }
    guard report.readCount > 0 else { throw NothingFailed(description: "nothing of \(path) was read") }
    return report
}
