public import ForgeFileSystem
import Synchronization
public import SystemPackage

/// Wraps a file system with planned, reproducible faults and a log of all calls.
///
/// ```swift
/// let plan = FaultPlan([.fail(.synchronize, every: 2, with: .ioError)])
/// let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
/// ```
///
/// Without rules it only records. The `FileSystemProtocol` calls are composed of its own POSIX calls, so faults apply
/// inside them too. Its own lookups of paths and inode numbers go directly to the base: they are neither counted nor
/// logged and open no descriptors.
///
/// A lock is held during each call, including the forwarded call, so that the log has the order of the effects; only a
/// waiting `lock` runs outside. Do not use the base directly while descriptors opened through this object are open.
///
/// Not simulated: real delays, since ``VirtualClock`` only counts them; faults of stores into a mapping, which have no
/// result; and what a power cut loses, for which ForgeCrashTesting explores the states.
public final class FaultingFileSystem: POSIXFileSystem {
    /// The base file system.
    public let base: any POSIXFileSystem

    /// The faults.
    public let plan: FaultPlan

    /// The calls so far.
    public let log: OperationLog

    /// The clock that delays advance.
    public let clock: VirtualClock

    let state = Mutex(State())

    @TaskLocal private static var threadName: String?

    /// Wraps a file system.
    public init(
        _ base: any POSIXFileSystem, plan: FaultPlan = FaultPlan(), log: OperationLog = OperationLog(),
        clock: VirtualClock = VirtualClock()
    ) {
        self.base = base
        self.plan = plan
        self.log = log
        self.clock = clock
    }

    // MARK: Open files

    /// The open descriptors that were opened through this object, in ascending order.
    public var openDescriptors: [Descriptor] {
        state.withLock { $0.files.keys.sorted { $0.rawValue < $1.rawValue } }
    }

    /// The path of an open descriptor; nil if it was not opened through this object.
    ///
    /// It is composed from the paths that led to it, with `.` and `..` removed lexically and links not resolved, and
    /// follows renames made through this object.
    public func path(of descriptor: Descriptor) -> POSIXPath? {
        state.withLock { $0.files[descriptor]?.path }
    }

    // MARK: Crashing

    /// Whether the simulated process was killed.
    public var isCrashed: Bool { state.withLock { $0.isCrashed } }

    /// Kills the simulated process, as `kill -9` does; nothing that was written is lost, as by a power cut. Its files are
    /// closed, and every later call throws `EIO` with an underlying ``ProcessCrashed``.
    public func crash() {
        state.withLock { crash(&$0) }
    }

    /// Starts a new process, with no open files.
    public func restart() {
        state.withLock { state in
            crash(&state)
            state.isCrashed = false
        }
    }

    func crash(_ state: inout State) {
        state.isCrashed = true
        state.processCount += 1
        if let memory = base as? InMemoryFileSystem {
            memory.endProcess()
        } else {
            // After a crash no caller is left to receive the error.
            for descriptor in state.files.keys { do { try base.close(descriptor) } catch _ {} }
        }
        state.files = [:]
        state.pendingErrors = [:]
    }

    // MARK: Threads

    /// Runs `body` under a thread name that rules can match and the log shows.
    ///
    /// The name belongs to the task, or to the thread outside of tasks, and does not carry over to a dispatch queue.
    public static func onThread<Result>(named name: String, _ body: () throws -> Result) rethrows -> Result {
        try $threadName.withValue(name, operation: body)
    }

    static var currentThread: String? { threadName }

    // MARK: Identity

    public var effectiveUser: UserID { base.effectiveUser }

    public var reportsErrorsOfMappings: Bool { base.reportsErrorsOfMappings }

    // MARK: Randomness

    public var preciseTime: FileTime? { base.preciseTime }

    public func randomBits() -> UInt64 { base.randomBits() }
}

