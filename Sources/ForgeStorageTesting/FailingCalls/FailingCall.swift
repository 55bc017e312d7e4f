import ForgeFileSystem
import Foundation
public import SystemPackage

/// A run of `forEachFailingCall`: the call that fails, and its fault.
public struct FailingCall: Hashable, Sendable {
    /// How often a call fails.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// Only this call fails.
        case once

        /// This call and all later ones fail. An interruption (`EINTR`) occurs only ``interruptionCount`` times in a
        /// row, so that code that correctly retries terminates.
        case forEver
    }

    /// The behaviour of a disk beyond failing a call with an error number.
    public enum Condition: String, Hashable, Sendable, CaseIterable {
        /// In a run of its own, each read and each write transfers only 1 byte, and each longer write only half of its
        /// bytes, so that code which ignores the returned count loses the rest.
        case shortTransfers

        /// In a run of its own, the device becomes full before each write or allocation, after its first byte, and
        /// before its last byte. It stays full until the body ends.
        case fullDevice

        /// In a run of its own, each flush fails once and later flushes succeed, but it is undefined whether the data
        /// of the failed flush is durable, as after a failed `fsync` on Linux. Only a power cut detects code that
        /// merely repeats the flush: combine the loop with `forEachCrash` of ForgeCrashTesting.
        case failedFlush
    }

    /// What happens to the call.
    public enum Fault: Hashable, Sendable {
        /// The call fails with an error number.
        case error(Errno, Mode, FaultEffect)

        /// The call transfers only this many bytes.
        case shortTransfer(byteCount: Int)

        /// The call is the write or allocation that fills the device, which has space for this many bytes at first.
        case fullDevice(afterBytes: Int)

        /// The call is a flush that fails; it is undefined whether its data is durable.
        case failedFlush
    }

    /// The number of consecutive interruptions in ``Mode/forEver``.
    public static let interruptionCount = 64

    /// The default error numbers: failures of a device, a quota, a signal, the kernel's tables, or changed permissions,
    /// which any call may report.
    public static let errnos: [Errno] = [
        .ioError, .noSpace, .diskQuotaExceeded, .interrupted, .tooManyOpenFiles, .tooManyOpenFilesInSystem,
        .permissionDenied, .readOnlyFileSystem, .noMemory,
    ]

    /// The position of the call among the calls of the body, counted from 1.
    public let number: Int

    /// What happens to the call.
    public let fault: Fault

    var rule: FaultRule {
        switch fault {
        case .error(let errno, let mode, let effect):
            let occurrence =
                switch mode {
                case .once: FaultOccurrence(calls: number...number)
                case .forEver where errno == .interrupted:
                    FaultOccurrence(calls: number...number + Self.interruptionCount - 1)
                case .forEver: FaultOccurrence(after: number - 1)
                }
            return FaultRule([], occurrence, do: .fail(errno, effect: effect))
        case .shortTransfer(let count):
            return FaultRule([], FaultOccurrence(calls: number...number), do: .shorten(toBytes: count))
        case .fullDevice(let count): return FaultRule(do: .fillUp(afterBytes: count))
        case .failedFlush:
            return FaultRule([], FaultOccurrence(calls: number...number), do: .failSynchronization())
        }
    }
}

extension FailingCall: CustomStringConvertible {
    public var description: String {
        switch fault {
        case .error(let errno, let mode, let effect):
            "call \(number) fails with \(errno.name) \(mode == .once ? "once" : "for ever")"
                + (effect == .done ? ", after its effect" : "")
        case .shortTransfer(let count): "call \(number) transfers only \(count) bytes"
        case .fullDevice(let count): "the device is full after \(count) bytes, in call \(number)"
        case .failedFlush: "call \(number), a flush, fails, and its data stays undecided"
        }
    }
}

/// The result of a loop over failing calls.
public struct FailingCallReport: Hashable, Sendable {
    /// The number of calls that the body makes without failures.
    public internal(set) var callCount = 0

    /// The number of runs in which a call fails with an error number, without the runs of conditions.
    public internal(set) var runCount = 0

    /// The number of runs of conditions: with a short transfer, a full device or a failed flush.
    public internal(set) var conditionRunCount = 0

    /// The number of runs of both kinds in which the body threw; in the other runs it tolerated the fault.
    public internal(set) var throwingRunCount = 0

