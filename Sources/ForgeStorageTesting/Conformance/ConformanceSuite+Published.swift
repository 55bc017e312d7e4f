public import ForgeCrypt
public import ForgeFileStore
public import ForgeKVStore
public import ForgeStorage

extension ConformanceSuite where Subject == any KVStoring {
    /// The promises of a key-value store; some need ``ConformanceCapability/typedReads`` or
    /// ``ConformanceCapability/longestNames``.
    public static var keyValueStore: Self { Self("key-value store", ConformanceChecks.keyValueStore) }
}

extension ConformanceSuite where Subject == any KVRawStoring {
    /// The promises of a key-value store with raw values, those of ``keyValueStore`` included.
    public static var rawKeyValueStore: Self { Self("raw key-value store", ConformanceChecks.rawKeyValueStore) }
}

extension ConformanceSuite where Subject == any KVTransactionalStoring {
    /// The promises of a transactional key-value store, those of ``rawKeyValueStore`` included.
    public static var transactionalKeyValueStore: Self {
        Self("transactional key-value store", ConformanceChecks.transactionalKeyValueStore)
    }
}

extension ConformanceSuite where Subject == KeyValueStoreLocation<any KVStoring> {
    /// The promises of a persistent key-value store; some need ``ConformanceCapability/typedReads``.
    public static var keyValueStorePersistence: Self {
        Self("key-value store, reopened", ConformanceChecks.keyValueStorePersistence)
    }
}

extension ConformanceSuite where Subject == KeyValueStoreLocation<any KVRawStoring> {
    /// The promises of a persistent key-value store with raw values, those of ``keyValueStorePersistence`` included.
    public static var rawKeyValueStorePersistence: Self {
        Self("raw key-value store, reopened", ConformanceChecks.rawKeyValueStorePersistence)
    }
}

extension ConformanceSuite where Subject == KeyValueStoreLocation<any KVTransactionalStoring> {
    /// The promises of a persistent transactional key-value store, those of ``rawKeyValueStorePersistence`` included.
    public static var transactionalKeyValueStorePersistence: Self {
        Self(
            "transactional key-value store, reopened", ConformanceChecks.transactionalKeyValueStorePersistence)
    }
}

extension ConformanceSuite where Subject == AsyncKVStoreUnderTest {
    /// The promises of an asynchronous key-value store and of its declared capabilities.
    public static var asyncKeyValueStore: Self {
        Self("asynchronous key-value store", ConformanceChecks.asyncKeyValueStore)
    }
}

extension ConformanceSuite where Subject == any FileStoring {
    /// The promises of a file store; some need ``ConformanceCapability/fileURLs`` or
    /// ``ConformanceCapability/emptyDirectories``.
    public static var fileStore: Self { Self("file store", ConformanceChecks.fileStore) }
}

extension ConformanceSuite where Subject == any CryptStoring {
    /// The promises of a secret store; some need ``ConformanceCapability/keyListing`` or
    /// ``ConformanceCapability/rawValues``.
    public static var secretStore: Self { Self("store of secrets", ConformanceChecks.secretStore) }
}

extension ConformanceSuite where Subject == any SessionStorage<ConformanceUser> {
    /// The promises of a session storage.
    public static var sessionStorage: Self { Self("session storage", ConformanceChecks.sessionStorage) }
}

extension ConformanceSuite where Subject == AsyncSessionStorageUnderTest {
    /// The promises of an asynchronous session storage.
    public static var asyncSessionStorage: Self {
        Self("asynchronous session storage", ConformanceChecks.asyncSessionStorage)
    }
}

extension ConformanceSuite where Subject == any Storage {
    /// The promises of a byte storage; some need ``ConformanceCapability/removal``,
    /// ``ConformanceCapability/keysArePaths`` or ``ConformanceCapability/orderedHandlers``.
    public static var storage: Self {
        Self(
            "storage",
            ConformanceChecks.storage + ConformanceChecks.storageRemoval + ConformanceChecks.storageOfPaths)
    }
}

extension ConformanceSuite where Subject == FileOperationsUnderTest {
    /// The promises of the six operations of `FileSystemProtocol`; some need ``ConformanceCapability/symbolicLinks``,
    /// ``ConformanceCapability/limitedSpace`` or ``ConformanceCapability/atomicReplacement``.
    public static var fileOperations: Self { Self("file operations", ConformanceChecks.fileOperations) }
}

extension ConformanceSuite where Subject == FileSystemUnderTest {
    /// The promises of a file system; checks that need a special set-up have capabilities.
    public static var fileSystem: Self {
        let lists = [
            ConformanceChecks.fileSystem, ConformanceChecks.fileSystemQuota, ConformanceChecks.fileSystemReadOnly,
            ConformanceChecks.fileSystemDevices, ConformanceChecks.fileSystemDescriptors,
            ConformanceChecks.fileSystemPermissions, ConformanceChecks.fileSystemLinkLimit,
            ConformanceChecks.fileSystemExtendedAttributes, ConformanceChecks.fileSystemCaseInsensitive,
            ConformanceChecks.fileSystemNormalisationInsensitive,
        ]
        return Self("file system", lists.flatMap { $0 })
    }
}
