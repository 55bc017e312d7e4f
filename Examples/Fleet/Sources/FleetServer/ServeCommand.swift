import ArgumentParser
import ForgeEtcd
import ForgeS3
import ForgeStorage
import Foundation
import Hummingbird

/// One of several equal servers, which share sessions and settings by etcd and avatars by S3.
@main
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "fleet-server")

    @Option(help: "The port to listen on; 0 chooses a free one.")
    var port = 8080

    @Option(help: "A server of etcd; repeat the option for each of the cluster.")
    var etcd = ["http://127.0.0.1:2379"]

    @Option(help: "The bucket of the avatars.")
    var bucket = "avatars"

    @Option(help: "The region of the bucket.")
    var region = "us-east-1"

    @Option(help: "A server with the API of S3 other than that of AWS, such as http://127.0.0.1:9000.")
    var s3: String?

    @Option(help: "A directory for a copy of the settings, with which the server starts if etcd cannot be reached.")
    var settingsCopy: String?

    func run() async throws {
        let etcd = try EtcdKVStore(.init(endpoints: etcd))
        let sessions = Sessions(etcd)

        var mirrored = MirroredKVStore.Configuration()
        mirrored.copy = try settingsCopy.map { try .init(at: URL(fileURLWithPath: $0)) }
        let settings = try MirroredKVStore(NamespacedKVStore(etcd, namespace: "settings"), mirrored)

        // Credentials come from the environment, a profile, the container or the instance, never from arguments.
        let avatars = try S3FileStore(.init(bucket: bucket, region: region, endpoint: s3))

        do {
            try await settings.wait(upTo: .seconds(5))
        } catch {
            // Without etcd, the last known settings are better than no server.
            guard settingsCopy != nil, settings.revision != nil else { throw error }
        }
        let server = Application(
            router: FleetRoutes(sessions: sessions, settings: settings, avatars: avatars).router(),
            configuration: .init(address: .hostname("127.0.0.1", port: port)))
        try await server.runService()  // Until SIGTERM or SIGINT, when the last request has been answered.

        try await settings.close()
        await avatars.close()
        await etcd.close()
    }
}
