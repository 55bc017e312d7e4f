import Foundation
import Testing

@testable import ForgeCommands

@Suite("secret set")
struct SecretInputTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private var vault: [String] { [scratch.path("vault"), "--key-file", scratch.path("key")] }

    private func stored(_ input: Data) throws -> Data {
        let set = try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: input)
        #expect(set.status == 0, "\(set.errors)")
        return Data(try CommandRun(["secret", "get"] + vault + ["a"]).output.utf8)
    }

    @Test("the secret is all of standard input except one line feed at the end")
    func wholeInput() throws {
        let pem = "-----BEGIN KEY-----\nMIIB\r\nAAAA\n-----END KEY-----\n"
        #expect(try stored(Data(pem.utf8)) == Data(pem.utf8))
        #expect(try stored(Data("one".utf8)) == Data("one\n".utf8))
        #expect(try stored(Data("two\n\n".utf8)) == Data("two\n\n".utf8))
    }

    @Test(
        "input that is empty or not UTF-8 is refused, and no file is created",
        arguments: [Data(), Data("\n".utf8), Data([0x66, 0xFF, 0xFE]), Data([0xC3])])
    func refused(input: Data) throws {
        let run = try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: input)
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("input of more than 16 MiB is refused, and the vault refuses a secret that is longer in its envelope")
    func longest() throws {
        let limit = 16 << 20
        for (count, message) in [(limit + 1, "standard input is longer than 16 MiB"), (limit, "too large")] {
            let run = try CommandRun(
                ["secret", "set"] + vault + ["a", "--create"], input: Data(repeating: 0x78, count: count))
            #expect(run.status == 1 && run.errors.contains(message), "\(run.errors)")
        }
    }

    @Test("a missing vault or key file is created only with --create")
    func create() throws {
        let refused = try CommandRun(["secret", "set"] + vault + ["a"], input: "x")
        #expect(refused.status == 4)
        #expect(refused.errors.contains("there is no vault at"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
        #expect(try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: "x").status == 0)
        let typo = [scratch.path("vault"), "--key-file", scratch.path("kye")]
        for verb in [["set"], ["get"], ["rm"]] {
            let run = try CommandRun(["secret"] + verb + typo + ["a"], input: "x")
            #expect(run.status == 4)
            #expect(run.errors.contains("there is no key file at"))
            #expect(!FileManager.default.fileExists(atPath: scratch.path("kye")))
        }
        #expect(try CommandRun(["secret", "set"] + vault + ["a"], input: "y").status == 0)
    }

    @Test("--create with a mistyped key file of an existing vault creates no key file")
    func createWithMistypedKeyFile() throws {
        #expect(try CommandRun(["secret", "set"] + vault + ["a", "--create"], input: "x").status == 0)
        let run = try CommandRun(
            ["secret", "set", scratch.path("vault"), "--key-file", scratch.path("kye"), "a", "--create"], input: "y")
        #expect(run.status == 4)
        #expect(run.errors.contains("there is no key file at"), "\(run.errors)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path("kye")))
    }

    @Test("the error of a missing vault names the option that creates it")
    func missingVault() throws {
        let run = try CommandRun(["secret", "set"] + vault + ["a"], input: "x")
        #expect(run.errors.contains("--create"), "\(run.errors)")
        #expect(try !CommandRun(["secret", "rm"] + vault + ["a"]).errors.contains("--create"))
    }
}
