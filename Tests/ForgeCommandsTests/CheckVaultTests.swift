import Crypto
import Foundation
import Testing

@Suite("forge check and vaults")
struct CheckVaultTests {
    private static let unverified = "unverified (1 secret; sealed under another key, or its header was changed)"

    /// Changes a byte of the vault's header and recomputes the checksum, which needs no key.
    private func changeHeader(_ offset: Int, of fixture: StoreFixture) throws {
        let url = fixture.scratch.url.appendingPathComponent("vault/v")
        var bytes = [UInt8](try Data(contentsOf: url))
        bytes[offset] ^= 1
        bytes.replaceSubrange(128..<160, with: Array(SHA256.hash(data: bytes[..<128])))
        try Data(bytes).write(to: url)
        try #require(chmod(url.path, 0o600) == 0)
    }

    private func check(_ fixture: StoreFixture, keysOf others: StoreFixture...) throws -> CommandRun {
        let keys = others.flatMap { ["--key-file", $0.scratch.path("vault/key")] }
        return try CommandRun(["check", fixture.scratch.url.path] + keys)
    }

    @Test("a vault whose header was changed is damaged")
    func changedHeader() async throws {
        let fixture = try await StoreFixture()
        try changeHeader(32, of: fixture)
        let run = try check(fixture, keysOf: fixture)
        #expect(run.status == 1)
        #expect(run.output.contains("damaged (verify in"), "\(run.output)")
        #expect(run.output.contains("altered or damaged"), "\(run.output)")
    }

    @Test("a vault that the key does not open is unverified, which is a failure")
    func otherKey() async throws {
        let (fixture, other) = (try await StoreFixture(), try await StoreFixture())
        let run = try check(fixture, keysOf: other)
        #expect(run.status == 1)
        #expect(run.output.contains(Self.unverified), "\(run.output)")
        #expect(run.output.contains("checked, 0 damaged, 1 not verified"), "\(run.output)")

        try changeHeader(16, of: fixture)
        let changed = try check(fixture, keysOf: fixture)
        #expect(changed.status == 1)
        #expect(changed.output.contains(Self.unverified), "\(changed.output)")
    }

    @Test("each vault is opened with the matching key")
    func severalKeys() async throws {
        let (fixture, other) = (try await StoreFixture(), try await StoreFixture())
        let run = try check(fixture, keysOf: other, fixture)
        #expect(run.status == 0, "\(run.output)")
        #expect(run.output.contains("intact (1 secret)"), "\(run.output)")
    }

    @Test("without a key, vaults are not failures")
    func withoutKey() async throws {
        let fixture = try await StoreFixture()
        try changeHeader(16, of: fixture)
        let run = try check(fixture)
        #expect(run.status == 0, "\(run.output)")
        #expect(run.output.contains("readable (1 secret; give --key-file to verify them)"), "\(run.output)")
    }
}
