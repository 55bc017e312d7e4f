import Foundation
import Testing

@Suite("forge serve") struct ServeTests {
    #if Inspector
    private func withDirectory(_ body: (URL) throws -> Void) throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "forge-serve-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: directory) } catch {} }
        try body(directory)
    }

    @Test("prints one line for a directory that is missing, or is a file", arguments: ["missing", "file"])
    func noDirectory(name: String) throws {
        try withDirectory { directory in
            try Data().write(to: directory.appending(path: "file"))
            let run = try CommandRun(["serve", directory.appending(path: name).path])
            #expect(run.status == 4)
            #expect(run.output.isEmpty)
            #expect(run.errorLines.count == 1)
        }
    }

    @Test("prints one line if its URL cannot be printed, or a key not be read")
    func cannotServe() throws {
        try withDirectory { directory in
            let runs = [
                (try CommandRun(["serve", directory.path], to: .full), 1),
                (try CommandRun(["serve", directory.path, "--vault-key", "/missing"]), 4),
            ]
            for (run, status) in runs {
                #expect(run.status == Int32(status))
                #expect(run.errorLines.count == 1)
                #expect(run.errors.hasPrefix("Error: "))
            }
        }
    }
    #else
    @Test("says how to build it, with status 69, if it was built without the trait")
    func notBuilt() throws {
        let run = try CommandRun(["serve", "."])
        #expect(run.status == 69)
        #expect(run.output.isEmpty)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("swift build --traits Inspector"))
    }
    #endif

    @Test(
        "refuses an empty path and a port that is none",
        arguments: [["serve", ""], ["serve", ".", "--port", "70000"]])
    func usage(arguments: [String]) throws {
        #expect(try CommandRun(arguments).status == 64)
    }
}
