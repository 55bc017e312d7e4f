import EtcdServers
import ForgeEtcd
import Foundation

/// Calls a store on a server from many tasks, and checks its promises and its use of resources.
///
/// usage: server-stress [TASKS] [SECONDS]
@main
struct ServerStress {
    static func main() async throws {
        let numbers = CommandLine.arguments.dropFirst().compactMap { Int($0) }
        let (tasks, seconds) = (numbers.first ?? 2000, numbers.dropFirst().first ?? 300)
        guard EtcdServer.isInstalled else { exit(1) }
        let server = try await EtcdServer.started(["--quota-backend-bytes", "8589934592"])
        var configuration = EtcdKVStore.Configuration(endpoints: [server.endpoint])
        configuration.deadline = .seconds(120)
        let run = StressRun(tasks: tasks, seconds: seconds)
        let stress = EtcdStress(try EtcdKVStore(configuration), run)
        try await run.run({ await stress.call($0) }, then: { try await stress.check() })
        print("etcd: clean")
    }
}
