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

    /// The file system can be accessed as another user (``FileSystemUnderTest/asUser``).
    public static let otherUsers = ConformanceCapability("other users")

    /// Files have extended attributes that their owner defines.
    public static let extendedAttributes = ConformanceCapability("extended attributes")

    /// `A` and `a` are the same name.
    public static let caseInsensitivity = ConformanceCapability("names of any case")

    /// Canonically equivalent names are the same name.
    public static let normalisationInsensitivity = ConformanceCapability("names of any normalisation")
}
