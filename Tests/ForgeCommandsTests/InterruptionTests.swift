#if os(Linux)
import ChildProcesses
import Foundation
import Testing

@Suite("control-C")
struct InterruptionTests {
    /// A pipe without room, so that a process that writes to it waits.
    private struct FullPipe {
        let pipe = Pipe()

        init() throws {
            let descriptor = pipe.fileHandleForWriting.fileDescriptor
            let flags = fcntl(descriptor, F_GETFL)
            try #require(fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0)
            let bytes = [UInt8](repeating: 0, count: 1 << 12)
            while write(descriptor, bytes, bytes.count) > 0 {}
            while write(descriptor, bytes, 1) > 0 {}
            try #require(fcntl(descriptor, F_SETFL, flags) == 0)
        }
    }

    /// `write(2)` to standard output, by the numbers of x86_64 and arm64; the other's number is a call not made here.
    private static let writeCalls = ["1 0x1 ", "64 0x1 "]

    /// Whether a thread of a process waits in `write(2)` to standard output.
    private func isWriting(_ process: ChildProcess) -> Bool {
        let tasks = "/proc/\(process.id)/task"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
        return names.contains { name in
            let call = try? String(contentsOfFile: "\(tasks)/\(name)/syscall", encoding: .utf8)
            return Self.writeCalls.contains { call?.hasPrefix($0) == true }
        }
    }

    @Test(
        "a verb that control-C ends prints one line and has the status of SIGINT", .timeLimit(.minutes(10)),
        arguments: Verb.all)
    func interrupted(verb: Verb) async throws {
        // The others print nothing else that they could wait for; `check` stands for the form of the error.
        let json = !verb.prints || verb.name == "check"
        let fixture = try await StoreFixture()
        try verb.prepare(fixture.scratch.url.path)
        let output = try FullPipe()
        let errors = Pipe()
        let input = fixture.scratch.url.appendingPathComponent("input")
        try Data(verb.input.utf8).write(to: input)
        let process = try ChildProcess(
            CommandRun.executable(), verb.words(in: fixture.scratch.url.path) + (json ? ["--json"] : []),
            input: .file(FileHandle(forReadingFrom: input)), output: .pipe(output.pipe), errors: .pipe(errors))
        while process.isRunning, !isWriting(process) { usleep(1000) }
        // A verb that has something to tidy up is asked first.
        for _ in 0..<2 where process.isRunning {
            process.send(SIGINT)
            for _ in 0..<20 where process.isRunning { usleep(1000) }
        }
        #expect(process.wait(killingAfter: .seconds(60)) == .exit(130))
        let message = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let expected =
            json ? "{\"code\":130,\"kind\":\"interrupted\",\"message\":\"interrupted\"}\n" : "Error: interrupted\n"
        #expect(message == expected)
    }
}
#endif
