import ForgeFileSystem
public import SystemPackage

/// Whether a call that fails has done its work all the same.
public enum FaultEffect: String, Hashable, Sendable, CaseIterable {
    /// Nothing happened.
    case none

    /// It was done, and only the answer is wrong: what a network file system or a dying device may do.
    case done
}

/// Who hears of a synchronisation that failed.
public enum SynchronizationAudience: String, Hashable, Sendable, CaseIterable {
    /// The call that is struck, and nobody else ever.
    case caller

    /// Each file that is open at the time, once, as on Linux since 4.13; one that is opened later never hears of it.
    case openFiles

    /// Nobody: the call succeeds, but nothing reaches the device.
    case nobody
}

/// What happens to a call that a fault strikes.
///
/// A store into a mapping is only delayed or crashed: it has no way to fail.
///
/// A call to `close` gives its descriptor back whatever strikes it, as on Linux and Darwin.
public enum FaultAction: Hashable, Sendable {
    /// The call throws this error number.
    case fail(Errno, effect: FaultEffect = .none)

    /// A signal comes before anything is done (`EINTR`).
    case interrupt

    /// A read or a write moves no more than so many bytes. Zero bytes of a read look like the end of the file.
    case shorten(toBytes: Int)

    /// The device has room for so many more bytes, counted from the first call that is struck: the write that does not
    /// fit is cut short, and every later one fails; so do, once nothing is left, the calls that the rule is for and that
    /// would add a name. Overwriting takes room as well.
    case fillUp(afterBytes: Int, Errno = .noSpace)

    /// From this call on, whatever would change a file that the rule is for fails with `EROFS`.
    case becomeReadOnly

    /// Time passes on the clock of the file system before the call.
    case delay(Duration)

    /// The process dies, before or after the call's effect: this call and every later one throw ``ProcessCrashed``.
    case crash(effect: FaultEffect = .none)

    /// A read hands out something else than what is stored.
    case corrupt(FileCorruption)

    /// What was written to the file does not reach the device, and `audience` hears of it; the rule strikes each file
    /// once, and its later synchronisations succeed.
    ///
    /// On another call than `synchronize`, it is the device that fails to write back by itself: the call succeeds, and
    /// every file that is open then hears of it at its next synchronisation, but one that is opened later does not.
    case failSynchronization(Errno = .ioError, reportedTo: SynchronizationAudience = .caller)

    /// The lying device: `synchronize` succeeds, and nothing reaches the device. Unlike
    /// ``failSynchronization(_:reportedTo:)``, it strikes each time.
    case lieAboutSynchronization
}

extension FaultAction {
    /// Whether it can happen to a store into a mapping, which has no way to fail.
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
    /// Whole nanoseconds; nil would help nobody, so it stops at the ends of `Int64`.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflows else { return seconds < 0 ? .min : .max }
        return whole.addingReportingOverflow(attoseconds / 1_000_000_000).partialValue
    }
}
