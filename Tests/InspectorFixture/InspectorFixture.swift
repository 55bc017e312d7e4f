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

/// A store of each kind.
struct SampleStores {
    struct Profile: Codable, Sendable {
        var name: String
        var joined: Date
        var languages: [String]
        var scores: [String: Double]
    }

    let directory: URL

    func make() async throws {
        try makeSettings()
        try makeDamaged()
        try makeVault()
        try await makeFiles()
        try await makeCache()
    }

    private func makeSettings() throws {
        let store = try FileKVStore(at: directory.appending(path: "settings"))
        try store.set(KVKey<String>("appearance/theme"), value: "dusk")
        try store.set(KVKey<Double>("appearance/scale"), value: 1.25)
        try store.set(KVKey<Bool>("appearance/compact"), value: false)
        try store.set(KVKey<Int>("launch-count"), value: 42)
        try store.set(KVKey<Date>("last-opened"), value: Date(timeIntervalSince1970: 1_780_000_000))
        try store.set(KVKey<URL?>("home"), value: URL(string: "https://example.org/start"))
        try store.set(KVKey<Data>("thumbnail"), value: Data((0..<200).map { UInt8($0) }))
        let profile = Profile(
            name: "Ada", joined: Date(timeIntervalSince1970: 1_700_000_000), languages: ["en", "fr"],
            scores: ["chess": 1820.5])
        try store.set(KVKey<Profile>("users/ada/profile"), value: profile)
        try store.set(KVKey<String>("users/ada/note"), value: String(repeating: "A long note. ", count: 20_000))
        try store.set(KVKey<Profile>("session.user"), value: profile)
        let sessions = ExpiringKVStore(NamespacedKVStore(store, namespace: "sessions"))
        try sessions.set(KVKey<String>("5f2a"), value: "ada", expiresAt: Date(timeIntervalSince1970: 4_000_000_000))
        for number in 0..<40 { try store.set(KVKey<Int>("counters/\(number)"), value: number) }
        try store.close()
    }

    /// A store with a damaged record between two whole ones, and with a file of data that was set aside.
    private func makeDamaged() throws {
        let place = directory.appending(path: "damaged")
        let store = try FileKVStore(at: place)
        for number in 0..<200 { try store.set(KVKey<String>("entry/\(number)"), value: "value \(number)") }
        try store.close()
        let log = place.appending(path: "log")
        var bytes = try Data(contentsOf: log)
        bytes[bytes.count / 2] ^= 0xFF
        try bytes.write(to: log)
        try Data("set aside".utf8).write(to: place.appending(path: "quarantine-records-00000000-4096-00000000"))
    }

    private func makeVault() throws {
        let place = directory.appending(path: "secrets")
        let key = try VaultKeyFile.loadOrCreate(at: place.appending(path: "vault.key"))
        let vault = try VaultCrypt(at: place.appending(path: "vault"), key: key)
        try vault.set("SECRET-VALUE-7d1c9a", for: CryptKey<String>(key: "hidden-name-api-token"))
        try vault.set("SECRET-VALUE-0b44ef", for: CryptKey<String>(key: "session.user"))
    }

    private func makeFiles() async throws {
        let store = DiskFileStore(root: directory.appending(path: "documents"))
        try await store.save(Data("# Notes\n\nBuy milk.\n".utf8), to: "notes/today.md", overwrite: true)
        try await store.save(Data((0..<5000).map { UInt8(truncatingIfNeeded: $0) }), to: "raw.bin", overwrite: true)
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        try await store.save(Data(base64Encoded: png) ?? Data(), to: "images/dot.png", overwrite: true)
    }

    private func makeCache() async throws {
        let cache = try BoundedCache<String>(directory: directory.appending(path: "cache"), coding: .codable)
        for number in 0..<30 { await cache.insert("page \(number)", for: "https://example.org/\(number)") }
    }
}
