import ForgeFileSystem
public import SystemPackage

/// A run of `forEachFailingCall`: a call, and what happens to it.
public struct FailingCall: Hashable, Sendable {
    /// How often a call fails.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// Only this call fails.
        case once

        /// This call and all later ones fail. An interruption (`EINTR`) occurs only ``interruptionCount`` times in a
        /// row, so that code that correctly retries terminates.
        case forEver
    }

    /// What a disk does beyond failing a call with an error number.
    public enum Condition: String, Hashable, Sendable, CaseIterable {
        /// Each read and each write in turn transfers 1 byte, and each write also half of its bytes, so that code which
        /// ignores the returned count loses the rest.
        case shortTransfers

        /// The device fills up at each boundary that matters: before each write, after its first byte and before its
        /// last. It stays full until the body ends.
        case fullDevice

        /// Each flush in turn fails once and later ones succeed, but what it should have made durable stays undecided,
        /// as after a failed `fsync` on Linux. Only a power cut shows that a flush was merely repeated: combine the loop
        /// with `forEachCrash` of ForgeCrashTesting.
        case failedFlush
    }

    /// What happens to the call.
    public enum Fault: Hashable, Sendable {
        /// It fails.
        case error(Errno, Mode, FaultEffect)

        /// It transfers only this many bytes.
        case shortTransfer(byteCount: Int)

        /// It is the write that exceeds the device, which has space for this many bytes from the first call on.
        case fullDevice(afterBytes: Int)

        /// It is a flush that fails, and its data stays undecided.
        case failedFlush
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

    /// The number of runs with a call that fails with an error number.
    public internal(set) var runCount = 0

    /// The number of runs with a short transfer, a full device or a failed flush.
    public internal(set) var conditionRunCount = 0

    /// The number of all these runs in which the body threw; in the others it tolerated the fault.
    public internal(set) var throwingRunCount = 0

    /// The number of failed calls in all runs.
    public internal(set) var faultCount = 0
}

extension FailingCallReport: CustomStringConvertible {
    public var description: String {
        "\(callCount) calls, \(runCount + conditionRunCount) runs, \(throwingRunCount) of them threw, \(faultCount) faults"
    }
}
