public import Logging

extension FileKVStore {
    /// The options of a store, with default values.
    public struct Options: Sendable {
        /// The maximum size of an encoded value; a larger one is refused with `.valueTooLarge`. 256 MiB by default, at
        /// most 4 GiB.
        public var maximumValueSizeInBytes: Int

        /// The number by which outdated bytes in the log may exceed current ones before it is compacted: 4 MiB by
        /// default, the size to which SQLite's write-ahead log grows.
        ///
        /// When the store is closed, the log is compacted if more than half of it, and more than 4 KiB, is outdated.
        public var compactionFloorInBytes: Int

        /// Whether a background thread compacts the log. True by default.
        ///
        /// If false, the write that makes compaction necessary performs it before it returns: that write is slower, and
        /// every run makes the same file-system calls. A shared store always compacts its log in a write.
        public var compactsInBackground: Bool

        /// The permitted use: ``FileKVStore/Access/readWrite`` by default.
        public var access: Access

        /// Whether other processes may have the store open at the same time; not by default. All objects for a store in
        /// one process must agree.
        public var sharing: Sharing

        /// The time that a call in a shared store waits for writes of other processes: 10 seconds by default. After
        /// that it throws `.unavailable(.inUse(processID:))`. Each process holds the lock for microseconds, and during
        /// compaction for as long as it takes to write the store's content; a process that is stopped meanwhile keeps
        /// it.
        public var lockTimeout: Duration

        /// The interval at which a shared store is checked for remote changes while streams observe them: 20
        /// milliseconds by default, between a millisecond and a day. A check is one load from memory.
        public var pollingInterval: Duration

        /// Whether other objects of this process may not have the store open at the same time.
        var isOnlyUse = false

        /// The process information available to the store.
        package var processes = ProcessTable.system

        /// Whether records are stored into mapped memory if the file system supports it, or always written.
        package var isMapped: Bool {
            get { space.isMapped }
            set { space.isMapped = newValue }
        }

        /// Reserves only a page after the log, for tests that larger reservations would slow down.
        package mutating func reserveLittle() {
            space.growth = 0
            space.granularity = 16_384
        }

        var space = LogSpace.Options()

        /// The logger for issues; it receives keys and paths, never values.
        ///
        /// A test that breaks stores on purpose can pass `Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }`.
        public var logger: Logger

        /// Called with every issue, on the calling thread, with no lock of the store held.
        ///
        /// The call may release the last object for the store: opening the store again from here would then deadlock.
        public var onIssue: (@Sendable (KVStoreIssue) -> Void)?

        /// Creates options with default values.
        public init(
            access: Access = .readWrite, sharing: Sharing = .exclusive, maximumValueSizeInBytes: Int = 256 << 20,
            compactionFloorInBytes: Int = 4 << 20, compactsInBackground: Bool = true,
            lockTimeout: Duration = .seconds(10), pollingInterval: Duration = .milliseconds(20),
            logger: Logger = Logger(label: "ForgeKVStore"), onIssue: (@Sendable (KVStoreIssue) -> Void)? = nil
        ) {
            self.access = access
            self.sharing = sharing
            self.maximumValueSizeInBytes = maximumValueSizeInBytes
            self.compactionFloorInBytes = compactionFloorInBytes
            self.compactsInBackground = compactsInBackground
            self.lockTimeout = lockTimeout
            self.pollingInterval = pollingInterval
            self.logger = logger
            self.onIssue = onIssue
        }

        /// The limit on values, at most that of the format.
        var valueLimit: Int {
            min(max(maximumValueSizeInBytes, 0), Self.formatLimit)
        }

        /// The maximum size of a value that a record can represent.
        static let formatLimit = LogRecord.maximumPayloadSize - LogRecord.payloadPrefixSize - KeyName.maximumLength

        func report(_ issue: KVStoreIssue) {
            switch issue {
            // Expected after a power cut or a kill, and nothing acknowledged is lost.
            case .tornTail: logger.debug("\(issue)")
            case .compactionFailed, .undecodable, .sharing: logger.warning("\(issue)")
            case .damage, .missingRecords, .readOnly, .assignment: logger.error("\(issue)")
            }
            onIssue?(issue)
        }
    }
}