extension FaultingFileSystem {
    /// A descriptor that was opened through this object.
    struct OpenedFile: Sendable {
        var path: POSIXPath
        var identity: InodeIdentity
        /// The log number of the inode.
        var inode: Int
        var isRegular: Bool
        /// Whether writes append, whatever their offset.
        var appends: Bool
        /// The identity of the open file description, which duplicated descriptors share.
        var openFile: Int
        /// The log number of the descriptor.
        var number: Int
    }

    struct State: Sendable {
        var files: [Descriptor: OpenedFile] = [:]
        var isCrashed = false
        /// The number of processes that have ended.
        var processCount = 0
        /// Write-back errors that open files have not reported yet.
        var pendingErrors: [Int: Errno] = [:]
        var openFileCount = 0
        var staleSectors: [InodeIdentity: [Int64: [UInt8]]] = [:]

        /// The lowest free log number above those of the standard streams.
        var freeNumber: Int {
            let taken = Set(files.values.map(\.number))
            var number = 3
            while taken.contains(number) { number += 1 }
            return number
        }

        /// Resolves a path of a call, relative to the root or the working directory.
        func resolve(_ path: POSIXPath, at directory: Descriptor) -> POSIXPath {
            guard !path.isAbsolute, let start = files[directory]?.path else { return path.withoutDots }
            return start.appending(path).withoutDots
        }

        /// Updates the paths of open files below a renamed path.
        mutating func move(_ old: POSIXPath, to new: POSIXPath, isExchange: Bool) {
            for (descriptor, file) in files {
                if let path = file.path.replacingPrefix(old, by: new) {
                    files[descriptor]?.path = path
                } else if isExchange, let path = file.path.replacingPrefix(new, by: old) {
                    files[descriptor]?.path = path
                }
            }
        }

        /// Makes open files report a write-back error at their next synchronisation.
        mutating func plantError(_ errno: Errno, in identity: InodeIdentity, except openFile: Int?) {
            for file in files.values where file.identity == identity && file.openFile != openFile {
                pendingErrors[file.openFile] = errno
            }
        }
    }
}

extension POSIXPath {
    /// The path without empty components and `.`, and with each `..` removed together with the name before it.
    var withoutDots: POSIXPath {
        let slash = UInt8(ascii: "/")
        var names: [ArraySlice<UInt8>] = []
        for name in bytes.split(separator: slash) where !name.elementsEqual(".".utf8) {
            let isUp = name.elementsEqual("..".utf8)
            if isUp, let last = names.last, !last.elementsEqual("..".utf8) {
                names.removeLast()
            } else if !isUp || !isAbsolute {
                names.append(name)
            }
        }
        guard !names.isEmpty || isAbsolute else { return isEmpty ? self : "." }
        return POSIXPath((isAbsolute ? [slash] : []) + names.joined(separator: [slash]))
    }

    /// The path with `prefix` replaced; nil if it is neither `prefix` nor below it.
    func replacingPrefix(_ prefix: POSIXPath, by other: POSIXPath) -> POSIXPath? {
        guard bytes.starts(with: prefix.bytes) else { return nil }
        let rest = bytes.dropFirst(prefix.count)
        guard rest.isEmpty || rest.first == UInt8(ascii: "/") else { return nil }
        return POSIXPath(Array(other.bytes) + rest)
    }
}

/// The underlying error of the `EIO` that every call throws after a planned crash.
public struct ProcessCrashed: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String { "the process was crashed on purpose" }

    /// Creates the error.
    public init() {}
}

/// A clock that advances only explicitly: planned delays take no real time.
public final class VirtualClock: Sendable {
    private let time = Mutex(Duration.zero)

    /// Creates a clock at zero.
    public init() {}

    /// The time since its creation.
    public var now: Duration { time.withLock { $0 } }

    /// Advances the clock; a negative duration has no effect.
    public func advance(by duration: Duration) {
        time.withLock { $0 += max(duration, .zero) }
    }
}