    /// The number of failed calls in all runs.
    public internal(set) var faultCount = 0
}

extension FailingCallReport: CustomStringConvertible {
    public var description: String {
        "\(callCount) calls, \(runCount + conditionRunCount) runs, \(throwingRunCount) of them threw, \(faultCount) faults"
    }
}

/// The failed runs of a loop over failing calls.
public struct FailingCallFailures: Error, Sendable, CustomStringConvertible {
    /// A failed run.
    public struct Failure: Sendable, CustomStringConvertible {
        /// The failing call; nil for the run without failures.
        public let call: FailingCall?

        /// The problem found after the run.
        public let problem: String

        /// The last calls of the body, then the last messages of stores (``FaultingFileSystem/logger``).
        public let transcript: String

        public var description: String {
            "\(call?.description ?? "no call fails"): \(problem)\n\(transcript)"
        }
    }

    /// The failed runs, at most ``maximumCount``.
    public let failures: [Failure]

    /// The total number of failed runs.
    public let count: Int

    /// The maximum number of runs to report.
    public static let maximumCount = 8

    public var description: String {
        let reported = failures.map(\.description).joined(separator: "\n\n")
        guard count > failures.count else { return reported }
        return "\(count) runs failed, the first \(failures.count) being\n\(reported)"
    }
}

/// A loop over failing calls that exercised nothing.
public struct NothingFailed: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason why nothing was exercised.
    public let description: String
}

/// The shared part of the loops over failing calls: the list of runs, the checks after each, and the report.
struct FailingCallTally {
    private let errnos: [Errno]
    private let modes: [FailingCall.Mode]
    private let effects: [FaultEffect]
    private let conditions: [FailingCall.Condition]
    private let step: Int
    private let start: Int
    private var report = FailingCallReport()
    private var failures: [FailingCallFailures.Failure] = []
    private var failureCount = 0
    /// The calls of the run without faults.
    private var recordedCalls: [FaultPlan.CountedCall] = []
    /// How long to wait for other threads to release shared objects before open descriptors count as leaks.
    private var leakTimeout = Duration.seconds(1)

    init(
        _ errnos: [Errno], _ modes: [FailingCall.Mode], _ effects: [FaultEffect],
        _ conditions: [FailingCall.Condition], every step: Int, from start: Int
    ) {
        self.errnos = errnos
        self.modes = modes
        self.effects = effects
        self.conditions = conditions
        self.step = step
        self.start = start
    }

    /// The runs after the one without failures.
    var calls: [FailingCall] {
        get throws(NothingFailed) {
            guard report.callCount > 0 else {
                throw NothingFailed(description: "the body called nothing on the file system it was given")
            }
            let lists = [errorRuns, conditionRuns]
            guard !lists[0].isEmpty || errnos.isEmpty && !lists[1].isEmpty else {
                throw NothingFailed(description: "no error numbers, no modes or no effects were given")
            }
            return lists.flatMap { calls in stride(from: start, to: calls.count, by: step).map { calls[$0] } }
        }
    }

    /// The runs with error numbers, one for each call, error number, mode and effect.
    private var errorRuns: [FailingCall] {
        var calls: [FailingCall] = []
        for number in 1...report.callCount {
            for errno in errnos {
                for mode in modes {
                    // An interruption after the effect is not reported: the call succeeds.
                    for effect in effects where errno != .interrupted || effect == .none {
                        calls.append(FailingCall(number: number, fault: .error(errno, mode, effect)))
                    }
                }
            }
        }
        return calls
    }

    /// The runs of the conditions, each at every call that it concerns.
    private var conditionRuns: [FailingCall] {
        var calls: [FailingCall] = []
        var storedByteCount = 0
        for (index, call) in recordedCalls.enumerated() {
            let (number, count) = (index + 1, call.byteCount)
            let stores = call.operation == .write || call.operation == .allocate
            if conditions.contains(.shortTransfers), call.operation == .read || call.operation == .write, count > 1 {
                let counts = call.operation == .write && count > 3 ? [1, count / 2] : [1]
                calls += counts.map { FailingCall(number: number, fault: .shortTransfer(byteCount: $0)) }
            }
            if conditions.contains(.fullDevice), stores, count > 0 {
                let counts = count > 2 ? [0, 1, count - 1] : Array(0..<count)
                calls += counts.map {
                    FailingCall(number: number, fault: .fullDevice(afterBytes: storedByteCount + $0))
                }
            }
            if conditions.contains(.failedFlush), call.operation == .synchronize {
                calls.append(FailingCall(number: number, fault: .failedFlush))
            }
            if stores { storedByteCount += count }
        }
        return calls
    }

