public import ForgeFileSystem
import Synchronization
import SystemPackage

/// Any file system with faults in it, planned and repeatable, and a log of all that was called.
///
/// ```swift
/// let plan = FaultPlan([.fail(.synchronize, every: 2, with: .ioError)])
/// let fileSystem = FaultingFileSystem(InMemoryFileSystem(), plan: plan)
/// ```
///
/// Without rules it changes nothing and only records. The six calls of `FileSystemProtocol` are made of its own POSIX
/// calls, so faults strike inside of them too. Lookups of its own, for paths and inode numbers, go to the file system
/// below directly: they are neither counted nor logged, and open no descriptors.
///
/// One lock is held for each call, the call below included, so the order of the log is the order of the effects; only
/// a `lock` that waits does so outside. A file system below must not be used past this one while descriptors are open
/// that were opened through it.
public final class FaultingFileSystem: POSIXFileSystem {
    /// The file system below, where what is not prevented takes effect.
    public let base: any POSIXFileSystem

    /// What goes wrong.
    public let plan: FaultPlan

    /// What was called.
    public let log: OperationLog

    /// The time that delays pass on.
    public let clock: VirtualClock

    let state = Mutex(State())

    @TaskLocal private static var threadName: String?

    /// Puts a plan between a file system and its user.
    public init(
        _ base: any POSIXFileSystem, plan: FaultPlan = FaultPlan(), log: OperationLog = OperationLog(),
        clock: VirtualClock = VirtualClock()
    ) {
        self.base = base
        self.plan = plan
        self.log = log
        self.clock = clock
    }

    // MARK: What is open

    /// The descriptors that were opened through this object and not closed yet, in ascending order.
    public var openDescriptors: [Descriptor] {
        state.withLock { $0.files.keys.sorted { $0.rawValue < $1.rawValue } }
    }

    /// The path that an open descriptor stands for; nil if it was not opened through this object.
    ///
    /// It is made of the paths that led to it, with `.` and `..` taken out as text, links not looked at, and follows the
    /// renames that go through this object.
    public func path(of descriptor: Descriptor) -> POSIXPath? {
        state.withLock { $0.files[descriptor]?.path }
    }

    // MARK: Crashing

    /// Whether a planned crash has happened.
    public var isCrashed: Bool { state.withLock { $0.isCrashed } }

    /// Ends the process as `kill -9` does: what it had open is closed, and from now on every call throws `EIO` with
    /// ``ProcessCrashed`` underlying.
    public func crash() {
        state.withLock { crash(&$0) }
    }

    /// Stands for a new process from now on, with nothing open.
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
            // What the process had open is closed; there is nobody left to hear of a failure.
            for descriptor in state.files.keys { do { try base.close(descriptor) } catch _ {} }
        }
        state.files = [:]
        state.pendingErrors = [:]
    }

    // MARK: Threads

    /// Runs `body` under a name that rules can be limited to, and that is shown in the log.
    ///
    /// The name belongs to the task, or outside of one to the thread, and is not passed on to a dispatch queue.
    public static func onThread<Result>(named name: String, _ body: () throws -> Result) rethrows -> Result {
        try $threadName.withValue(name, operation: body)
    }

    static var currentThread: String? { threadName }

    // MARK: Chance

    public func randomBits() -> UInt64 { base.randomBits() }
}

extension FaultingFileSystem {
    /// A descriptor that was opened through this object.
    struct OpenedFile: Sendable {
        var path: POSIXPath
        var identity: InodeIdentity
        /// The inode as the log numbers it.
        var inode: Int
        var isRegular: Bool
        /// Whether what is written goes to the end, whatever offset is given.
        var appends: Bool
        /// The same for descriptors that were duplicated from one another.
        var openFile: Int
        /// The descriptor as the log numbers it.
        var number: Int
    }

    struct State: Sendable {
        var files: [Descriptor: OpenedFile] = [:]
        var isCrashed = false
        /// How many processes have come to their end.
        var processCount = 0
        /// Failures to write back that open files have not heard of yet.
        var pendingErrors: [Int: Errno] = [:]
        var openFileCount = 0
        var staleSectors: [InodeIdentity: [Int64: [UInt8]]] = [:]

        /// The lowest number above those of the standard streams that the log has free.
        var freeNumber: Int {
            let taken = Set(files.values.map(\.number))
            var number = 3
            while taken.contains(number) { number += 1 }
            return number
        }

        /// The path from the root, or from the working directory, that a path given to a call stands for.
        func resolve(_ path: POSIXPath, at directory: Descriptor) -> POSIXPath {
            guard !path.isAbsolute, let start = files[directory]?.path else { return path.withoutDots }
            return start.appending(path).withoutDots
        }

        /// Gives what is open below a path that was renamed its new path.
        mutating func move(_ old: POSIXPath, to new: POSIXPath, isExchange: Bool) {
            for (descriptor, file) in files {
                if let path = file.path.replacingPrefix(old, by: new) {
                    files[descriptor]?.path = path
                } else if isExchange, let path = file.path.replacingPrefix(new, by: old) {
                    files[descriptor]?.path = path
                }
            }
        }

        /// Lets open files hear of a failure to write back at their next synchronisation.
        mutating func plantError(_ errno: Errno, in identity: InodeIdentity, except openFile: Int?) {
            for file in files.values where file.identity == identity && file.openFile != openFile {
                pendingErrors[file.openFile] = errno
            }
        }
    }
}

extension POSIXPath {
    /// The path with empty components and `.` taken out, and each `..` together with the name in front of it.
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

    /// The path with `prefix` exchanged for another one, or nil if it is not `prefix` or below.
    func replacingPrefix(_ prefix: POSIXPath, by other: POSIXPath) -> POSIXPath? {
        guard bytes.starts(with: prefix.bytes) else { return nil }
        let rest = bytes.dropFirst(prefix.count)
        guard rest.isEmpty || rest.first == UInt8(ascii: "/") else { return nil }
        return POSIXPath(Array(other.bytes) + rest)
    }
}
