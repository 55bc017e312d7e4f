import ForgeFileSystem
public import SystemPackage

/// Whether a failing call takes effect.
public enum FaultEffect: String, Hashable, Sendable, CaseIterable {
    /// The call has no effect.
    case none

    /// The call takes effect but reports an error, as a network file system or a dying device may.
    case done
}

/// The callers that learn of a failed synchronisation.
public enum SynchronizationAudience: String, Hashable, Sendable, CaseIterable {
    /// Only the affected call.
    case caller

    /// Every open file description, once, as on Linux since 4.13; files opened later never learn of it.
    case openFiles

    /// No caller: the call succeeds, but nothing reaches the device.
    case unreported
}

/// The effect of a fault on a call.
///
/// A store into a mapping can only be delayed or crashed, because it cannot fail.
///
/// `close` releases its descriptor whatever the fault, as on Linux and Darwin.
public enum FaultAction: Hashable, Sendable {
    /// The call throws this error number.
    case fail(Errno, effect: FaultEffect = .none)

    /// A signal interrupts the call before it takes effect (`EINTR`).
    case interrupt

    /// A read or write transfers at most this many bytes. A read of zero bytes looks like the end of the file.
    case shorten(toBytes: Int)

    /// The device has space for this many more bytes, counted from the first affected call: the write that exceeds it
    /// is short and all later ones fail. Once the device is full, the rule's calls that add a name fail too.
    /// Overwriting existing bytes counts.
    case fillUp(afterBytes: Int, Errno = .noSpace)

    /// From this call on, changes of the rule's files fail with `EROFS`.
    case becomeReadOnly

    /// The file system's clock advances before the call.
    case delay(Duration)

    /// The process dies before or after the call's effect: this call and all later ones throw ``ProcessCrashed``.
    case crash(effect: FaultEffect = .none)

    /// A read returns corrupted data.
    case corrupt(FileCorruption)

    /// Data written to the file does not reach the device, and `audience` learns of it. The rule affects each file
    /// once; later synchronisations succeed.
    ///
    /// On a call other than `synchronize`, background write-back fails: the call succeeds, and every file open at that
    /// time gets the error at its next synchronisation; files opened later do not.
    case failSynchronization(Errno = .ioError, reportedTo: SynchronizationAudience = .caller)

    /// `synchronize` reports success but nothing reaches the device. Unlike ``failSynchronization(_:reportedTo:)``, it
    /// affects every call.
    case lieAboutSynchronization
}

extension FaultAction {
    /// Whether it applies to stores into mappings, which cannot fail.
    var strikesStores: Bool {
        switch self {
        case .delay, .crash: true
        default: false
        }
    }
}

extension FaultAction: CustomStringConvertible {
    public var description: String {
        switch self {
        case .fail(let errno, .none): "fail \(errno.name)"
        case .fail(let errno, .done): "fail \(errno.name) afterwards"
        case .interrupt: "interrupt"
        case .shorten(let count): "shorten to \(count) bytes"
        case .fillUp(let count, let errno): "\(errno.name) after \(count) bytes"
        case .becomeReadOnly: "read-only"
        case .delay(let duration): "delay \(duration.nanoseconds)ns"
        case .crash(.none): "crash"
        case .crash(.done): "crash afterwards"
        case .corrupt(let corruption): "corrupt: \(corruption)"
        case .failSynchronization(let errno, let audience):
            "synchronisation fails with \(errno.name), told to \(audience.rawValue)"
        case .lieAboutSynchronization: "synchronisation is a lie"
        }
    }
}

extension Duration {
    /// The duration in nanoseconds, clamped to the range of `Int64`.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflows else { return seconds < 0 ? .min : .max }
        return whole.addingReportingOverflow(attoseconds / 1_000_000_000).partialValue
    }
}
