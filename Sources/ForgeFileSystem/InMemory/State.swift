import Dispatch
import SystemPackage

extension InMemoryFileSystem {
    /// The whole tree with everything that is open in it. Inodes, open files, devices and processes are named by their
    /// places in four tables.
    struct State: Sendable {
        static let root = 0

        let options: Options
        let folding: NameFolding
        var inodes: [Inode] = []
        var devices: [Device] = []
        var openFiles = OpenFileTable()
        var processes: [Process] = []
        /// Those who wait for a lock; each release wakes all, and they compete anew.
        var lockWaiters: [DispatchSemaphore] = []
        var writeError: (any Error)?
        var readError: (any Error)?
        /// What happened to the tree since somebody asked for it to be recorded; nil for as long as nobody did.
        var recording: EffectRecording?
        /// What stands behind an `EIO`.
        private(set) var cause: (any Error)?

        private var freeInodes: [Int] = []
        private var lastNumber: UInt64 = 0
        private var tick: Int64 = 0
        private var randomState: UInt64
        /// The time of the operation in progress, once it needed one.
        private var stamp: FileTime?
        /// The process that asks.
        private(set) var current = 0

        init(options: Options) {
            self.options = options
            randomState = options.seed
            folding = NameFolding(
                ignoresCase: options.isCaseInsensitive, ignoresNormalisation: options.isNormalisationInsensitive)
            plantRoot()
        }

        /// The tree of an image, with nothing open in it.
        init(image: DiskImage) {
            options = image.options
            folding = image.folding
            inodes = image.inodes
            lastNumber = image.lastNumber
            tick = image.tick
            randomState = image.randomState
            devices = [
                Device(
                    quota: options.quota, isReadOnly: options.isReadOnly,
                    usedBlocks: inodes.reduce(0) { $0 + $1.content.allocatedBlocks }, usedInodes: inodes.count)
            ]
        }

        /// Everything that a name leads to, as it is now.
        var image: DiskImage {
            DiskImage(nodes, options: options, lastNumber: lastNumber, tick: tick, randomState: randomState)
        }

        /// Starts an operation of a process.
        mutating func begin(_ process: Int) {
            current = process
            stamp = nil
            recording?.operation += 1
        }

        /// The time of the operation in progress, the same however often it is asked for.
        mutating func now() -> FileTime {
            if let stamp { return stamp }
            let time: FileTime
            if let clock = options.clock {
                time = clock()
            } else {
                tick += 1
                time = FileTime(
                    seconds: 1_000_000_000 + tick / 1000,
                    nanoseconds: Int32(truncatingIfNeeded: tick % 1000) * 1_000_000)
            }
            stamp = time
            return time
        }

        /// The next 64 bits of the generator (SplitMix64).
        mutating func randomBits() -> UInt64 {
            randomState &+= 0x9E37_79B9_7F4A_7C15
            var bits = randomState
            bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
            bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
            return bits ^ bits >> 31
        }

        /// The error number of an operation that fails because it was told to.
        mutating func fail(because error: any Error) -> Errno {
            cause = error
            return .ioError
        }

        /// Empties the tree and closes everything that any process has open.
        mutating func reset() {
            for index in processes.indices where processes[index].isAlive {
                closeAll(of: index)
                processes[index].workingDirectory = Self.root
            }
            inodes = []
            freeInodes = []
            devices = []
            writeError = nil
            readError = nil
            recording = nil
            plantRoot()
            inodes[Self.root].holderCount = processes.count { $0.isAlive }
        }

        private mutating func plantRoot() {
            devices = [Device(quota: options.quota, isReadOnly: options.isReadOnly, usedInodes: 1)]
            stamp = nil
            let time = now()
            lastNumber += 1
            var root = Inode(
                number: lastNumber, type: .directory, permissions: FilePermissions(rawValue: 0o755),
                owner: UserID(0), group: GroupID(0), device: 0, accessed: time, modified: time, changed: time)
            root.nameCount = 1
            inodes = [root]
        }
    }
}

extension InMemoryFileSystem.State {
    typealias Inode = InMemoryFileSystem.Inode

    /// Stores an inode that no name leads to yet.
    mutating func insert(_ inode: Inode) -> Int {
        var inode = inode
        lastNumber += 1
        inode.number = lastNumber
        devices[inode.device].usedInodes += 1
        guard let index = freeInodes.popLast() else {
            inodes.append(inode)
            return inodes.count - 1
        }
        inodes[index] = inode
        return index
    }

    /// Keeps an inode for as long as somebody uses it.
    mutating func hold(_ index: Int) {
        inodes[index].holderCount += 1
    }

    /// Gives up one use of an inode, which goes if nobody else uses it and no name leads to it.
    mutating func release(_ index: Int) {
        inodes[index].holderCount -= 1
        removeIfUnused(index)
    }

    /// Frees an inode that nothing leads to any more, and the removed directories above that it kept.
    mutating func removeIfUnused(_ index: Int) {
        var index = index
        while inodes[index].nameCount == 0, inodes[index].holderCount == 0 {
            let inode = inodes[index]
            devices[inode.device].usedInodes -= 1
            devices[inode.device].usedBlocks -= inode.content.allocatedBlocks
            inodes[index].content = FileContent()
            inodes[index].names = NameTable()
            inodes[index].target = nil
            freeInodes.append(index)
            guard inode.isDirectory else { return }
            index = inode.parent
            inodes[index].holderCount -= 1
        }
    }

    /// Closes every descriptor of a process.
    mutating func closeAll(of process: Int) {
        for descriptor in processes[process].descriptors.all {
            guard let file = processes[process].descriptors.remove(descriptor) else { continue }
            releaseOpenFile(file)
        }
    }
}
