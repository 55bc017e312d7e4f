public import Logging

extension FileKVStore {
    /// How a store behaves; every option has a default.
    public struct Options: Sendable {
        /// The longest encoded value; a longer one is refused with `.valueTooLarge`. 256 MiB by default, at most 4 GiB.
        public var maximumValueSizeInBytes: Int

        /// The log is rewritten when more of it is out of date than is not, and this much more: 1 MiB by default.
        public var compactionFloorInBytes: Int

        /// Whether the log is rewritten by another thread while this one goes on; otherwise by the write that made it
        /// worth the while, which is slower and the same in every run. True by default.
        public var compactsInBackground = true

        /// Whether records are stored into mapped memory where the file system can do that, or always written.
        package var isMapped: Bool {
            get { space.isMapped }
            set { space.isMapped = newValue }
        }

        /// Reserves no more space behind the log than a page, for tests to whom it is a burden.
        package mutating func reserveLittle() {
            space.growth = 0
            space.granularity = 16_384
        }

        var space = LogSpace.Options()

        /// Whether a log is opened by its index, if it has one.
        package var usesIndex = true

        /// How much of a log that is closed has to be unknown to its index for that to be written anew.
        package var indexedFromBytes = 1 << 16

        /// Where issues are logged; keys and paths are, values never.
        public var logger: Logger

        /// Called with every issue, on the thread of the call that met it, no lock of the store being held.
        public var onIssue: (@Sendable (KVStoreIssue) -> Void)?

        /// Options, each with its default.
        public init(
            maximumValueSizeInBytes: Int = 256 << 20, compactionFloorInBytes: Int = 1 << 20,
            logger: Logger = Logger(label: "ForgeKVStore"), onIssue: (@Sendable (KVStoreIssue) -> Void)? = nil
        ) {
            self.maximumValueSizeInBytes = maximumValueSizeInBytes
            self.compactionFloorInBytes = compactionFloorInBytes
            self.logger = logger
            self.onIssue = onIssue
        }

        /// The limit on values, as far as the format can hold it.
        var valueLimit: Int {
            min(max(maximumValueSizeInBytes, 0), Self.formatLimit)
        }

        /// How long a record may be for it to be read: what was written under a higher limit is, within reason.
        var readablePayloadSize: Int {
            max(valueLimit, 256 << 20) + LogRecord.payloadPrefixSize + KeyName.maximumLength
        }

        /// What a record's length leaves for the value.
        static let formatLimit = Int(UInt32.max) - LogRecord.payloadPrefixSize - KeyName.maximumLength

        func report(_ issue: KVStoreIssue) {
            switch issue {
            case .tornTail: logger.notice("\(issue)")
            case .compactionFailed, .undecodable, .unavailable: logger.warning("\(issue)")
            case .damage, .missingRecords, .readOnly: logger.error("\(issue)")
            }
            onIssue?(issue)
        }
    }
}
