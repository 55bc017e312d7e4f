import ForgeS3
import ForgeStorage

extension StoreURL {
    /// Opens the file store in S3; it connects with the first call.
    ///
    /// - Throws: ``CommandFailure``: the status is `notBuilt` without the trait `S3`. `S3Error` if the environment
    ///   names no valid endpoint or region.
    func openFileStore(
        _ environment: ServerEnvironment = ServerEnvironment()
    ) throws -> any ServerFileStoring {
        #if S3
        var configuration = S3FileStore.Configuration(
            bucket: places[0], region: environment["AWS_REGION", "AWS_DEFAULT_REGION"] ?? "us-east-1",
            credentials: Self.credentials(environment))
        configuration.endpoint = environment["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].map {
            $0.hasSuffix("/") ? String($0.dropLast()) : $0
        }
        switch environment["FORGE_S3_ADDRESSING"] {
        case nil: break
        case "path": configuration.addressing = .path
        case "host": configuration.addressing = .host
        case .some: throw CommandFailure("FORGE_S3_ADDRESSING is neither path nor host", .usage)
        }
        configuration.prefix = prefix
        configuration.trustRootsPath = environment["AWS_CA_BUNDLE"]
        if let deadline = try environment.deadline() { configuration.deadline = deadline }
        // Several files are transferred at the same time, each with as many parts.
        configuration.transferCount = 2
        configuration.logger = ServerEnvironment.logger
        return try S3FileStore(configuration)
        #else
        throw CommandFailure.notBuilt("stores in S3", trait: "S3")
        #endif
    }

    #if S3
    private static func credentials(_ environment: ServerEnvironment) -> S3CredentialSource {
        guard environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() == "true" else { return .standard }
        return .first(of: [.environment(), .profile(), .container()])
    }
    #endif
}
