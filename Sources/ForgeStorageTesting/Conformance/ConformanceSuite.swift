public import ForgeCrypt
public import ForgeFileStore
public import ForgeKVStore
public import ForgeStorage

/// A named list of checks.
///
/// ```swift
/// let report = await ConformanceSuite.keyValueStore.run(on: "MyStore", having: [.typedReads]) { MyStore() }
/// print(report)
/// ```
///
/// In a test framework, run single checks: `@Test(arguments: suite.checks(having: [.typedReads]))`.
public struct ConformanceSuite<Subject>: Sendable {
    /// The protocol that the suite checks.
    public let name: String

    /// All checks, including those that need capabilities.
    public let checks: [ConformanceCheck<Subject>]

    /// Creates a suite.
    public init(_ name: String, _ checks: [ConformanceCheck<Subject>]) {
        self.name = name
        self.checks = checks
    }

    /// All capabilities that the checks need.
    public var capabilities: Set<ConformanceCapability> {
        checks.reduce(into: []) { $0.formUnion($1.needs) }
    }

    /// The checks that apply to an implementation with exactly these capabilities.
    public func checks(having capabilities: Set<ConformanceCapability>) -> [ConformanceCheck<Subject>] {
        checks.filter { $0.needs.isSubset(of: capabilities) }
    }

    /// Runs every applicable check, each on a new subject, one after the other.
    ///
    /// - Parameters:
    ///   - subject: The name of the implementation in the report.
    ///   - capabilities: The capabilities of the implementation; all by default, so that leaving out a check is
    ///     explicit.
    ///   - limit: The maximum duration of each check.
    ///   - clock: The clock that measures the limit.
    ///   - starting: Called with the description of each applicable check before it runs, so that a log names the check
    ///     that ends the process or exceeds a limit of the test framework.
    ///   - make: Makes a new, empty subject; if it throws, the check counts as violated.
    /// - Returns: The outcome of each check.
    public func run(
        on subject: String, having capabilities: Set<ConformanceCapability>? = nil,
        within limit: Duration = .seconds(120),
        on clock: any Clock<Duration> = ContinuousClock(), starting: (_ check: String) -> Void = { _ in },
        make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport {
        var results: [ConformanceReport.Result] = []
        for check in checks {
            let missing = capabilities.map { check.needs.subtracting($0) } ?? []
            let outcome: ConformanceReport.Outcome
            if missing.isEmpty {
                starting(check.description)
                outcome = await self.outcome(of: check, within: limit, on: clock, make)
            } else {
                let names = missing.map(\.description).sorted()
                outcome = .notApplicable("needs " + names.joined(separator: " and "))
            }
            results.append(.init(check: check.description, outcome: outcome))
        }
        return ConformanceReport(suite: name, subject: subject, results: results)
    }

    private func outcome(
        of check: ConformanceCheck<Subject>, within limit: Duration, on clock: any Clock<Duration>,
        _ make: @Sendable () async throws -> sending Subject
    ) async -> ConformanceReport.Outcome {
        do {
            try await check.run(on: try await make(), within: limit, on: clock)
            return .passed
        } catch {
            let reason = "\(error)"
            // A violation begins with the promise, which the report shows already.
            let promise = check.description + ": "
            return .violated(reason.hasPrefix(promise) ? String(reason.dropFirst(promise.count)) : reason)
        }
    }
}

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
    /// The promises of a persistent key-value store; some need ``ConformanceCapability/typedReads`` or
    /// ``ConformanceCapability/longestNames``.
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
    /// The promises of an asynchronous key-value store and of its declared capabilities; some need
    /// ``ConformanceCapability/longestNames``.
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
    /// The promises of a secret store; some need ``ConformanceCapability/keyListing``,
    /// ``ConformanceCapability/rawValues`` or ``ConformanceCapability/creationIfAbsent``.
    public static var secretStore: Self { Self("store of secrets", ConformanceChecks.secretStore) }
}

extension ConformanceSuite where Subject == any SessionStorage<ConformanceUser> {
    /// The promises of a session storage.
    public static var sessionStorage: Self { Self("session storage", ConformanceChecks.sessionStorage) }
}

