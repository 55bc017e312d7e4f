public import ForgeFileSystem
import ForgeKVStore
public import SystemPackage

/// A fault: the affected calls, their occurrence, and the effect.
///
/// ```swift
/// FaultRule.fail(.write, matching: "**/*.log", call: 3, with: .noSpace)
/// FaultRule.on(.read, do: .corrupt(.flippedBit(offset: 17, bit: 3)))
/// ```
public struct FaultRule: Hashable, Sendable {
    /// The affected operations; if empty, all but `store`, which cannot fail.
    public var operations: Set<FileSystemOperation>

    /// The affected files.
    public var target: FaultTarget

    /// The affected calls among those that match. Each rule counts its own matching calls, whether affected or not.
    public var occurrence: FaultOccurrence

    /// The affected thread, named by ``FaultingFileSystem/onThread(named:_:)``; all threads if nil.
    public var thread: String?

    /// The effect.
    public var action: FaultAction

    /// The name, for logs, errors and ``FaultPlan/lift(_:)``.
    public var name: String?

    /// Creates a rule.
    public init(
        _ operations: Set<FileSystemOperation> = [], matching target: FaultTarget = .anything,
        _ occurrence: FaultOccurrence = FaultOccurrence(), thread: String? = nil, name: String? = nil,
        do action: FaultAction
    ) {
        self.operations = operations
        self.target = target
        self.occurrence = occurrence
        self.thread = thread
        self.action = action
        self.name = name
    }

    func includes(_ operation: FileSystemOperation) -> Bool {
        operations.isEmpty ? operation != .store : operations.contains(operation)
    }

    func concerns(_ call: FaultCall) -> Bool {
        includes(call.operation)
            && (thread == nil || thread == call.thread)
            && target.matches(call)
    }
}

extension FaultRule {
    /// Creates a rule for these operations, or for all if none is given; see ``FaultOccurrence`` for the conditions.
    public static func on(
        _ operations: FileSystemOperation..., matching target: FaultTarget = .anything, call: Int? = nil,
        every: Int? = nil, after: Int? = nil, probability: Double? = nil, thread: String? = nil, name: String? = nil,
        do action: FaultAction
    ) -> FaultRule {
        let occurrence = FaultOccurrence(
            calls: call.map { $0...$0 }, every: every, after: after, probability: probability)
        return FaultRule(Set(operations), matching: target, occurrence, thread: thread, name: name, do: action)
    }

    /// Creates a rule that fails these operations, or all if none is given.
    public static func fail(
        _ operations: FileSystemOperation..., matching target: FaultTarget = .anything, call: Int? = nil,
        every: Int? = nil, after: Int? = nil, probability: Double? = nil, thread: String? = nil, name: String? = nil,
        with errno: Errno, effect: FaultEffect = .none
    ) -> FaultRule {
        let occurrence = FaultOccurrence(
            calls: call.map { $0...$0 }, every: every, after: after, probability: probability)
        return FaultRule(
            Set(operations), matching: target, occurrence, thread: thread, name: name,
            do: .fail(errno, effect: effect))
    }
}

extension FaultRule: CustomStringConvertible {
    public var description: String {
        // In case order, because the order of a set varies between processes.
        let operations = FileSystemOperation.allCases.filter(self.operations.contains).map(\.rawValue)
        var text = name.map { "\($0): " } ?? ""
        text += operations.isEmpty ? "any operation" : operations.joined(separator: "/")
        text += " on \(target), \(occurrence)"
        if let thread { text += ", thread \(thread)" }
        return text + ": \(action)"
    }
}

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

    /// A read, a write or a copied range transfers at most this many bytes. A read of zero bytes looks like the end of
    /// the file.
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
        return Int64(clamping: Int128(seconds) * 1_000_000_000 + Int128(attoseconds / 1_000_000_000))
    }
}

/// The files that a fault affects.
public enum FaultTarget: Hashable, Sendable {
    /// Every file, and calls without a file.
    case anything

    /// Calls with a matching path, or with a descriptor opened by one; for a rename or link, either path. See
    /// ``FaultingFileSystem/path(of:)`` for the form of paths.
    ///
    /// The stores of this package write a new file under a temporary name beside it (`#tmp-…`, `#log-new…`), which says
    /// nothing of the file that it becomes. A pattern therefore also matches a temporary file if it matches any name in
    /// the same directory that does not begin with `#`: `/vault*` matches the writes of a vault, and `/d/a` those of
    /// every file that a store saves in `/d`. Renames, links and removals are matched by their own paths alone. To match
    /// temporary files alone, give their names: `**/#tmp-*`.
    case path(PathGlob)

    /// The file with this inode number, by any path or descriptor.
    case inode(UInt64)

    func matches(_ call: FaultCall) -> Bool {
        switch self {
        case .anything: true
        case .path(let glob):
            call.paths.contains { path in
                glob.matches(path)
                    || call.mayStandForAnother && path.isTemporaryFileOfStore && glob.matchesName(beside: path)
            }
        case .inode(let inode): call.inode == inode
        }
    }
}

