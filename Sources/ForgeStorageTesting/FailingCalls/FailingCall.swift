import ForgeFileSystem
public import SystemPackage

/// One run of `forEachFailingCall`: which call failed, how, and how often.
public struct FailingCall: Hashable, Sendable {
    /// How often a call fails.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// The call fails, and those after it succeed.
        case once

        /// The call fails and so do all after it. An interruption (`EINTR`) comes ``interruptionCount`` times in a row,
        /// since whoever tries again, as is right, would otherwise never end.
        case forEver
    }

    /// How many interruptions are "for ever".
    public static let interruptionCount = 64

    /// The error numbers that a call is failed with unless told otherwise: what a device, a quota, a signal, the tables of
    /// the kernel and a change of rights may answer at any time.
    public static let errnos: [Errno] = [
        .ioError, .noSpace, .diskQuotaExceeded, .interrupted, .tooManyOpenFiles, .tooManyOpenFilesInSystem,
        .permissionDenied, .readOnlyFileSystem, .noMemory,
    ]

    /// The number of the call, the first of the body being 1.
    public let number: Int

    /// What it fails with.
    public let errno: Errno

    /// How often.
    public let mode: Mode

    /// Whether it does its work all the same.
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

/// What a loop over failing calls has seen.
public struct FailingCallReport: Hashable, Sendable {
    /// How many calls the body makes when none fails.
    public internal(set) var callCount = 0

    /// How often the body was run with a call that failed.
    public internal(set) var runCount = 0

    /// In how many of these runs the body threw; in the others it got along without the call.
    public internal(set) var throwingRunCount = 0

    /// How many calls failed in all runs together.
    public internal(set) var faultCount = 0
}

extension FailingCallReport: CustomStringConvertible {
    public var description: String {
        "\(callCount) calls, \(runCount) runs, \(throwingRunCount) of them threw, \(faultCount) faults"
    }
}
