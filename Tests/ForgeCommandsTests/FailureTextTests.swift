import Foundation
import Testing

@Suite("What an error of the file system says")
struct FailureTextTests {
    @Test("an error names the cause that the system gave")
    func cause() throws {
        let scratch = try Scratch()
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("file"))
        let vault = [scratch.path("file/v"), "--key-file", scratch.path("file/k")]
        for arguments in [
            ["kv", "set", scratch.path("file/kv"), "a", "1"], ["file", "set", scratch.path("file/f"), "a"],
            ["secret", "set"] + vault + ["a", "--create"],
        ] {
            let run = try CommandRun(arguments, input: "x")
            #expect(run.status == 1)
            #expect(run.errors.contains("ENOTDIR"), "\(run.errors)")
            #expect(!run.errors.contains("input/output"))
        }
    }

    @Test("--version prints a version")
    func version() throws {
        let run = try CommandRun(["--version"])
        #expect(run.status == 0)
        #expect(run.output.first?.isNumber == true)
    }
}
