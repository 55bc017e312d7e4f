import ArgumentParser
import ForgeInspector
import ForgeStorage
import Foundation

/// Serves a page that shows every store below a directory while it changes.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Show every store below a directory in a browser, live.",
        discussion: """
            Prints the URL of a page on this machine and serves it until it is interrupted. The URL contains a random \
            token, without which every request for data is refused. Stores are read without a lock while other processes \
            use them. Secrets stay sealed; the page lists their names if you give the key of their vault and unlock it there.

            Edits need --write. They are applied together, only if the values have not changed since, and neither to a \
            store that another process has opened exclusively nor to one in a backup.

            Exit status: 0 when interrupted, 1 if the directory cannot be read or the port cannot be used, 4 if there is \
            no such directory or key file, 64 for a usage error, 69 if this command was built without the page (swift \
            build --traits Inspector adds it).
            """)

    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @Option(help: "The port to listen on; 0 chooses a free one.")
    var port: UInt16 = 0

    @Flag(help: "Permit editing values.")
    var write = false

    @Option(
        help: ArgumentHelp("A file that holds the key of vaults; may be given several times.", valueName: "file"))
    var vaultKey: [String] = []

    func validate() throws {
        try requirePath(directory, of: "directory")
        for path in vaultKey { try requirePath(path, of: "key file") }
    }

    func run() async throws {
        #if Inspector
        let root = URL(POSIXPath(directory))
        try requireStore("directory", at: root, isDirectory: true)
        var options = InspectorOptions()
        options.isWritable = write
        options.refusal = { directory in
            BackupManifest.contains(directory, on: SystemFileSystem())
                ? "the store is in a backup, which would change" : nil
        }
        options.vaultKeys = try vaultKey.map { try loadKey(at: URL(POSIXPath($0))) }
        let inspector = try Inspector(root, options: options)
        do {
            try await inspector.serve(port: Int(port)) { url in
                do {
                    try StandardOutput.print(url.absoluteString)
                } catch {
                    // The page cannot be opened without the URL.
                    StandardError.write("Error: \(error)\n")
                    Foundation.exit(EXIT_FAILURE)
                }
            }
        } catch {
            throw CommandFailure("cannot serve on 127.0.0.1:\(port): \(error)")
        }
        #else
        throw CommandFailure.notBuilt("the page", trait: "Inspector")
        #endif
    }
}
