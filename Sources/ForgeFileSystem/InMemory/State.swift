import Dispatch
import SystemPackage

extension InMemoryFileSystem {
    /// The whole tree with all open files. Inodes, open files, devices and processes are identified by their indices in
    /// four tables.
    ///
    /// It is not copyable because debug builds would copy it for each call of a non-mutating method.
    struct State: ~Copyable, Sendable {
        static let root = 0

        let options: Options
        let folding: NameFolding
        var inodes: [Inode] = []
        /// The contents of regular files, by inode index.
        var contents: [FileContent] = []
        /// The entries of directories, by inode index. It ends after the last directory: most inodes are files.
        var names: [NameTable] = []
        /// The targets of symbolic links.
        var targets: [Int: POSIXPath] = [:]
        /// The user attributes of inodes that have some.
        var extendedAttributes: [Int: ExtendedAttributes] = [:]
        var devices: [Device] = []
        var openFiles = OpenFileTable()
        var mappings: [Mapping] = []
        /// The contents of FIFOs, by inode index.
        var pipes: [Int: Pipe] = [:]
        var processes: [Process] = []
        /// The threads that wait for a lock; each release wakes all of them, and they compete again.
        var lockWaiters: [DispatchSemaphore] = []
        var writeError: (any Error)?
        var readError: (any Error)?
        /// The watches of directories, of all processes.
        var watches: [InMemoryWatch] = []
        /// The observers of signals, of all processes.
        var signalObservers: [SignalObserver] = []
        /// The effects recorded so far; nil while nothing is recorded.
        var recording: EffectRecording?
        /// The underlying error of an `EIO`.
        private(set) var cause: (any Error)?

        private var freeInodes: [Int] = []
        private var lastNumber: UInt64 = 0
        private var tick: Int64 = 0
        private var randomState: UInt64
        /// The time of the operation in progress, once it needed one.
        private var stamp: FileTime?
        /// The process that makes the current call.
        private(set) var current = 0
        /// Whether it passes every permission check.
        private(set) var isSuperuser = false

        init(options: Options) {
            self.options = options
            randomState = options.seed
            folding = NameFolding(
                ignoresCase: options.isCaseInsensitive, ignoresNormalisation: options.isNormalisationInsensitive)
            plantRoot()
        }

        /// The tree of an image, without open files.
        init(image: DiskImage) {
            options = image.options
            folding = image.folding
            inodes = image.inodes
            contents = image.contents
            names = image.names
            targets = image.targets
            extendedAttributes = image.extendedAttributes
            lastNumber = image.lastNumber
            tick = image.tick
            randomState = image.randomState
            devices = [
                Device(
                    quota: options.quota, isReadOnly: options.isReadOnly,
                    usedBlocks: contents.reduce(0) { $0 + $1.allocatedBlocks }, usedInodes: inodes.count)
            ]
        }

        /// All named files, as they are now.
        var image: DiskImage {
            DiskImage(nodes, options: options, lastNumber: lastNumber, tick: tick, randomState: randomState)
        }

        /// Starts an operation of a process.
        mutating func begin(_ process: Int) {
            current = process
            isSuperuser = processes[process].isSuperuser
            stamp = nil
            recording?.operation += 1
        }

        /// The time of the operation in progress, constant during the operation.
        @inline(__always) mutating func now() -> FileTime { stamp ?? nextStamp() }

        private mutating func nextStamp() -> FileTime {
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

        /// The error number of an operation with an injected failure.
        mutating func failure(because error: any Error) -> Errno {
            cause = error
            return .ioError
        }

        /// Empties the tree and closes all open files of all processes.
        mutating func reset() {
            for index in processes.indices where processes[index].isAlive {
                closeAll(of: index)
                processes[index].workingDirectory = Self.root
            }
            inodes = []
            contents = []
            names = []
            targets = [:]
            extendedAttributes = [:]
            freeInodes = []
            devices = []
            pipes = [:]
            writeError = nil
            readError = nil
            recording = nil
            for watch in watches { watch.loseAll() }
            plantRoot()
            inodes[Self.root].holderCount = Int32(processes.count { $0.isAlive })
        }

        private mutating func plantRoot() {
            devices = [Device(quota: options.quota, isReadOnly: options.isReadOnly, usedInodes: 1)]
            stamp = nil
            let time = now()
            lastNumber += 1
            var root = Inode()
            root.kind = .directory
            root.number = lastNumber
            root.permissions = FilePermissions(rawValue: 0o755)
            root.setTimes(time)
            root.nameCount = 1
            _ = place(root)
        }
    }
}

extension InMemoryFileSystem.State {
    typealias Inode = InMemoryFileSystem.Inode

    /// The number that `stat` shows for the inode at an index: that of a removed inode is reused at once, as on ext4.
    @inline(__always) func inodeNumber(_ index: Int) -> UInt64 { UInt64(index) + 1 }

    // Accessors of single fields: a property of the inode would copy all of it.

    @inline(__always) func isDirectory(_ index: Int) -> Bool { inodes[index].kind == .directory }
    @inline(__always) func isSymbolicLink(_ index: Int) -> Bool { inodes[index].kind == .symbolicLink }
    @inline(__always) func isRegular(_ index: Int) -> Bool { inodes[index].kind == .regular }

    /// Whether a directory was removed and is only held open.
    @inline(__always) func isRemovedDirectory(_ index: Int) -> Bool {
        inodes[index].nameCount == 0 && inodes[index].kind == .directory
    }

    /// Assigns a number and an index to a new inode, which has no name yet.
    mutating func add(_ inode: consuming Inode) -> Int {
        lastNumber += 1
        devices[inode.device].usedInodes += 1
        inode.number = lastNumber
        return place(inode)
    }

    private mutating func place(_ inode: consuming Inode) -> Int {
        let index = freeInodes.popLast() ?? inodes.count
        if inode.isDirectory {
            while names.count <= index { names.append(NameTable()) }
        }
        if index < inodes.count {
            inodes[index] = inode
        } else {
            inodes.append(inode)
            contents.append(FileContent())
        }
        return index
    }

    /// Adds a holder of an inode.
    mutating func hold(_ index: Int) {
        inodes[index].holderCount += 1
    }

    /// Removes a holder of an inode, which is freed with its last holder and name.
    mutating func release(_ index: Int) {
        inodes[index].holderCount -= 1
        if inodes[index].nameCount == 0 { removeIfUnused(index) }
    }

    /// Frees an inode without names and holders, and the removed directories above that it kept.
    mutating func removeIfUnused(_ index: Int) {
        var index = index
        while inodes[index].nameCount == 0, inodes[index].holderCount == 0 {
            devices[inodes[index].device].usedInodes -= 1
            devices[inodes[index].device].usedBlocks -= contents[index].allocatedBlocks
            contents[index] = FileContent()
            freeInodes.append(index)
            if isSymbolicLink(index) { targets[index] = nil }
            if !extendedAttributes.isEmpty { extendedAttributes[index] = nil }
            guard isDirectory(index) else { return }
            names[index] = NameTable()
            index = inodes[index].parent
            inodes[index].holderCount -= 1
        }
    }

    /// Closes every descriptor of a process and removes its mappings.
    mutating func closeAll(of process: Int) {
        unmapAll(of: process)
        for descriptor in processes[process].descriptors.all {
            guard let file = processes[process].descriptors.remove(descriptor) else { continue }
            releaseOpenFile(file)
        }
    }
}
