import ForgeFileSystem
import Foundation
import TestDepth
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A second process writes to a store and is killed; this one then opens the store.
@Suite("A store whose process was killed")
struct KillTests {
    /// The moment of a kill.
    struct Moment: CustomStringConvertible {
        let kind: StoreKind
        /// The number of acknowledged writes; -1 while the store is being opened.
        let acknowledged: Int
        /// The delay after that.
        let delayInMicroseconds: UInt32

        var description: String { "\(kind), \(delayInMicroseconds) µs after \(acknowledged) writes" }

        /// The first kill of each kind is at a fixed moment after some writes. The others are random; one in five hits
        /// the creation of the store.
        static let all = StoreKind.allCases.flatMap { kind in
            (0..<TestDepth.limit(1, deep: 50)).map { number in
                number == 0
                    ? Moment(kind: kind, acknowledged: 100, delayInMicroseconds: 50)
                    : Moment(
                        kind: kind, acknowledged: number.isMultiple(of: 5) ? -1 : .random(in: 0...400),
                        delayInMicroseconds: .random(in: 0...2_000))
            }
        }
    }

    @Test("contains every acknowledged value, and no torn one", arguments: Moment.all)
    func survivesKill(moment: Moment) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "kill-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer {
            do { try FileManager.default.removeItem(at: directory) } catch { Issue.record(error) }
        }
        let acknowledgement = try Acknowledgement(in: directory)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                kind = moment.kind.rawValue as String, path = directory.path as String,
                acknowledged = moment.acknowledged as Int, delay = moment.delayInMicroseconds as UInt32
            ] in
            try await write(kind, path, killedAfter: acknowledged, delay)
        }
        let acknowledged = try acknowledgement.read()
        #expect(acknowledged >= moment.acknowledged)
        let workload = try KillWorkload(moment.kind, directory: directory.appending(path: "store"))
        #expect(try await workload.violations(acknowledged: acknowledged) == [])
    }
}

/// Writes until another thread kills the process.
private func write(_ kind: String, _ path: String, killedAfter count: Int, _ delay: UInt32) async throws {
    let kind = try #require(StoreKind(rawValue: kind))
    let directory = URL(filePath: path)
    let acknowledgement = try Acknowledgement(in: directory)
    Thread.detachNewThread {
        while (try? acknowledgement.read()) ?? -1 < count { usleep(20) }
        usleep(delay)
        kill(getpid(), SIGKILL)
    }
    let workload = try KillWorkload(kind, directory: directory.appending(path: "store"))
    for number in 0... {
        try await workload.store.save(KillWorkload.value(number), KillWorkload.key(number))
        try acknowledgement.write(number)
    }
}
