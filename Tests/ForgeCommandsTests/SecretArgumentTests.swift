import Foundation
import Testing

@Suite("Wrong usage of secret")
struct SecretArgumentTests {
    @Test(
        "no message quotes an argument that may be a secret",
        arguments: [
            "secret set v --key-file k name hunter2", "secret set v --key-file k name hunter2 hunter2",
            "secret set v --key-file k name --hunter2", "secret set v --key-file k name --create=hunter2",
            "secret hunter2", "secret sett v --key-file k name hunter2",
            "secert set v --key-file k name hunter2", "secret get v --key-file k name hunter2",
            "secret rm v --key-file k name hunter2", "secret list v --key-file k hunter2",
        ])
    func isSilent(words: String) throws {
        let run = try CommandRun(words.split(separator: " ").map(String.init))
        #expect(run.status == 64)
        #expect(!run.errors.contains("hunter2"), "\(run.errors)")
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("Usage: forge"), "\(run.errors)")
    }

    @Test("a missing argument is named, and other verbs quote what they do not expect")
    func namesMissing() throws {
        #expect(try CommandRun(["secret", "set", "v"]).errors.contains("--key-file"))
        #expect(try CommandRun(["secret", "set", "v", "--key-file"]).errors.contains("Missing value"))
        #expect(try CommandRun(["kv", "list", "a", "unexpected"]).errors.contains("'unexpected'"))
    }
}
