import Dispatch
import ForgeKVStore
import Foundation

/// Four threads and a second process increment one setting of a shared store: the sum must be exact, and an observer
/// must see it.
struct Counting {
    let directory: URL

    private static let setting = KVSetting("count", default: 0)
    private static let threads = 4

    /// Makes `count` increments, a fifth of them in the second process; returns whether all were counted and observed.
    func run(_ count: Int) throws -> Bool {
        defer { remove() }
        let store = try StoreKind.shared.open(directory)
        let setting = Setting(Self.setting, in: store)
        let share = count / (Self.threads + 1)
        let total = share * (Self.threads + 1)
        let seen = DispatchSemaphore(value: 0)
        let observer = Task {
            for await value in setting.values where value == total { seen.signal() }
        }
        defer { observer.cancel() }
        let start = Date()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = ["increment", directory.path, "\(share)"]
        try process.run()
        let crew = DispatchGroup()
        for _ in 0..<Self.threads {
            crew.enter()
            Thread.detachNewThread {
                defer { crew.leave() }
                do { try Self.increment(setting, share) } catch { print("count: \(error)") }
            }
        }
        crew.wait()
        process.waitUntilExit()
        let isSeen = seen.wait(timeout: .now() + 10) == .success
        let seconds = Date().timeIntervalSince(start)
        let sum = setting.wrappedValue
        print("count: \(sum) of \(total) in \(Int(seconds)) s, the last \(isSeen ? "seen" : "not seen")")
        return sum == total && isSeen && process.terminationStatus == 0
    }

    /// The work of the second process.
    func increment(_ count: Int) throws {
        try Self.increment(Setting(Self.setting, in: try StoreKind.shared.open(directory)), count)
    }

    private static func increment(_ setting: Setting<Int>, _ count: Int) throws {
        for _ in 0..<count { try setting.withLock { $0 += 1 } }
    }

    private func remove() {
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("\(directory.path) is left: \(error)")
        }
    }
}