extension FaultTarget: ExpressibleByStringLiteral {
    /// Creates a target from a path pattern (``PathGlob``).
    public init(stringLiteral value: String) {
        self = .path(PathGlob(value))
    }
}

extension FaultTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .anything: "anything"
        case .path(let glob): glob.description
        case .inode(let inode): "inode \(inode)"
        }
    }
}

/// The properties of a call that rules match.
struct FaultCall: Sendable {
    var operation: FileSystemOperation
    var paths: [POSIXPath]
    var inode: UInt64?
    /// The number of bytes that the call would store.
    var storedByteCount = 0
    /// The number of bytes that the call would read.
    var readByteCount = 0
    /// The number of bytes that the call would transfer.
    var byteCount: Int { max(storedByteCount, readByteCount) }
    /// Whether the call would add a file, a directory or a name.
    var createsName = false
    /// Whether a read-only file system would reject the call.
    var mutates: Bool
    var thread: String?

    /// Whether the call on a temporary file is one for the file that it becomes: a rename names that file itself, and a
    /// removal does not concern it.
    var mayStandForAnother: Bool {
        switch operation {
        case .rename, .link, .unlink, .removeDirectory: false
        default: true
        }
    }
}

extension POSIXPath {
    /// Whether the last component is the temporary name of a file that a store writes.
    fileprivate var isTemporaryFileOfStore: Bool {
        let name = splitLast().name
        // The temporary name of a marker is that of no other file.
        guard !StoreKind.allCases.contains(where: { StoreMarker.temporaryName(of: $0) == name }) else { return false }
        return name.bytes.starts(with: Self.temporaryPrefix.utf8) || LogTemporaryFile.contains(name)
    }
}

/// The calls that a fault affects; all given conditions must hold.
public struct FaultOccurrence: Hashable, Sendable {
    /// The numbers of the calls, counted from 1.
    public var calls: ClosedRange<Int>?

    /// Every nth call.
    public var every: Int?

    /// The calls after the first n.
    public var after: Int?

    /// The probability of each call, 0 to 1; the choice is determined by the seed of the plan.
    public var probability: Double?

    /// Creates an occurrence from its conditions; every call if there is none.
    public init(calls: ClosedRange<Int>? = nil, every: Int? = nil, after: Int? = nil, probability: Double? = nil) {
        self.calls = calls
        self.every = every
        self.after = after
        self.probability = probability
    }

    func includes(_ number: Int, _ generator: inout SplitMix64) -> Bool {
        if let calls, !calls.contains(number) { return false }
        if let every, every < 1 || number % every != 0 { return false }
        if let after, number <= after { return false }
        if let probability, generator.nextFraction() >= probability { return false }
        return true
    }
}

extension FaultOccurrence: CustomStringConvertible {
    public var description: String {
        var conditions: [String] = []
        if let calls {
            conditions.append(
                calls.count == 1 ? "call \(calls.lowerBound)" : "calls \(calls.lowerBound) to \(calls.upperBound)")
        }
        if let every { conditions.append("every \(every)") }
        if let after { conditions.append("after \(after)") }
        if let probability { conditions.append("probability \(probability)") }
        return conditions.isEmpty ? "always" : conditions.joined(separator: ", ")
    }
}

/// Corrupted data that a device returns. The stored bytes are unchanged, so reads are correct after the rule is lifted.
///
/// Sectors have 512 bytes and are counted from the start of the file.
///
/// Not simulated: damage of what is read through a mapping or copied by `copyRange`; damage of names, sizes, times and
/// extended attributes; and a drive that detects the damage and reports an error, for which `.fail(.read, with: .ioError)`
/// stands. A rule damages one place of a file; several rules damage several.
public enum FileCorruption: Hashable, Sendable {
    /// A flipped bit; bit 0 is the lowest of the byte at `offset`.
    case flippedBit(offset: Int64, bit: Int)

    /// A sector reads as zeros.
    case zeroedSector(Int64)

    /// A sector reads as before its last write: a lost write. Only writes through the same ``FaultingFileSystem`` while
    /// the rule is in its plan count.
    case staleSector(Int64)

    /// A sector reads as another one of the same file: a misdirected read.
    case misdirectedSector(Int64, from: Int64)

    /// The size of a sector.
    public static let sectorSizeInBytes: Int64 = 512
}

extension FileCorruption: CustomStringConvertible {
    public var description: String {
        switch self {
        case .flippedBit(let offset, let bit): "bit \(bit) of byte \(offset) flipped"
        case .zeroedSector(let sector): "sector \(sector) zeroed"
        case .staleSector(let sector): "sector \(sector) stale"
        case .misdirectedSector(let sector, let other): "sector \(sector) read from \(other)"
        }
    }
}
