/// Something that not every implementation of a protocol has, and that some checks need.
///
/// A check that needs what an implementation does not have is reported as not applicable, never as passed. A protocol of
/// your own can have capabilities of its own.
public struct ConformanceCapability: Hashable, Sendable, CustomStringConvertible {
    /// What it is, as a report says it: "needs a list of its keys".
    public let description: String

    /// A capability with this name; two of the same name are one.
    public init(_ description: String) {
        self.description = description
    }
}

// MARK: Key-value stores and stores of secrets

extension ConformanceCapability {
    /// `read` is the store's own, so that it tells an absent value from one that it cannot decode or refuses.
    public static let typedReads = ConformanceCapability("a read that tells absent from undecodable")

    /// `keys()` is the store's own.
    public static let keyListing = ConformanceCapability("a list of its keys")

    /// The calls for encoded values are the store's own.
    public static let rawValues = ConformanceCapability("raw values")

    /// `entry(named:)` is the store's own, and `commit(_:)` keeps to its requirements: what compare-and-set needs.
    public static let revisions = ConformanceCapability("revisions")

    /// `commit(_:)` makes several changes at once.
    public static let batches = ConformanceCapability("batches")

    /// `snapshot()` is the store's own.
    public static let snapshots = ConformanceCapability("snapshots")

    /// `synchronize()` is the store's own.
    public static let synchronization = ConformanceCapability("a way to make writes durable")

    /// Names may have 1,024 bytes, none of which the store needs for itself.
    public static let longestNames = ConformanceCapability("names of 1,024 bytes")
}

// MARK: File stores

extension ConformanceCapability {
    /// Files have URLs that other code can read them at.
    public static let fileURLs = ConformanceCapability("URLs of its files")

    /// A directory is something by itself, so that there are empty ones.
    public static let emptyDirectories = ConformanceCapability("empty directories")
}

// MARK: Storages

extension ConformanceCapability {
    /// Values can be removed.
    public static let removal = ConformanceCapability("removal of values")

    /// Keys are paths below a root: `a` and `a/b` cannot both be there, and none leads out.
    public static let keysArePaths = ConformanceCapability("keys that are paths")

    /// Calls with a handler take effect in the order in which they were made.
    public static let orderedHandlers = ConformanceCapability("handlers that run in order")
}

// MARK: File systems

extension ConformanceCapability {
    /// The device of the subject holds as little as the checks of a full one want.
    public static let limitedSpace = ConformanceCapability("a small device")

    /// The device can be made read-only (``FileSystemUnderTest/makeReadOnly``).
    public static let readOnlyDevice = ConformanceCapability("a device that can be made read-only")

    /// There is a directory on another device (``FileSystemUnderTest/otherDevice``).
    public static let secondDevice = ConformanceCapability("a second device")

    /// The process may open so few files that a check can open them all, and nobody else opens any.
    public static let limitedDescriptors = ConformanceCapability("a table of descriptors of its own")

    /// The file system allows a file as many names as ext4 does, and no more.
    public static let linkLimit = ConformanceCapability("a limit of 65,000 links")

    /// The file system can be seen as another user does (``FileSystemUnderTest/asUser``).
    public static let otherUsers = ConformanceCapability("other users")

    /// `A` and `a` are one name.
    public static let caseInsensitivity = ConformanceCapability("names of any case")

    /// Canonically equivalent names are one.
    public static let normalisationInsensitivity = ConformanceCapability("names of any normalisation")
}
