public import Logging

extension FileKVStore {
    /// How a store behaves; every option has a default.
    public struct Options: Sendable {
        /// The longest encoded value; a longer one is refused with `.valueTooLarge`. 256 MiB by default, at most 4 GiB.
        public var maximumValueSizeInBytes: Int

        /// How many more outdated bytes than current ones the log may contain before it is rewritten: 4 MiB by
        /// default, the size to which SQLite's write-ahead log grows.
        ///
        /// When the store is closed, the log is rewritten if more than half of it is outdated, and more than 4 KiB.
        public var compactionFloorInBytes: Int

        /// Whether a background thread rewrites the log. True by default.
        ///
        /// If false, the write that makes the rewriting necessary performs it before it returns: that write is slower,
        /// and every run makes the same calls of the file system. A shared store always rewrites its log in a write.
        public var compactsInBackground = true

        /// What the store may be used for: ``FileKVStore/Access/readWrite`` by default.
        public var access: Access

        /// Whether other processes may have the store open at the same time; not by default. All objects for a store in
        /// one process have to agree.
        public var sharing: Sharing

        /// How long a call waits, in a store that is shared, for other processes that write: 10 seconds by default.
        /// After that it throws `.unavailable(.inUse(processID:))`. Each has the lock for microseconds, and for as long
        /// as it takes to write the store's content when the log is rewritten; a process that is stopped meanwhile
        /// keeps it.
        public var lockTimeout: Duration = .seconds(10)

        /// How often a shared store is checked for changes by other processes while streams observe them: every 20
        /// milliseconds by default, between a millisecond and a day. A check is one load from memory.
        public var pollingInterval: Duration = .milliseconds(20)

        /// What the store knows of processes.
        package var processes = ProcessTable.system

        /// Whether records are stored into mapped memory where the file system can do that, or always written.
        package var isMapped: Bool {
            get { space.isMapped }
            set { space.isMapped = newValue }
        }

        /// Reserves only a page behind the log, for tests that reserved space would slow down.
        package mutating func reserveLittle() {
            space.growth = 0
            space.granularity = 16_384
        }

        var space = LogSpace.Options()

        /// Where issues are logged; keys and paths are, values never.
        ///
        /// A test that breaks stores on purpose can pass `Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }`.
        public var logger: Logger

        /// Called with every issue, on the thread of the call that met it, no lock of the store being held.
        ///
        /// That call may be the end of the last object for the store: to open the store again from here would then wait
        /// for itself.
        public var onIssue: (@Sendable (KVStoreIssue) -> Void)?

        /// Creates options; each has a default.
        public init(
            access: Access = .readWrite, sharing: Sharing = .exclusive, maximumValueSizeInBytes: Int = 256 << 20,
            compactionFloorInBytes: Int = 4 << 20,
            logger: Logger = Logger(label: "ForgeKVStore"), onIssue: (@Sendable (KVStoreIssue) -> Void)? = nil
        ) {
            self.access = access
            self.sharing = sharing
            self.maximumValueSizeInBytes = maximumValueSizeInBytes
            self.compactionFloorInBytes = compactionFloorInBytes
            self.logger = logger
            self.onIssue = onIssue
        }

        /// The limit on values, as far as the format can hold it.
        var valueLimit: Int {
            min(max(maximumValueSizeInBytes, 0), Self.formatLimit)
        }

        /// What a record's length leaves for the value.
        static let formatLimit = LogRecord.maximumPayloadSize - LogRecord.payloadPrefixSize - KeyName.maximumLength

        func report(_ issue: KVStoreIssue) {
            switch issue {
            case .tornTail: logger.notice("\(issue)")
            case .compactionFailed, .undecodable, .sharing: logger.warning("\(issue)")
            case .damage, .missingRecords, .readOnly, .assignment: logger.error("\(issue)")
            }
            onIssue?(issue)
        }
    }
}
