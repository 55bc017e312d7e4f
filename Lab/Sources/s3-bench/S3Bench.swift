import ForgeFileStore
import ForgeS3
import Foundation
import NIOCore

#if canImport(Glibc)
import Glibc
#endif

/// Measures a store in S3 beside plain requests to the same server, which is a process of its own on loopback.
///
/// usage: s3-bench [SIZE-IN-MIB]
@main
struct S3Bench {
    private static let partSize = 8 << 20
    private static let partCount = 4

    static func main() async throws {
        guard CommandLine.arguments.dropFirst().first != "serve" else {
            try await BenchServer().serve()
            return
        }
        let size = (CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1024) << 20
        let server = Process()
        server.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        server.arguments = ["serve"]
        let output = Pipe()
        server.standardOutput = output
        try server.run()
        defer { server.terminate() }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) else { exit(1) }
        var configuration = S3FileStore.Configuration(
            bucket: "b", region: "us-east-1",
            credentials: .values(ForgeS3.S3Credentials(accessKeyID: "id", secretAccessKey: "secret")),
            endpoint: "http://127.0.0.1:\(port)")
        configuration.checksHierarchy = false
        configuration.partSizeInBytes = partSize
        configuration.transferCount = partCount
        let (store, raw) = (try S3FileStore(configuration), RawRequests(port: port))
        print("operation                    store        raw    ratio   memory growth")
        try await small(store, raw)
        try await large(store, raw, size: size)
        await store.close()
        try await raw.close()
    }

    /// Saves and loads of 4 KB, one after the other.
    private static func small(_ store: S3FileStore, _ raw: RawRequests) async throws {
        let content = Data(BenchServer.pattern().prefix(4096))
        let bytes = ByteBuffer(bytes: content)
        let count = 1_000
        var times: [[Duration]] = [[], [], [], []]
        for round in 0..<8 {
            let found = [
                try await time { for _ in 0..<count { try await store.save(content, to: "small", overwrite: true) } },
                try await time { for _ in 0..<count { try await raw.send("PUT", "raw", bytes) } },
                try await time { for _ in 0..<count { _ = try await store.load("small") } },
                try await time {
                    for _ in 0..<count {
                        _ = Data(
                            (try await raw.send("GET", "raw", headers: [("Range", "bytes=0-8388607")]))
                                .readableBytesView)
                    }
                },
            ]
            // The first round opens the connections.
            if round > 0 { for (index, time) in found.enumerated() { times[index].append(time) } }
        }
        for (name, index) in [("put of 4 KB", 0), ("get of 4 KB", 2)] {
            let (own, other) = (median(times[index]) / count, median(times[index + 1]) / count)
            row(name, "\(microseconds(own)) µs", "\(microseconds(other)) µs", own / other, nil)
        }
    }

    /// Transfers of a file in parts.
    private static func large(_ store: S3FileStore, _ raw: RawRequests, size: Int) async throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "s3-bench-\(UUID().uuidString)")
        guard FileManager.default.createFile(atPath: url.path, contents: nil) else { exit(1) }
        defer { do { try FileManager.default.removeItem(at: url) } catch { print(error) } }
        let file = try FileHandle(forUpdating: url)
        let pattern = Data(BenchServer.pattern())
        for _ in 0..<size / pattern.count { try file.write(contentsOf: pattern) }
        var (up, down, rawUp, rawDown): ([Duration], [Duration], [Duration], [Duration]) = ([], [], [], [])
        var (upMemory, downMemory) = (0, 0)
        for _ in 0..<3 {
            var before = resetPeak()
            up.append(try await time { try await store.copy(from: url, to: "large") })
            upMemory = max(upMemory, peak() - before)
            before = resetPeak()
            down.append(
                try await time {
                    var count = 0
                    for try await part in store.contents(of: "large") { count += part.count }
                    guard count == size else { exit(1) }
                })
            downMemory = max(downMemory, peak() - before)
            rawUp.append(
                try await time {
                    try await raw.upload(file, size: size, to: "raw-large", partSize: partSize, count: partCount)
                })
            rawDown.append(
                try await time {
                    try await raw.download("raw-large", size: size, partSize: partSize, count: partCount)
                })
        }
        for (name, own, other, memory) in [
            ("up", up, rawUp, upMemory), ("down", down, rawDown, downMemory),
        ] {
            let rates = [own, other].map { Double(size >> 20) / (median($0) / .seconds(1)) }
            row(
                "\(size >> 20) MiB \(name)", "\(Int(rates[0])) MiB/s", "\(Int(rates[1])) MiB/s", rates[0] / rates[1],
                memory)
        }
    }

    // MARK: Measurements

    private static func time(_ body: () async throws -> Void) async throws -> Duration {
        let start = ContinuousClock.now
        try await body()
        return ContinuousClock.now - start
    }

    private static func median(_ times: [Duration]) -> Duration { times.sorted()[times.count / 2] }

    private static func microseconds(_ time: Duration) -> Int { Int(time / .microseconds(1)) }

    private static func row(_ name: String, _ own: String, _ other: String, _ ratio: Double, _ memory: Int?) {
        let columns = [name.padding(toLength: 22, withPad: " ", startingAt: 0)] + [own, other].map { pad($0, 11) }
        let number = String(Int((ratio * 100).rounded()))
        let text = "\(number.dropLast(2).isEmpty ? "0" : number.dropLast(2)).\(String("0\(number)".suffix(2)))"
        print(columns.joined(), pad(text, 8), memory.map { pad("\($0) MiB", 8) } ?? "")
    }

    private static func pad(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    /// Resets the peak of the resident memory (proc(5), `clear_refs`), after freed memory has gone back to
    /// the system; returns the resident memory in MiB.
    private static func resetPeak() -> Int {
        #if canImport(Glibc)
        // The module has no malloc.h.
        typealias Trim = @convention(c) (Int) -> Int32
        if let symbol = dlsym(nil, "malloc_trim") { _ = unsafeBitCast(symbol, to: Trim.self)(0) }
        #endif
        do { try Data("5".utf8).write(to: URL(filePath: "/proc/self/clear_refs")) } catch { print(error) }
        return peak()
    }

    /// The largest resident memory of the process since the last call of `resetPeak`, in MiB.
    private static func peak() -> Int {
        do {
            let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
            let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
            return (line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0) >> 10
        } catch {
            return 0
        }
    }
}
