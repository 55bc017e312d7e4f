import ArgumentParser
import Foundation

/// Makes the same random calls on a directory of the disk and in memory.
///
/// The calls are made by a child process, which locks itself into a directory of its own (`chroot(2)`) if it has the
/// privileges and plays several users then; otherwise it makes only calls that stay below by their form.
struct FuzzCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz", abstract: "Make the same random calls on the disk and in memory and compare.")

    @Option(help: "Where the random calls start from; the same seed makes the same calls.") var seed: UInt64 = 1
    @Option(help: "How many calls to make.") var operations = 200_000
    @Option(help: "Where to make a directory to work in; it is removed afterwards.") var directory: String?
    @Flag(inversion: .prefixedNo, help: "Make a failing sequence short before it is printed.") var minimise = true

    @Flag(help: "Print how often each call ended how.") var outcomes = false

    @Flag(help: "Stay in the directory by the form of the paths alone, even with privileges.") var confined = false

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
