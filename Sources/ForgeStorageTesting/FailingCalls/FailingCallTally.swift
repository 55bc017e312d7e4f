import ForgeFileSystem
import SystemPackage

/// The shared part of the loops over failing calls: the list of runs, the checks after each, and the report.
struct FailingCallTally {
    private let errnos: [Errno]
    private let modes: [FailingCall.Mode]
    private let effects: [FaultEffect]
    private let step: Int
    private let start: Int
    private var report = FailingCallReport()
    private var failures: [FailingCallFailures.Failure] = []
    private var failureCount = 0

    init(_ errnos: [Errno], _ modes: [FailingCall.Mode], _ effects: [FaultEffect], every step: Int, from start: Int) {
        self.errnos = errnos
        self.modes = modes
        self.effects = effects
        self.step = step
        self.start = start
    }

    /// The runs after the one without failures.
    var calls: [FailingCall] {
        get throws(NothingFailed) {
            guard report.callCount > 0 else {
                throw NothingFailed(description: "the body called nothing on the file system it was given")
            }
            guard !errnos.isEmpty, !modes.isEmpty, !effects.isEmpty else {
                throw NothingFailed(description: "no error numbers, no modes or no effects were given")
            }
            var calls: [FailingCall] = []
            for number in 1...report.callCount {
                for errno in errnos {
                    for mode in modes {
                        // An interruption after the effect is not reported: the call succeeds.
                        for effect in effects where errno != .interrupted || effect == .none {
                            calls.append(FailingCall(number: number, errno: errno, mode: mode, effect: effect))
                        }
                    }
                }
            }
            return stride(from: start, to: calls.count, by: step).map { calls[$0] }
        }
    }

    /// Checks a file system after the body has run, and disarms its faults.
    mutating func bodyEnded(_ call: FailingCall?, on fileSystem: FaultingFileSystem, _ error: (any Error)?) {
        fileSystem.plan.isArmed = false
        if let call {
            report.runCount += 1
            report.throwingRunCount += error == nil ? 0 : 1
            report.faultCount += fileSystem.plan.firedCount
            if fileSystem.plan.firedCount == 0 {
                fail(call, "the call was never made: the body does not do the same in every run", fileSystem)
            }
        } else {
            report.callCount = fileSystem.plan.callCount
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
        let lines = fileSystem.log.text.split(separator: "\n").suffix(40)
        failures.append(
            FailingCallFailures.Failure(call: call, problem: problem, transcript: lines.joined(separator: "\n")))
    }
}
