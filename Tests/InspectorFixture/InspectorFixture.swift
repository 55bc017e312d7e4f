import Crypto
import ForgeStorage
import Foundation

/// Makes the stores that the tests of the page show, and writes to one of them as another process.
///
///     InspectorFixture make DIRECTORY       every kind of store
///     InspectorFixture keys DIRECTORY N     a store of N keys
///     InspectorFixture hold DIRECTORY [shared]
///
/// `hold` opens a store, prints `ready`, and sets a key for each line `KEY VALUE` that it reads, until its input ends.
@main
struct InspectorFixture {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 3 else { fatalError("usage: make DIR | keys DIR N | hold DIR [shared]") }
        let directory = URL(fileURLWithPath: arguments[2], isDirectory: true)
        switch arguments[1] {
        case "make": try await SampleStores(directory: directory).make()
        case "keys": try makeKeys(in: directory, count: Int(arguments[3]) ?? 0)
        case "hold": try hold(directory, isShared: arguments.dropFirst(3).first == "shared")
        default: fatalError("unknown command \(arguments[1])")
        }
    }

    private static func makeKeys(in directory: URL, count: Int) throws {
        let store = try FileKVStore(at: directory)
        for start in stride(from: 0, to: count, by: 10_000) {
            try store.batch { batch in
                for number in start..<min(start + 10_000, count) {
                    let name = "group\(number % 100)/" + String(String(1_000_000 + number).dropFirst())
                    try batch.set(KVKey<Int>(name), value: number)
                }
            }
        }
        try store.close()
    }

    private static func hold(_ directory: URL, isShared: Bool) throws {
        let store = try FileKVStore(at: directory, options: .init(sharing: isShared ? .shared : .exclusive))
        say("ready")
        while let line = readLine() {
            let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
            try store.set(KVKey<String>(parts[0]), value: parts.count > 1 ? parts[1] : "")
            say("set")
        }
        try store.close()
    }

    /// Prints a line at once, also into a pipe.
    private static func say(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
