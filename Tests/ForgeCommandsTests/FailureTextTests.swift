import ForgeStorage
import Foundation
import SystemPackage
import Testing

@Suite("The text of a file-system error")
struct FailureTextTests {
    @Test("an error contains the system's cause")
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

    @Test("a full device and a refusal have the system's description, not that of an input/output failure")
    func plainWords() {
        for (errno, text) in [
            (Errno.noSpace, "No space left on device (ENOSPC)"), (.permissionDenied, "Permission denied (EACCES)"),
        ] {
            let cause = FileSystemError(.write, errno, path: "/a/log")
            for error: any Error in [
                KVStoreError(.unavailable(.inputOutput), .set, key: "a", store: "/a", underlying: cause),
                FileStoreError(.unavailable(.inputOutput), .save, key: "a", underlying: cause),
                CryptError(.unavailable(.inputOutput), .set, path: "/a/v", underlying: cause),
            ] {
                #expect("\(error)".contains(text), "\(error)")
                #expect(!"\(error)".contains("input/output"), "\(error)")
            }
        }
    }

    @Test("--version prints a version")
    func version() throws {
        let run = try CommandRun(["--version"])
        #expect(run.status == 0)
        #expect(run.output.first?.isNumber == true)
    }
}
