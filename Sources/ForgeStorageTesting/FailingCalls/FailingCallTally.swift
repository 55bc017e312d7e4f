import ForgeFileSystem
import Foundation
import SystemPackage

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
    private var made: [FaultPlan.CountedCall] = []
    /// How long to wait for other threads to release shared objects before open descriptors count as leaks.
    private var patience = Duration.seconds(1)

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
            let lists = [errors, unusual]
            guard !lists[0].isEmpty || errnos.isEmpty && !lists[1].isEmpty else {
                throw NothingFailed(description: "no error numbers, no modes or no effects were given")
            }
            return lists.flatMap { calls in stride(from: start, to: calls.count, by: step).map { calls[$0] } }
        }
    }

    private var errors: [FailingCall] {
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
    private var unusual: [FailingCall] {
        var calls: [FailingCall] = []
        var storedByteCount = 0
        for (index, call) in made.enumerated() {
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

    /// A plan with the fault of a run. A retry without an end ends it: after many more calls than without the fault, the
    /// fault is lifted.
    func plan(_ call: FailingCall?) -> FaultPlan {
        guard let call else { return FaultPlan() }
        return FaultPlan([call.rule], callLimit: 2_000 + 20 * report.callCount)
    }

    /// Waits until nothing is open, for as long as other threads may need to release what they share. After the first
    /// leak the wait is short: the loop fails anyway.
    mutating func wait(for fileSystem: FaultingFileSystem) {
        let clock = ContinuousClock()
        let deadline = clock.now + patience
        while !fileSystem.openDescriptors.isEmpty, clock.now < deadline { Thread.sleep(forTimeInterval: 0.0001) }
        if !fileSystem.openDescriptors.isEmpty { patience = .milliseconds(5) }
    }

    /// As `wait`, without blocking the thread.
    nonisolated(nonsending) mutating func settle(_ fileSystem: FaultingFileSystem) async {
        let clock = ContinuousClock()
        let deadline = clock.now + patience
        while !fileSystem.openDescriptors.isEmpty, clock.now < deadline { await Task.yield() }
        if !fileSystem.openDescriptors.isEmpty { patience = .milliseconds(5) }
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
                    "the body retries without an end: after \(fileSystem.plan.callLimit ?? 0) calls, where \(report.callCount) "
                        + "suffice without the fault, it called \(endless); then the fault was lifted", fileSystem)
            }
        } else {
            report.callCount = fileSystem.plan.callCount
            made = fileSystem.plan.countedCalls
        }
        checkDescriptors(call, fileSystem, "the body")
    }

    /// Checks a file system after verification.
    mutating func verified(_ call: FailingCall?, on fileSystem: FaultingFileSystem, _ error: (any Error)?) {
        if let error { return fail(call, "\(error)", fileSystem) }
        checkDescriptors(call, fileSystem, "verifying")
    }

    /// The report, if all runs succeeded.
    func result() throws(FailingCallFailures) -> FailingCallReport {
        guard failureCount == 0 else { throw FailingCallFailures(failures: failures, count: failureCount) }
        return report
    }

    private mutating func checkDescriptors(_ call: FailingCall?, _ fileSystem: FaultingFileSystem, _ who: String) {
        let open = fileSystem.openDescriptors
        guard !open.isEmpty else { return }
        let paths = open.map { fileSystem.path(of: $0)?.description ?? $0.description }
        fail(call, "\(who) left open: \(paths.joined(separator: ", "))", fileSystem)
        // Closed, so that verification does not see them as leaks.
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