extension ConformanceSuite where Subject == AsyncSessionStorageUnderTest {
    /// The promises of an asynchronous session storage; some need ``ConformanceCapability/unreadableUsers`` or
    /// ``ConformanceCapability/failingSessions``.
    public static var asyncSessionStorage: Self {
        Self(
            "asynchronous session storage",
            ConformanceChecks.asyncSessionStorage + ConformanceChecks.unreadableSessions
                + ConformanceChecks.failingSessions)
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
    /// ``ConformanceCapability/limitedSpace``, ``ConformanceCapability/atomicReplacement``,
    /// ``ConformanceCapability/bytewiseNames`` or ``ConformanceCapability/namesOfAnyBytes``.
    ///
    /// The first two need ``FileOperationsUnderTest/makeSymbolicLink`` and ``FileOperationsUnderTest/fillDevice``.
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
            ConformanceChecks.fileSystemNormalisationInsensitive, ConformanceChecks.fileSystemAccessTimes,
            ConformanceChecks.fileSystemProcesses, ConformanceChecks.fileSystemWatching,
            ConformanceChecks.fileSystemSignals, ConformanceChecks.fileSystemSizeLimit,
        ]
        return Self("file system", lists.flatMap { $0 })
    }
}

/// The results of a suite on one implementation.
public struct ConformanceReport: Sendable {
    /// The outcome of a check.
    public enum Outcome: Hashable, Sendable {
        /// The implementation keeps the promise.
        case passed

        /// The implementation breaks the promise; the text describes how.
        case violated(String)

        /// The promise does not apply; the text names the missing capability: "needs a list of its keys".
        case notApplicable(String)
    }

    /// A check and its outcome.
    public struct Result: Hashable, Sendable {
        /// The promise.
        public var check: String

        /// The outcome.
        public var outcome: Outcome
    }

    /// The name of the suite.
    public var suite: String

    /// The name of the subject.
    public var subject: String

    /// The result of each check, in suite order.
    public var results: [Result]

    /// Creates a report.
    public init(suite: String, subject: String, results: [Result]) {
        self.suite = suite
        self.subject = subject
        self.results = results
    }

    /// The number of promises kept.
    public var passedCount: Int { results.count { $0.outcome == .passed } }

    /// The broken promises.
    public var violations: [Result] {
        results.filter { if case .violated = $0.outcome { true } else { false } }
    }

    /// The checks that did not apply.
    public var notApplicable: [Result] {
        results.filter { if case .notApplicable = $0.outcome { true } else { false } }
    }

    /// Whether at least one check applied and none was violated.
    public var holds: Bool { violations.isEmpty && passedCount > 0 }

    /// The outcome of the check with this description; nil if the suite has none.
    public func outcome(of check: String) -> Outcome? {
        results.first { $0.check == check }?.outcome
    }
}

extension ConformanceReport: CustomStringConvertible {
    /// A summary line, then a line for each violated and each inapplicable check.
    public var description: String {
        ([summary] + violations.map(\.description) + notApplicable.map(\.description)).joined(separator: "\n")
    }

    /// The summary line: `MyStore, key-value store: 60 passed, 1 violated, 3 not applicable`.
    public var summary: String {
        "\(subject), \(suite): \(passedCount) passed, \(violations.count) violated, "
            + "\(notApplicable.count) not applicable"
    }
}

extension ConformanceReport.Result: CustomStringConvertible {
    public var description: String {
        switch outcome {
        case .passed: "  passed: \(check)"
        case .violated(let reason): "  violated: \(check): \(reason)"
        case .notApplicable(let reason): "  not applicable: \(check): \(reason)"
        }
    }
}

/// An ability that only some implementations of a protocol have and that some checks need.
///
/// A check that needs a missing capability is reported as not applicable, never as passed. Custom protocols can define
/// their own capabilities.
public struct ConformanceCapability: Hashable, Sendable, CustomStringConvertible {
    /// The name, as in a report: "needs a list of its keys".
    public let description: String

    /// Creates a capability; capabilities with equal names are equal.
    public init(_ description: String) {
        self.description = description
    }
}

// MARK: Key-value and secret stores

