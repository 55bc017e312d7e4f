#if os(Linux)
import ForgeFileSystem
import SystemPackage

/// Answers the kernel's requests from an in-memory file system.
///
/// The kernel resolves paths name by name; the file system makes all permission checks and changes. The kernel must not
/// cache names, attributes or, except for mappings, content.
///
/// Serves one request after another and waits only for the next one: a request for a lock is answered once the lock is
/// free.
final class FUSEServer {
    let fileSystem: InMemoryFileSystem
    var nodes: NodeTable
    /// The entries of each open directory, as of the start of its listing.
    var listings: [UInt64: [DirectoryEntry]] = [:]
    var waitingLocks: [WaitingLock] = []
    /// Receives every request and its outcome.
    var trace: ((String) -> Void)?
    /// The flags of replies to `open`: direct I/O where mapping stays possible with it.
    private var openFlags: UInt32 = 0

    /// The answer to a request.
    enum Answer {
        case reply(FUSEReply)
        /// A complete reply to another request.
        case finished(FUSEReply)
        /// The operation has no reply.
        case none
        /// The reply follows when a lock is free.
        case later
    }

    /// A server for a tree; `fileSystem` is a process of its own that takes the identity of each caller.
    init(_ fileSystem: InMemoryFileSystem) throws(FileSystemError) {
        self.fileSystem = fileSystem
        nodes = NodeTable(root: try fileSystem.openNode("/"))
    }

    /// The replies to the request in `bytes`: its own, and those of pending requests that it unblocks.
    func answer(_ bytes: UnsafeRawBufferPointer) -> [FUSEReply] {
        guard var request = FUSERequest(bytes) else { return [] }
        let groups = request.user.rawValue == 0 ? [] : SupplementaryGroups.of(processID: request.processID)
        fileSystem.assumeIdentity(user: request.user, group: request.group, groups: groups)
        var replies: [FUSEReply] = []
        let told = trace.map { _ in request.description }
        var outcome = "done"
        do throws(FileSystemError) {
            switch try handle(&request) {
            case .reply(var reply):
                reply.finish(unique: request.unique)
                replies.append(reply)
            case .finished(let reply): replies.append(reply)
            case .none, .later: break
            }
        } catch {
            outcome = error.errno.name
            replies.append(Self.failure(error.errno, of: request.unique))
        }
        if let trace, let told { trace("\(told): \(outcome)") }
        return replies + retryLocks()
    }

    static func failure(_ errno: Errno, of unique: UInt64) -> FUSEReply {
        var reply = FUSEReply(capacity: 0)
        reply.finish(unique: unique, error: errno)
        return reply
    }

    private func handle(_ request: inout FUSERequest) throws(FileSystemError) -> Answer {
        guard let operation = FUSEProtocol.Operation(rawValue: request.operation) else {
            throw FileSystemError(.resolve, .noFunction)
        }
        switch operation {
        case .initialize: return .reply(try initialize(&request))
        case .destroy: return .reply(FUSEReply(capacity: 0))
        case .lookUp: return .reply(try lookUp(&request))
        case .forget: return try forget(&request)
        case .batchForget: return try forgetMany(&request)
        case .getAttributes: return .reply(try attributes(&request))
        case .setAttributes: return .reply(try setAttributes(&request))
        case .access: return .reply(try access(&request))
        case .readLink: return .reply(try readLink(&request))
        case .symbolicLink: return .reply(try makeSymbolicLink(&request))
        case .makeNode: return .reply(try makeNode(&request))
        case .makeDirectory: return .reply(try makeDirectory(&request))
        case .unlink: return .reply(try unlink(&request))
        case .removeDirectory: return .reply(try removeDirectory(&request))
        case .rename: return .reply(try rename(&request, hasFlags: false))
        case .rename2: return .reply(try rename(&request, hasFlags: true))
        case .link: return .reply(try link(&request))
        case .open: return .reply(try open(&request, openFlags))
        case .create: return .reply(try create(&request, openFlags))
        case .read: return .reply(try read(&request))
        case .write: return .reply(try write(&request))
        case .release: return .reply(try release(&request))
        case .flush: return .reply(FUSEReply(capacity: 0))
        case .synchronize, .synchronizeDirectory: return .reply(try synchronize(&request))
        case .allocate: return .reply(try allocate(&request))
        case .fileSystemStatus: return .reply(try fileSystemStatus(request))
        case .openDirectory: return .reply(try openDirectory(request))
        case .readDirectory: return .reply(try list(&request, withAttributes: false))
        case .readDirectoryPlus: return .reply(try list(&request, withAttributes: true))
        case .releaseDirectory: return .reply(try releaseDirectory(&request))
        case .getLock: return .reply(try lockInTheWay(&request))
        case .setLock: return try lock(&request, waiting: false)
        case .setLockWaiting: return try lock(&request, waiting: true)
        case .interrupt: return try interrupt(&request)
        }
    }

