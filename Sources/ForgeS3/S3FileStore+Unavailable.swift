#if !S3
/// A file store in S3, which needs the trait `S3`.
@available(*, unavailable, message: "name the trait S3 for ForgeStorage in the root package's manifest")
public final class S3FileStore: Sendable {}

/// Where a store in S3 gets its credentials, which needs the trait `S3`.
@available(*, unavailable, message: "name the trait S3 for ForgeStorage in the root package's manifest")
public struct S3CredentialSource: Sendable {}
#endif
