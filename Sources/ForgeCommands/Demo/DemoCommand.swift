import ArgumentParser
import ForgeStorage
import Foundation

/// Plays TaskFlow on disk, reads everything back in a second process, shows what is where, and logs out.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Store settings, files, secrets, a session, images and values; read them back in a second process.",
        discussion: """
            Everything goes below one directory. At the end the demo logs out and shows that nothing is left, unless \
            you ask it to keep what it stored; then `forge check` and the other commands have something to look at.
            """)

    @Option(help: ArgumentHelp("Where to store everything.", valueName: "dir"))
    var directory = ".forge-demo"

    @Option(help: ArgumentHelp("A file of yours to store as the avatar.", valueName: "file"))
    var avatar: String?

    @Flag(help: "Do not log out at the end.")
    var keep = false

    @Flag(help: .hidden)
    var readBack = false

    func run() async throws {
        let root = URL(fileURLWithPath: directory)
        let content = try DemoContent(avatarFile: avatar.map { URL(fileURLWithPath: $0) })
        if readBack { return try await readEverythingBack(root, content) }

        print("TaskFlow starts for the first time, in \(directory)")
        try await withStory(root, content) { try await $0.store() }
        print("  stored: onboarding flag, settings, access token, avatar (\(readableSize(content.avatar.count))),")
        print("          session, \(content.images.count) cached images, a timeline")

        print("A second process reads everything back")
        try startAgain()

        print("What is stored where")
        let items = try await withStory(root, content) { try await $0.stores.inventory() }
        for line in items.table.lines { print("  " + line) }

        guard !keep else { return print("Kept. Look around: forge check \(directory)") }
        print("TaskFlow logs out")
        let left = try await withStory(root, content) { story in
            try await story.logOut()
            return try await story.stores.inventory()
        }
        guard left.isEmpty else {
            throw CommandFailure("logging out left \(left.map(\.name).joined(separator: ", "))")
        }
        print("  nothing is left")
    }

    /// Opens the stores for one act of the story, and closes them again so that another process can.
    private func withStory<Result>(
        _ root: URL, _ content: DemoContent, _ act: (DemoStory) async throws -> Result
    ) async throws -> Result {
        try await act(DemoStory(stores: DemoStores(directory: root), content: content))
    }

    private func readEverythingBack(_ root: URL, _ content: DemoContent) async throws {
        let differences = try await withStory(root, content) { try await $0.differences() }
        guard differences.isEmpty else {
            throw CommandFailure("read back differently: \(differences.joined(separator: ", "))")
        }
        print("  process \(ProcessInfo.processInfo.processIdentifier): all there, byte for byte")
    }

    private func startAgain() throws {
        guard let executable = Bundle.main.executableURL else {
            throw CommandFailure("the demo cannot find its own executable to start it again")
        }
        let process = Process()
        process.executableURL = executable
        process.arguments = ["demo", "--read-back", "--directory", directory]
        if let avatar { process.arguments?.append(contentsOf: ["--avatar", avatar]) }
        // What this process has printed so far comes first.
        fflush(nil)
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw CommandFailure("the second process failed with status \(process.terminationStatus)")
        }
    }
}
