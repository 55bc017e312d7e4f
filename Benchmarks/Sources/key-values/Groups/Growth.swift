import ForgeKVStore
import Foundation
import Measuring

/// Fills a new store and measures the memory that each key takes: half of the values are `Int`, half `String` of 32
/// characters; names have 20 bytes. Runs in a new process, in which a store of one key has been used before, so that
/// the pages of the code do not count.
struct Growth {
    /// The argument that marks a child process.
    static let argument = "--growth"

    /// MMKV's bytes per key on the machine of the recorded figures.
    private static let elsewhere = [50_000: 162.0, 300_000: 139.0]

    static func line(count: Int, _ goal: Double, _ workspace: Workspace) throws -> GoalLine {
        let path = workspace.place("growth-\(count)").path
        var figures: [Double] = []
        for run in 0..<5 {
            guard let figure = Double(try Child.run([argument, "\(path)-\(run)", "\(count)"])) else {
                throw PeerFailure(library: "key-values", operation: argument, code: 0)
            }
            figures.append(figure)
        }
        let peers = elsewhere[count].map { [GoalLine.Peer("MMKV \(Peers.elsewhere)", .bytes($0))] } ?? []
        return GoalLine(
            "memory per key, \(count) keys", .atMost(.bytes(goal)), .bytes(figures.sorted()[2]), peers: peers)
    }

    /// Runs the measurement in this process: arguments are the path of a new store and the number of keys.
    static func run(_ arguments: [String]) throws -> String {
        guard arguments.count == 2, let count = Int(arguments[1]) else { throw Invocation.Unusable() }
        let text = "0123456789abcdef0123456789abcdef"
        let place = URL(fileURLWithPath: arguments[0], isDirectory: true)
        let first = try FileKVStore(at: place.appendingPathComponent("first", isDirectory: true))
        try first.set(KVKey("text"), value: text)
        let before = proportionalMemory()
        let store = try FileKVStore(at: place.appendingPathComponent("filled", isDirectory: true))
        for number in 0..<count {
            let digits = String(number)
            let name = "settings.key." + String(repeating: "0", count: 7 - digits.count) + digits
            if number % 2 == 0 {
                try store.set(KVKey(name), value: number &* 7919)
            } else {
                // Built anew, because all copies of a literal share one.
                try store.set(KVKey(name), value: String(decoding: Array(text.utf8), as: UTF8.self))
            }
        }
        let growth = proportionalMemory() - before
        return try withExtendedLifetime((first, store)) {
            guard store.get(KVKey<String>("settings.key.0000001")) == text else {
                throw WrongValue(store: "FileKVStore", name: arguments[0])
            }
            return "\(Double(growth) / Double(count))"
        }
    }
}