extension ConformanceCapability {
    /// The store implements `read`, which tells an absent value from one that it cannot decode or refuses.
    public static let typedReads = ConformanceCapability("a read that tells absent from undecodable")

    /// The store of secrets implements `keys()`.
    public static let keyListing = ConformanceCapability("a list of its keys")

    /// The store of secrets implements the calls for encoded values.
    public static let rawValues = ConformanceCapability("raw values")

    /// The store of secrets implements `createIfAbsent`.
    public static let creationIfAbsent = ConformanceCapability("creating a secret only if it is absent")

    /// Names may have 1,024 bytes, all available to the caller.
    public static let longestNames = ConformanceCapability("names of 1,024 bytes")
}

// MARK: Sessions

extension ConformanceCapability {
    /// A saved user can be replaced by a value that is no user (``AsyncSessionStorageUnderTest/makeUnreadable``).
    public static let unreadableUsers = ConformanceCapability("a saved user that can be damaged")
}

extension ConformanceCapability {
    /// The calls of the store below a session can be made to fail (``AsyncSessionStorageUnderTest/setFailing``).
    public static let failingSessions = ConformanceCapability("a session whose store can be made to fail")
}

// MARK: File stores

extension ConformanceCapability {
    /// Files have URLs that other code can read.
    public static let fileURLs = ConformanceCapability("URLs of its files")

    /// Directories exist independently of files, so that they can be empty.
    public static let emptyDirectories = ConformanceCapability("empty directories")

    /// Files have attributes: the store does not refuse them as unsupported.
    public static let fileAttributes = ConformanceCapability("attributes of files")
}

// MARK: Storages

extension ConformanceCapability {
    /// Values can be removed.
    public static let removal = ConformanceCapability("removal of values")

    /// Keys are paths below a root: `a` and `a/b` cannot both exist, and no key leaves the root.
    public static let keysArePaths = ConformanceCapability("keys that are paths")

    /// Calls with a handler take effect in call order.
    public static let orderedHandlers = ConformanceCapability("handlers that run in order")
}

// MARK: File systems

extension ConformanceCapability {
    /// The device is small enough to be filled.
    public static let limitedSpace = ConformanceCapability("a small device")

    /// The device can be made read-only (``FileSystemUnderTest/makeReadOnly``).
    public static let readOnlyDevice = ConformanceCapability("a device that can be made read-only")

    /// There is a directory on another device (``FileSystemUnderTest/otherDevice``).
    public static let secondDevice = ConformanceCapability("a second device")

    /// The process has few enough descriptors that a check can use all of them, and no other code opens files.
    public static let limitedDescriptors = ConformanceCapability("a table of descriptors of its own")

    /// A file can have as many hard links as on ext4, and no more.
    public static let linkLimit = ConformanceCapability("a limit of 65,000 links")

    /// The maximum size of a file is known (``FileSystemUnderTest/maximumFileSizeInBytes``).
    public static let fileSizeLimit = ConformanceCapability("a known maximum size of files")

    /// The file system can be accessed as another user (``FileSystemUnderTest/asUser``).
    public static let otherUsers = ConformanceCapability("other users")

    /// Files have extended attributes that their owner defines.
    public static let extendedAttributes = ConformanceCapability("extended attributes")

    /// A read updates the time of access if it is older than the last change, as with the option `relatime` of Linux.
    public static let accessTimes = ConformanceCapability("times of accesses")

    /// Another process can be started and ended (``FileSystemUnderTest/startProcess``).
    public static let processes = ConformanceCapability("processes that can be ended")

    /// Directories can be watched.
    public static let directoryWatches = ConformanceCapability("watches of directories")

    /// The limits of watches are small enough for a check to reach them (``FileSystemUnderTest/maximumWatchCount``,
    /// ``FileSystemUnderTest/maximumQueuedEventCount``).
    public static let watchLimits = ConformanceCapability("limits of watches")

    /// The file system has signals of files (`makeSignal(of:)`).
    public static let signals = ConformanceCapability("signals of files")

    /// `A` and `a` are the same name.
    public static let caseInsensitivity = ConformanceCapability("names of any case")

    /// Canonically equivalent names are the same name.
    public static let normalisationInsensitivity = ConformanceCapability("names of any normalisation")
}
