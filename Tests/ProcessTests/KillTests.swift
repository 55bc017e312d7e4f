import Foundation
import Testing

/// A process is killed in the middle of writing; another one opens the store and looks.
@Suite(.serialized)
struct KillTests {
    @Test(
        "whatever moment a process is killed at, acknowledged values are there and none is torn",
        arguments: ["keyValue", "sharedKeyValue", "batches", "file", "secret", "codable"])
    func survivesKill(kind: String) throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("kill-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        var generator = SystemRandomNumberGenerator()
        var kills = 0
        var writes = 0
        // On a machine so busy that a process gets nothing done in this time, the next one gets more.
        var longestDelay = 400
        for moment in 0..<50 {
            // A fresh store for every moment: its creation is hit too.
            let store = directory.appendingPathComponent("\(moment)")
            let delay = Duration.milliseconds(Int.random(in: 10...longestDelay, using: &generator))
            let killed = try LabProcess.run(
                "forge-lab", ["acknowledge", kind, store.path, "--count", "100000"], killAfter: delay)
            kills += killed.wasKilled ? 1 : 0
            // The last line may be cut off; a number counts once its line is whole.
            let lines = killed.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            let acknowledged = lines.last.flatMap { Int($0) } ?? -1
            writes += acknowledged + 1
            if acknowledged < 0 { longestDelay = min(2 * longestDelay, 4000) }
            let verified = try LabProcess.run(
                "forge-lab", ["verify", kind, store.path, "--acknowledged=\(acknowledged)"])
            #expect(
                verified.status == 0,
                "killed after \(delay), \(acknowledged + 1) acknowledged: \(verified.output)")
        }
        // Otherwise nothing was tested.
        #expect(kills >= 25)
        #expect(writes > 100)
        print("\(kind): \(kills) kills, \(writes) acknowledged writes")
    }
}