    private func initialize(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        let major = try request.u32()
        let minor = try request.u32()
        let readAhead = try request.u32()
        var offered = UInt64(try request.u32())
        guard major == FUSEProtocol.majorVersion, minor >= 31 else {
            throw FileSystemError(.resolve, Errno(rawValue: 71))  // EPROTO
        }
        typealias Features = FUSEProtocol.Features
        if Features(rawValue: offered).contains(.extended) { offered |= UInt64(try request.u32()) << 32 }
        let wanted: Features = [
            .atomicTruncation, .bigWrites, .fileLocks, .readDirectoryPlus, .dropsPrivilegeBits, .maximumPages,
            .extended, .directMapping,
        ]
        let agreed = wanted.intersection(Features(rawValue: offered))
        // Without it a file could not be mapped, so its pages are cached while it is open.
        openFlags = agreed.contains(.directMapping) ? FUSEProtocol.directIO : 0
        var reply = FUSEReply()
        reply.append(FUSEProtocol.majorVersion)
        reply.append(min(minor, 39))
        reply.append(readAhead)
        reply.append(UInt32(truncatingIfNeeded: agreed.rawValue))
        reply.append(UInt16(16))
        reply.append(UInt16(12))
        reply.append(UInt32(FUSEDevice.maximumWriteSize))
        reply.append(UInt32(1))
        reply.append(UInt16(FUSEDevice.maximumWriteSize / 4096))
        reply.append(UInt16(0))
        reply.append(UInt32(truncatingIfNeeded: agreed.rawValue >> 32))
        reply.appendZeros(28)
        return reply
    }

    // MARK: Nodes and handles of requests

    /// The descriptor that holds a node.
    func node(_ number: UInt64) throws(FileSystemError) -> Descriptor {
        guard let descriptor = nodes[number] else { throw FileSystemError(.resolve, .staleNFSFileHandle) }
        return descriptor
    }

    /// The open file of a handle.
    func descriptor(_ handle: UInt64) throws(FileSystemError) -> Descriptor {
        guard let number = Int32(exactly: handle) else { throw FileSystemError(.resolve, .badFileDescriptor) }
        return Descriptor(rawValue: number)
    }

    func handle(_ descriptor: Descriptor) -> UInt64 { UInt64(UInt32(bitPattern: descriptor.rawValue)) }
}

/// Locks on whole files (`flock(2)`); the kernel keeps those on ranges itself.
extension FUSEServer {
    /// A pending request for a lock.
    struct WaitingLock {
        var unique: UInt64
        var descriptor: Descriptor
        var mode: LockMode
    }

    func lock(_ request: inout FUSERequest, waiting: Bool) throws(FileSystemError) -> Answer {
        let descriptor = try descriptor(request.u64())
        try request.skip(8 + 16)
        let type = try request.u32()
        try request.skip(4)
        guard try request.u32() & FUSEProtocol.wholeFileLock != 0 else { throw FileSystemError(.lock, .noFunction) }
        let mode: LockMode
        switch type {
        case 0: mode = .shared
        case 1: mode = .exclusive
        case 2: mode = .unlocked
        default: throw FileSystemError(.lock, .invalidArgument)
        }
        do throws(FileSystemError) {
            try fileSystem.lock(descriptor, mode, waiting: false)
        } catch {
            guard waiting, error.errno == .resourceTemporarilyUnavailable else { throw error }
            waitingLocks.append(WaitingLock(unique: request.unique, descriptor: descriptor, mode: mode))
            return .later
        }
        return .reply(FUSEReply(capacity: 0))
    }

    /// `flock(2)` cannot query a lock; only range locks can.
    func lockInTheWay(_ request: inout FUSERequest) throws(FileSystemError) -> FUSEReply {
        throw FileSystemError(.lock, .noFunction)
    }

    /// Grants the pending locks that are free by now, oldest request first.
    func retryLocks() -> [FUSEReply] {
        guard !waitingLocks.isEmpty else { return [] }
        var replies: [FUSEReply] = []
        waitingLocks.removeAll { waiting in
            do throws(FileSystemError) {
                try fileSystem.lock(waiting.descriptor, waiting.mode, waiting: false)
                var reply = FUSEReply(capacity: 0)
                reply.finish(unique: waiting.unique)
                replies.append(reply)
            } catch {
                guard error.errno != .resourceTemporarilyUnavailable else { return false }
                replies.append(Self.failure(error.errno, of: waiting.unique))
            }
            return true
        }
        return replies
    }

    /// A signal arrived for a pending request; only lock requests can be pending.
    func interrupt(_ request: inout FUSERequest) throws(FileSystemError) -> Answer {
        let unique = try request.u64()
        guard let index = waitingLocks.firstIndex(where: { $0.unique == unique }) else { return .none }
        waitingLocks.remove(at: index)
        return .finished(Self.failure(.interrupted, of: unique))
    }
}

/// The nodes that the kernel knows, by inode number, with their lookup counts.
struct NodeTable {
    private struct Known {
        var descriptor: Descriptor
        var lookUpCount: UInt64
    }

    private var known: [UInt64: Known]

    init(root: Descriptor) {
        known = [FUSEProtocol.rootNode: Known(descriptor: root, lookUpCount: 1)]
    }

    subscript(_ number: UInt64) -> Descriptor? { known[number]?.descriptor }

    /// Counts a lookup of a node; returns the redundant descriptor if the node was known already.
    mutating func add(_ number: UInt64, _ descriptor: Descriptor) -> Descriptor? {
        guard known[number] != nil else {
            known[number] = Known(descriptor: descriptor, lookUpCount: 1)
            return nil
        }
        known[number]?.lookUpCount += 1
        return descriptor
    }

    /// Subtracts from a node's lookup count; returns the descriptor to close once the count is zero.
    mutating func forget(_ number: UInt64, count: UInt64) -> Descriptor? {
        guard number != FUSEProtocol.rootNode, let node = known[number] else { return nil }
        guard node.lookUpCount <= count else {
            known[number]?.lookUpCount -= count
            return nil
        }
        known[number] = nil
        return node.descriptor
    }
}
#endif
