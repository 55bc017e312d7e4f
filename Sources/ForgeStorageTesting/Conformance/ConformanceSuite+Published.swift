public import ForgeCrypt
public import ForgeFileStore
public import ForgeKVStore
public import ForgeStorage

extension ConformanceSuite where Subject == any KVStoring {
    /// What every key-value store promises; some need ``ConformanceCapability/typedReads``,
    /// ``ConformanceCapability/keyListing``, ``ConformanceCapability/rawValues``, ``ConformanceCapability/revisions``,
    /// ``ConformanceCapability/batches``, ``ConformanceCapability/snapshots``,
    /// ``ConformanceCapability/synchronization`` or ``ConformanceCapability/longestNames``.
    public static var keyValueStore: Self { Self("key-value store", ConformanceChecks.keyValueStore) }
}

extension ConformanceSuite where Subject == KeyValueStorePlace {
    /// What a key-value store that outlives the process promises.
    public static var keyValueStorePersistence: Self {
        Self("key-value store, reopened", ConformanceChecks.keyValueStorePersistence)
    }
}

extension ConformanceSuite where Subject == any FileStoring {
    /// What every file store promises; some need ``ConformanceCapability/fileURLs`` or
    /// ``ConformanceCapability/emptyDirectories``.
    public static var fileStore: Self { Self("file store", ConformanceChecks.fileStore) }
}

extension ConformanceSuite where Subject == any CryptStoring {
    /// What every store of secrets promises; some need ``ConformanceCapability/keyListing`` or
    /// ``ConformanceCapability/rawValues``.
    public static var secretStore: Self { Self("store of secrets", ConformanceChecks.secretStore) }
}

extension ConformanceSuite where Subject == any SessionStorage<ConformanceUser> {
    /// What every storage of a session promises.
    public static var sessionStorage: Self { Self("session storage", ConformanceChecks.sessionStorage) }
}

extension ConformanceSuite where Subject == any Storage {
    /// What every storage of bytes promises; some need ``ConformanceCapability/removal``,
    /// ``ConformanceCapability/keysArePaths`` or ``ConformanceCapability/orderedHandlers``.
    public static var storage: Self {
        Self(
            "storage",
            ConformanceChecks.storage + ConformanceChecks.storageRemoval + ConformanceChecks.storageOfPaths)
    }
}

extension ConformanceSuite where Subject == FileSystemUnderTest {
    /// What every file system does; what needs one that was set up for it says so.
    public static var fileSystem: Self {
        Self(
            "file system",
            ConformanceChecks.fileSystem + ConformanceChecks.fileSystemQuota + ConformanceChecks.fileSystemReadOnly
                + ConformanceChecks.fileSystemDevices + ConformanceChecks.fileSystemDescriptors
                + ConformanceChecks.fileSystemPermissions + ConformanceChecks.fileSystemLinkLimit
                + ConformanceChecks.fileSystemCaseInsensitive + ConformanceChecks.fileSystemNormalisationInsensitive)
    }
}
