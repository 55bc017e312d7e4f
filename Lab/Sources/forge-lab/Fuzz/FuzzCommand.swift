import ArgumentParser
import Foundation

/// Makes the same random calls on a directory on disk and in memory.
///
/// A child process makes the calls. With privileges it confines itself to a directory by `chroot(2)` and acts as
/// several users; otherwise it uses only paths that cannot leave the directory by their form.
struct FuzzCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz", abstract: "Make the same random calls on the disk and in memory and compare.")

    @Option(help: "The seed of the random calls.") var seed: UInt64 = 1
    @Option(help: "The number of calls to make.") var operations = 200_000
    @Option(help: "The parent of the working directory, which is removed afterwards.") var directory: String?
    @Flag(inversion: .prefixedNo, help: "Shrink a failing sequence before printing it.") var minimise = true

    @Flag(help: "Print the outcomes of each call with their counts.") var outcomes = false

    @Flag(help: "Confine the calls by the form of their paths alone, even with privileges.") var confined = false

    func run() throws {
        let parent = directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        let place = parent.appendingPathComponent("forge-fuzz-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        let child = Process()
        child.executableURL = Bundle.main.executableURL
        child.arguments = [
            "fuzz-child", place.path, "--seed", "\(seed)", "--operations", "\(operations)",
            minimise ? "--minimise" : "--no-minimise",
        ]
        if confined { child.arguments?.append("--confined") }
        if outcomes { child.arguments?.append("--outcomes") }
        try child.run()
        child.waitUntilExit()
        try FileManager.default.removeItem(at: place)
        let isKilled = child.terminationReason == .uncaughtSignal
        if isKilled { print("seed \(seed): the child was killed by signal \(child.terminationStatus)") }
        if isKilled || child.terminationStatus != 0 { throw ExitCode.failure }
    }
}
