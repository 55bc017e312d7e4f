import ForgeFileSystem
import SystemPackage
import Testing

@testable import ForgeCrypt

@Suite("Errors of secret stores")
struct CryptErrorTests {
    @Test("an error of a full device says so, with or without the error of the file system")
    func outOfSpace() {
        #expect(CryptError(.noSpace, .set, key: "a").isOutOfSpace)
        #expect(CryptError(.unsupported, .set, underlying: FileSystemError(.write, .noSpace)).isOutOfSpace)
        #expect(!CryptError(.tooLarge, .set, key: "a").isOutOfSpace)
    }

    @Test(
        "every code has a one-line description",
        arguments: [
            .invalidKey, .unencodable, .undecodable, .tooLarge, .wrongKey, .tampered, .truncated, .newerFormat,
            .insecureFile, .reservedName, .invalidKeyMaterial, .noSpace, .unavailable(.locked),
            .durabilityUnknown, .unsupported, .system(status: -50),
        ] as [CryptError.Code])
    func codes(_ code: CryptError.Code) {
        let error = CryptError(
            code, .set, key: "a\nb", path: "/v", detail: "why", underlying: FileSystemError(.write, .noSpace))
        #expect(error.description.hasPrefix("set \"a\\x0ab\" in /v: \(code): why: write"))
        #expect(!error.description.contains("\n"))
        #expect(!code.description.isEmpty)
    }

    @Test("a file operation that took effect is of unknown durability, any other unavailable")
    func fileErrors() {
        var error = FileSystemError(.synchronize, .ioError)
        #expect(CryptError(error, .set, path: "/v").code == .unavailable(.inputOutput))
        error.isEffectVisible = true
        #expect(CryptError(error, .set, path: "/v").code == .durabilityUnknown)
    }

    @Test("secret bytes print nothing and round-trip")
    func secretBytes() {
        let secret = SecretBytes(Array("s3cr3t".utf8))
        var dumped = ""
        dump(secret, to: &dumped)
        #expect(!dumped.contains("115"))
        #expect(String(reflecting: secret) == "SecretBytes")
        #expect(secret.bytes == Array("s3cr3t".utf8))
        #expect(SecretBytes([]).bytes == [])
    }

    @Test("erasing overwrites the memory itself")
    func erasing() {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 1)
        defer { memory.deallocate() }
        memory.copyBytes(from: (0..<64).map { UInt8($0) })
        secureErase(memory)
        #expect(memory.allSatisfy { $0 == 0 })
        secureErase(UnsafeMutableRawBufferPointer(start: nil, count: 0))
        var bytes: [UInt8] = [1, 2, 3]
        erase(&bytes)
        #expect(bytes.isEmpty)
    }

    @Test("stores keep the accessibility with the value")
    func accessibility() throws {
        let memory = InMemoryCrypt()
        let place = VaultPlace()
        for accessibility in CryptAccessibility.allCases {
            let key = CryptKey<Int>(key: "k", accessibility: accessibility)
            try memory.set(1, for: key)
            try place.vault().set(1, for: key)
            #expect(try memory.accessibility(named: "k") == accessibility)
            #expect(try place.vault().accessibility(named: "k") == accessibility)
        }
        #expect(try place.vault().accessibility(named: "none") == nil)
        #expect(try memory.accessibility(named: "none") == nil)
    }
}
