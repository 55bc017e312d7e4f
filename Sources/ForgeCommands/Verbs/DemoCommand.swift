import ArgumentParser
import ForgeStorage
import Foundation

/// Runs TaskFlow on disk, reads everything back in a second process, lists the stored items, and logs out.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Store settings, files, secrets, a session, images and values; read them back in a second process.",
        discussion: """
            Everything goes below one directory, which the demo creates; it refuses a directory that holds other files. \
            At the end the demo logs out: it removes what it stored and leaves empty stores. With --keep it removes \
            nothing, and `forge check` and the other commands have something to read.
            """)

    @Option(help: ArgumentHelp("Where to store everything.", valueName: "dir"))
    var directory = ".forge-demo"

    @Option(help: ArgumentHelp("A file to store as the avatar.", valueName: "file"))
    var avatar: String?

    @Flag(help: "Do not log out at the end.")
    var keep = false

    @Flag(help: "Print the stored items as JSON, one object per line, instead of the story; errors too.")
    var json = false

    @Flag(help: .hidden)
    var readBack = false

    func validate() throws {
        try requirePath(directory, of: "directory")
        try requirePath(avatar, of: "avatar")
    }

    func run() async throws {
        let content = try DemoContent(avatarFile: avatar.map { URL(fileURLWithPath: $0) })
        let place = try DemoDirectory(at: URL(fileURLWithPath: directory))
        if readBack { return try await readEverythingBack(place.url, content) }

        let isLoggedIn = try await withStory(place.url, content) { try $0.isLoggedIn() }
        try tell(
            !place.isUsed
                ? "TaskFlow starts for the first time, in \(directory)"
                : "TaskFlow starts again in \(directory), " + (isLoggedIn ? "still logged in" : "logged out"))
        try await withStory(place.url, content) { try await $0.store() }
        try tell([
            "  stored: onboarding flag, settings, access token, avatar (\(readableSize(content.avatar.count))),",
            "          session, \(content.images.count) cached images, a timeline",
            "A second process reads everything back",
        ])
        try startAgain()

        let items = try await withStory(place.url, content) { try await $0.stores.inventory() }
        if json { for item in items { try StandardOutput.print(line: item) } }
        try tell(["What is stored where"] + items.table.lines.map { "  " + $0 })
        guard !keep else { return try tell("Kept. Look around: forge check \(directory)") }
        try tell("TaskFlow logs out")
        try await withStory(place.url, content) { try await $0.logOut() }
        try await reportRemains(of: content, in: place)
    }

    private func tell(_ lines: [String]) throws {
        if !json { try StandardOutput.print(lines) }
    }

    private func tell(_ line: String) throws {
        try tell([line])
    }

    /// Opens the stores for one step, and closes them afterwards so that another process can open them.
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
        try tell(
            "  process \(ProcessInfo.processInfo.processIdentifier): all there, byte for byte")
    }

    /// Verifies that logging out removed every value, and lists the remaining files.
    private func reportRemains(of content: DemoContent, in place: DemoDirectory) async throws {
        let remains = try await withStory(place.url, content) { try await $0.remains() }
        guard remains.isEmpty else {
            throw CommandFailure("logging out left \(remains.joined(separator: ", "))")
        }
        let files = try place.remainingFiles()
        try tell([
            "  nothing that the demo stored is left; \(counted(files.count, "file")) of the empty stores remain:",
            "  " + files.joined(separator: ", "),
        ])
    }

    private func startAgain() throws {
        guard let executable = Bundle.main.executableURL else {
            throw CommandFailure("the demo cannot find its own executable to start it again")
        }
        let process = Process()
        process.executableURL = executable
        process.arguments = ["demo", "--read-back", "--directory", directory]
        if json { process.arguments?.append("--json") }
        if let avatar { process.arguments?.append(contentsOf: ["--avatar", avatar]) }
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw CommandFailure("the second process failed with status \(process.terminationStatus)")
        }
    }
}
