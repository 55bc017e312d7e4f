#if S3
import ForgeFileStore
import ForgeStorageTesting
import Foundation
import S3Servers
import Testing

@testable import ForgeS3

@Suite("The store in S3 conforms", .enabled(if: S3TestServer.isAvailable))
struct S3ConformanceTests {
    /// Empty directories exist, as marker objects. Files have no URLs.
    static let capabilities: Set<ConformanceCapability> = [.emptyDirectories]

    @Test(arguments: ConformanceChecks.fileStore.filter { $0.needs.isSubset(of: capabilities) })
    func conforms(_ check: ConformanceCheck<any FileStoring>) async throws {
        try await check.run(on: try await S3FileStore.test())
    }

    @Test(
        "with a prefix and parts it conforms too",
        arguments: ConformanceChecks.fileStore.filter {
            // The longest key has no place for a prefix.
            $0.needs.isSubset(of: capabilities) && !$0.description.contains("the longest")
        })
    func prefixed(_ check: ConformanceCheck<any FileStoring>) async throws {
        let store = try await S3FileStore.test {
            $0.prefix = "app/v1/"
            $0.partSizeInBytes = 5 << 20
        }
        try await store.put("app/other", "of another program")
        try await check.run(on: store)
        #expect(try await store.objects().contains("app/other"))
    }

    @Test("files have no URLs, which are the only capability that is missing")
    func urls() async throws {
        let store = try await S3FileStore.test()
        try await store.save(Data("x".utf8), to: "a")
        await expectFailure(.unsupported) { try await store.url(for: "a") }
        let missing = ConformanceChecks.fileStore.reduce(into: Set()) { $0.formUnion($1.needs) }
            .subtracting(Self.capabilities)
        #expect(missing == [.fileURLs])
    }
}
#endif
