import ArgumentParser
import ForgeStorage
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle

/// A server that keeps notes until it is stopped by SIGTERM or SIGINT, or at once by SIGQUIT.
@main
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "notes-server")

    @Argument(help: "The directory of the store.")
    var directory: String

    @Option(help: "The port to listen on; 0 chooses a free one.")
    var port = 8080

    @Option(help: "The seconds after which a shutdown cancels the requests that have begun.")
    var patience = 20

    @Flag(help: "Other processes of this server use the same directory.")
    var shared = false

    func run() async throws {
        var options = FileKVStore.Options(sharing: shared ? .shared : .exclusive)
        options.lockTimeout = .seconds(1)  // Requests wait no longer for another process.
        let store = try FileKVStore(at: URL(fileURLWithPath: directory), options: options)

        let sessions = Sessions(store)
        try sessions.removeExpired()

        let logger = Logger(label: "notes-server")
        let server = Application(
            router: NoteRoutes(store, sessions).router(),
            configuration: .init(address: .hostname("127.0.0.1", port: port)),
            logger: logger)

        // Services stop in reverse order: the store is closed when the last request has been answered.
        var group = ServiceGroupConfiguration(
            services: [StoreService(store: store), server],
            gracefulShutdownSignals: [.sigterm, .sigint],
            cancellationSignals: [.sigquit],
            logger: logger)
        group.maximumGracefulShutdownDuration = .seconds(patience)
        try await ServiceGroup(configuration: group).run()
    }
}
