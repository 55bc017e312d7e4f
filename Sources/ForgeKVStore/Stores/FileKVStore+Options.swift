package import ForgeFileSystem
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
        /// every run makes the same file-system calls.
        public var compactsInBackground: Bool

        /// The permitted use: ``FileKVStore/Access/readWrite`` by default.
        public var access: Access

        /// Whether other processes may have the store open at the same time; not by default. All objects for a store in
        /// one process must agree.
        public var sharing: Sharing

        /// The time that a call in a shared store waits for writes of other processes: 10 seconds by default. After
        /// that it throws `.unavailable(.inUse(processID:))`. Each process holds the lock for microseconds, and at the
        /// end of a compaction until the device has the last records; a process that is stopped meanwhile keeps it. Reads need the lock only to repair what is damaged; `get` and `contains` then wait a millisecond.
        public var lockTimeout: Duration

        /// The shortest interval at which a shared store is checked for remote changes, while streams observe them, where
        /// processes cannot wake each other: 20 milliseconds by default, between a millisecond and a day. While there are
        /// no changes it is doubled, up to a second.
        ///
        /// On Linux and Darwin processes wake each other (`futex(2)`, `os_sync_wait_on_address`) wherever the file `#shared`
        /// can be mapped into memory: nothing is checked at intervals then, but after a failure to read a change.
        public var pollingInterval: Duration

        /// Whether opening excludes the store's directory from the backups of an Apple device; not by default. False
        /// leaves the directory as it is. No effect elsewhere, and none on a store that is opened to read only.
        public var isExcludedFromBackup: Bool

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
            isExcludedFromBackup: Bool = false,
            logger: Logger = Logger(label: "ForgeKVStore"), onIssue: (@Sendable (KVStoreIssue) -> Void)? = nil
        ) {
            self.access = access
            self.sharing = sharing
            self.maximumValueSizeInBytes = maximumValueSizeInBytes
            self.compactionFloorInBytes = compactionFloorInBytes
            self.compactsInBackground = compactsInBackground
            self.lockTimeout = lockTimeout
            self.pollingInterval = pollingInterval
            self.isExcludedFromBackup = isExcludedFromBackup
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

extension FileKVStore {
    /// The permitted use of a store.
    public enum Access: Hashable, Sendable, CaseIterable {
        /// Reading and writing. The store is created if it is missing, and locked.
        case readWrite

        /// Reading only. Opening creates, locks, repairs and removes nothing, so it works while another process writes,
        /// and on a read-only medium.
        ///
        /// The store shows the content of its log at opening; open it again to see later writes. Opening throws
        /// `.noStore` if there is none. Every write throws `.readOnly`. Damage is reported and left unchanged.
        case readOnly
    }
}

extension FileKVStore {
    /// The processes that may have a store open at the same time.
    public enum Sharing: Hashable, Sendable, CaseIterable {
        /// A single process. It holds the lock of the store from opening to closing.
        case exclusive

        /// Every process that opens it with this option, up to 249. The lock of the store is held only while a call
        /// writes, compacts or opens the store. Between calls a process holds no lock: its entry in the file `#shared`
        /// keeps out processes that open the store exclusively.
        case shared
    }
}

extension FileKVStore {
    /// The name of the log in a store's directory.
    package static let logName: POSIXPath = "log"

    /// Whether these are the first bytes of a log, even if they are partly damaged.
    ///
    /// The header contains the log's identifier twice, so a log is recognised even if its magic number is damaged. Zeros
    /// in the header tell it from a text whose lines repeat.
    package static func isLog(startingWith bytes: [UInt8]) -> Bool {
        guard !bytes.isEmpty else { return false }
        guard bytes.count >= LogHeader.size else { return LogHeader.magic.starts(with: bytes.prefix(8)) }
        guard !bytes.starts(with: LogHeader.magic) else { return true }
        let first = bytes[16..<32]
        // The upper half of the generation, or the bytes before the checksum.
        let hasZeros = [36..<40, 56..<60].contains { bytes[$0].allSatisfy { $0 == 0 } }
        return hasZeros && first.elementsEqual(bytes[40..<56]) && first.contains { $0 != 0 }
    }

    /// Whether this is the name, in a store's directory, of data that the store set aside.
    package static func isQuarantine(_ name: POSIXPath) -> Bool { name.bytes.starts(with: Quarantine.prefix.utf8) }

    /// Whether this is the name of a temporary file of a store.
    package static func isTemporary(_ name: POSIXPath) -> Bool {
        LogTemporaryFile.contains(name)
    }
}

/// The files in the directory of a key-value store.
package enum KeyValueLayout: StoreLayout {
    package static var kind: StoreKind { .keyValue }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        if [.lockName, .sharedName, RemovalReserve.name].contains(name) { return .bookkeeping }
        if FileKVStore.isTemporary(name) { return .temporary }
        if FileKVStore.isQuarantine(name) { return .quarantine }
        guard name == .logName else { return .content }
        return FileKVStore.isLog(startingWith: try start()) ? .log : .content
    }
}
