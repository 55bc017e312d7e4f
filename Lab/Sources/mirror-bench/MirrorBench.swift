import EtcdServers
import ForgeEtcd
import ForgeKVStore
import Foundation

/// Measures a mirror of a store in etcd beside the plainest program that does the same.
///
/// usage: mirror-bench [KEYS] [CHANGES]
@main
struct MirrorBench {
    static func main() async throws {
        let numbers = CommandLine.arguments.dropFirst().compactMap { Int($0) }
        guard numbers.count == CommandLine.arguments.count - 1, numbers.count <= 2, numbers.allSatisfy({ $0 >= 100 })
        else {
            print("usage: mirror-bench [KEYS] [CHANGES], at least 100 each")
            exit(2)
        }
        guard EtcdServer.isInstalled else { exit(1) }
        let content = SampleContent(count: numbers.first ?? 100_000)
        let server = try await EtcdServer.started()
        try await content.fill(try EtcdKVStore(content.configuration(server)))
        var table = GoalTable()
        table.show("\(content.count) keys of \(try content.sizePerKey) bytes with their values")
        try await Beginning.measure(content, server, &table)
        try await Reads.measure(content, server, &table)
        try await Delivery.measure(numbers.dropFirst().first ?? 1_000, server, &table)
        exit(table.isMet ? 0 : 1)
    }
}
