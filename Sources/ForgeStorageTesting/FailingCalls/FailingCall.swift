import ForgeFileSystem
public import SystemPackage

/// A run of `forEachFailingCall`: the failing call, its error, mode and effect.
public struct FailingCall: Hashable, Sendable {
    /// How often a call fails.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// Only this call fails.
        case once

        /// This call and all later ones fail. An interruption (`EINTR`) occurs only ``interruptionCount`` times in a
        /// row, so that code that correctly retries terminates.
        case forEver
    }

    /// The number of interruptions in mode `forEver`.
    public static let interruptionCount = 64

    /// The default error numbers: failures of a device, a quota, a signal, the kernel's tables, or changed permissions,
    /// which any call may meet.
    public static let errnos: [Errno] = [
        .ioError, .noSpace, .diskQuotaExceeded, .interrupted, .tooManyOpenFiles, .tooManyOpenFilesInSystem,
        .permissionDenied, .readOnlyFileSystem, .noMemory,
    ]

    /// The number of the call, counted from 1.
    public let number: Int

    /// The error.
    public let errno: Errno

    /// The mode.
    public let mode: Mode

    /// Whether the failing call takes effect.
    public let effect: FaultEffect

    var rule: FaultRule {
        let occurrence =
            switch mode {
            case .once: FaultOccurrence(calls: number...number)
            case .forEver where errno == .interrupted:
                FaultOccurrence(calls: number...number + Self.interruptionCount - 1)
            case .forEver: FaultOccurrence(after: number - 1)
            }
        return FaultRule([], occurrence, do: .fail(errno, effect: effect))
    }
}

extension FailingCall: CustomStringConvertible {
    public var description: String {
        "call \(number) fails with \(errno.name) \(mode == .once ? "once" : "for ever")"
            + (effect == .done ? ", after its effect" : "")
    }
}

/// The result of a loop over failing calls.
public struct FailingCallReport: Hashable, Sendable {
    /// The number of calls that the body makes without failures.
    public internal(set) var callCount = 0

    /// The number of runs with a failing call.
    public internal(set) var runCount = 0

    /// The number of those runs in which the body threw; in the others it tolerated the failure.
    public internal(set) var throwingRunCount = 0

    /// The number of failed calls in all runs.
    public internal(set) var faultCount = 0
}

extension FailingCallReport: CustomStringConvertible {
    public var description: String {
        "\(callCount) calls, \(runCount) runs, \(throwingRunCount) of them threw, \(faultCount) faults"
    }
}
