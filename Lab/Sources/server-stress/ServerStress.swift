import EtcdServers
import ForgeEtcd
import ForgeS3
import Foundation
import S3Servers

/// Calls a store on a server from many tasks, and checks its promises and its use of resources.
///
/// usage: server-stress etcd|s3 [TASKS] [SECONDS]
@main
struct ServerStress {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        let numbers = arguments.dropFirst().compactMap { Int($0) }
        let run = StressRun(tasks: numbers.first ?? 2000, seconds: numbers.dropFirst().first ?? 300)
        do {
            switch arguments.first {
            case "etcd": try await etcd(run)
            case "s3": try await s3(run)
            default:
                print("usage: server-stress etcd|s3 [TASKS] [SECONDS]")
                exit(2)
            }
        } catch {
            print("\(error)")
            exit(1)
        }
    }

    private static func etcd(_ run: StressRun) async throws {
        guard EtcdServer.isInstalled else { exit(1) }
        let server = try await EtcdServer.started(["--quota-backend-bytes", "8589934592"])
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.deadline = .seconds(120)
        let stress = EtcdStress(try EtcdKVStore(configuration), run)
        try await run.run({ await stress.call($0) }, then: { try await stress.check() })
        print("etcd: clean")
    }

    private static func s3(_ run: StressRun) async throws {
        guard MotoServer.isInstalled else { exit(1) }
        let server = try await MotoServer.shared()
        var configuration = S3FileStore.Configuration(
            bucket: MotoServer.bucket, region: "us-east-1", credentials: .values(server.credentials),
            endpoint: server.endpoint)
        configuration.deadline = .seconds(300)
        let stress = S3Stress(try S3FileStore(configuration), run)
        try await run.run({ await stress.call($0) }, then: { try await stress.check() })
        print("s3: clean")
    }
}