    /// A plan with the fault of a run. Its call limit ends an endless retry loop: after many more calls than the run
    /// without faults needed, the fault is lifted.
    func plan(_ call: FailingCall?) -> FaultPlan {
        guard let call else { return FaultPlan() }
        return FaultPlan([call.rule], callLimit: 2_000 + 20 * report.callCount)
    }

    /// Waits until no descriptor is open, at most `leakTimeout`, because other threads may still release shared
    /// objects. After the first leak the timeout is short: the loop fails anyway.
    mutating func wait(for fileSystem: FaultingFileSystem) {
        let clock = ContinuousClock()
        let deadline = clock.now + leakTimeout
        while !fileSystem.openDescriptors.isEmpty, clock.now < deadline { Thread.sleep(forTimeInterval: 0.0001) }
        if !fileSystem.openDescriptors.isEmpty { leakTimeout = .milliseconds(5) }
    }

    /// Like ``wait(for:)``, without blocking the thread.
    nonisolated(nonsending) mutating func settle(_ fileSystem: FaultingFileSystem) async {
        let clock = ContinuousClock()
        let deadline = clock.now + leakTimeout
        while !fileSystem.openDescriptors.isEmpty, clock.now < deadline { await Task.yield() }
        if !fileSystem.openDescriptors.isEmpty { leakTimeout = .milliseconds(5) }
    }

    /// Checks a file system after the body has run, and disarms its faults.
    mutating func bodyEnded(_ call: FailingCall?, on fileSystem: FaultingFileSystem, _ error: (any Error)?) {
        fileSystem.plan.isArmed = false
        if let call {
            if case .error = call.fault { report.runCount += 1 } else { report.conditionRunCount += 1 }
            report.throwingRunCount += error == nil ? 0 : 1
            report.faultCount += fileSystem.plan.firedCount
            if fileSystem.plan.firedCount == 0 {
                fail(call, "the call was never made: the body does not do the same in every run", fileSystem)
            }
            if let endless = fileSystem.plan.endlessCall {
                fail(
                    call,
                    "the body retries endlessly: after \(fileSystem.plan.callLimit ?? 0) calls, where \(report.callCount) "
                        + "suffice without the fault, it called \(endless); then the fault was lifted", fileSystem)
            }
        } else {
            report.callCount = fileSystem.plan.callCount
            recordedCalls = fileSystem.plan.countedCalls
        }
        checkDescriptors(call, fileSystem, "the body")
    }

    /// Checks a file system after verification, and records its error.
    mutating func verified(_ call: FailingCall?, on fileSystem: FaultingFileSystem, _ error: (any Error)?) {
        if let error { return fail(call, "\(error)", fileSystem) }
        checkDescriptors(call, fileSystem, "verifying")
    }

    /// The report, if all runs succeeded.
    func result() throws(FailingCallFailures) -> FailingCallReport {
        guard failureCount == 0 else { throw FailingCallFailures(failures: failures, count: failureCount) }
        return report
    }

    private mutating func checkDescriptors(_ call: FailingCall?, _ fileSystem: FaultingFileSystem, _ phase: String) {
        let open = fileSystem.openDescriptors
        guard !open.isEmpty else { return }
        let paths = open.map { fileSystem.path(of: $0)?.description ?? $0.description }
        fail(call, "\(phase) left open: \(paths.joined(separator: ", "))", fileSystem)
        // The next check of descriptors must not report these again.
        for descriptor in open { do { try fileSystem.close(descriptor) } catch _ {} }
    }

    private mutating func fail(_ call: FailingCall?, _ problem: String, _ fileSystem: FaultingFileSystem) {
        failureCount += 1
        guard failures.count < FailingCallFailures.maximumCount else { return }
        let lines = fileSystem.log.text.split(separator: "\n").suffix(40).map(String.init)
        let transcript = (lines + fileSystem.log.messages.suffix(20)).joined(separator: "\n")
        failures.append(FailingCallFailures.Failure(call: call, problem: problem, transcript: transcript))
    }
}
