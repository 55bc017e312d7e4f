import EtcdServers
import Foundation

/// Maintenance of a cluster through the gateways of its members.
struct Quota {
    private let cluster: EtcdCluster

    /// A key outside of the names of any store.
    private static let key = Data("filler".utf8).base64EncodedString()

    init(_ cluster: EtcdCluster) {
        self.cluster = cluster
    }

    /// Writes until the database exceeds its quota, waits, and makes room again.
    func exceed(for duration: Duration) async throws {
        let value = Data(repeating: 1, count: 512 << 10).base64EncodedString()
        let gateway = Gateway(cluster.endpoints[0])
        var isExceeded = false
        // Twice what fits.
        for _ in 0..<(2 * Fault.quotaInBytes / (512 << 10)) where !isExceeded {
            do {
                try await gateway.post("/v3/kv/put", #"{"key":"\#(Self.key)","value":"\#(value)"}"#)
            } catch let error as Gateway.Refused {
                isExceeded = error.answer.contains("space exceeded")
            }
        }
        guard isExceeded else { throw NotExceeded() }
        try await Task.sleep(for: duration)
        try await gateway.post("/v3/kv/deleterange", #"{"key":"\#(Self.key)"}"#)
        try await compact()
        for endpoint in cluster.endpoints { try await Gateway(endpoint).post("/v3/maintenance/defragment", "{}") }
        // Each member has raised an alarm of its own.
        let alarms = try JSONDecoder().decode(
            Alarms.self, from: Data(try await gateway.post("/v3/maintenance/alarm", #"{"action":"GET"}"#).utf8))
        for alarm in alarms.alarms ?? [] {
            try await gateway.post(
                "/v3/maintenance/alarm",
                #"{"action":"DEACTIVATE","memberID":"\#(alarm.memberID)","alarm":"\#(alarm.alarm)"}"#)
        }
    }

    struct NotExceeded: Error {}

    private struct Alarms: Decodable {
        struct Alarm: Decodable {
            var memberID: String
            var alarm: String
        }

        var alarms: [Alarm]?
    }

    /// Removes all revisions before the present one.
    func compact() async throws {
        let gateway = Gateway(cluster.endpoints.randomElement() ?? cluster.endpoints[0])
        let answer = try await gateway.post("/v3/kv/range", #"{"key":"\#(Self.key)"}"#)
        let range = try JSONDecoder().decode(Range.self, from: Data(answer.utf8))
        do {
            try await gateway.post("/v3/kv/compaction", #"{"revision":"\#(range.header.revision)","physical":true}"#)
        } catch let error as Gateway.Refused where error.answer.contains("compacted") {}
    }

    private struct Range: Decodable {
        struct Header: Decodable {
            var revision: String
        }

        var header: Header
    }
}
