import ForgeFileStore
import ForgeFileSystem
import Foundation
import Synchronization

/// Many tasks on one file store. Every content tells its key and size, so a byte of another save or of another file is
/// recognised; increments are counted; nothing may be left behind, and no call may wait forever.
final class Files: Sendable {
    private static let keyCount = 200
    private static let directoryCount = 20
    private static let counterCount = 5

    private struct State {
        var calls = 0
        var refusals: [String: Int] = [:]
        var wrong: [String] = []
        var increments = Array(repeating: 0, count: counterCount)
    }

    private let directory: URL
    private let state = Mutex(State())

    init(directory: URL) {
        self.directory = directory
    }

    /// Returns whether everything was right.
    func run(seconds: Double, taskCount: Int) async throws -> Bool {
        let watching = watch()
        defer {
            watching.cancel()
            remove()
        }
        let end = Date(timeIntervalSinceNow: seconds)
        let store = DiskFileStore(root: directory, options: FileStoreOptions(durability: .none))
        try await store.open()
        try await Task.sleep(for: .milliseconds(1))  // The runtime opens descriptors of its own.
        let descriptors = Self.openDescriptorCount
        await withTaskGroup { group in
            for number in 0..<taskCount {
                group.addTask {
                    var random = SplitMix(state: UInt64(number))
                    while Date() < end { await self.step(store, &random) }
                }
            }
        }
        try await check(store)
        let temporary = try FileManager.default.subpathsOfDirectory(atPath: directory.path)
            .filter { $0.split(separator: "/").contains { $0.hasPrefix("#tmp-") || $0.hasPrefix("#trash-") } }
        for name in temporary { report("left behind: \(name)") }
        let leaked = Self.openDescriptorCount - descriptors - Self.flushedDirectoryCount
        try await store.open()  // Keeps the store until here.
        if leaked > 0 { report("\(leaked) more descriptors are open") }
        let result = state.withLock { $0 }
        for line in result.wrong.prefix(20) { print("files: \(line)") }
        let refusals = result.refusals.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(
            separator: ", ")
        print("files: refused: \(refusals)")
        print(
            "files: \(taskCount) tasks, \(result.calls) calls, \(result.increments.reduce(0, +)) increments,",
            "\(result.wrong.count) wrong values")
        return result.wrong.isEmpty
    }

    // MARK: One call

    private func step(_ store: DiskFileStore, _ random: inout SplitMix) async {
        let number = random.below(Self.keyCount)
        let key = "d\(number % Self.directoryCount)/k\(number)"
        let size = random.below(4) == 0 ? random.below(300_000) : random.below(3_000)
        let content = Self.content(key, size)
        do {
            switch random.below(100) {
            case ..<25: try await store.save(content, to: key)
            case ..<28: try await store.save(content, to: key, durability: .full)
            case ..<32: try await store.save(content, to: key, if: .absent)
            case ..<50: check(try await store.load(key), key)
            case ..<58: try await readInParts(store, key)
            case ..<66: try await write(store, key, content, isCommitted: random.below(4) > 0)
            case ..<74: try await increment(store, random.below(Self.counterCount))
            case ..<78:
                try await store.batch { batch in
                    for next in 0..<5 {
                        let key = "d\(next)/k\(next + 20 * (number % 10))"
                        batch.save(Self.content(key, size / 5), to: key)
                    }
                }
            case ..<84: try await cancelledSave(store, key, content)
            case ..<88: try await store.delete(key)
            case ..<89: try await store.deleteDirectory("d\(number % Self.directoryCount)")
            case ..<93: _ = try await store.totalSize()
            case ..<96: for try await _ in store.files(in: "d\(number % Self.directoryCount)", FileListingOptions()) {}
            default:
                let file = try await store.info(key)
                if file.sizeInBytes < 0 { report("\(key) has \(file.sizeInBytes) bytes") }
            }
        } catch let error as FileStoreError {
            state.withLock { $0.refusals["\(error.operation): \(error.code)", default: 0] += 1 }
            // Concurrent deletions of the directory exhaust the attempts of a save.
            let isExpected: Bool =
                switch error.code {
                case .notFound, .alreadyExists, .conflict, .foreignContent, .unavailable: true
                default: false
                }
            if !isExpected { report("\(error)") }
        } catch is CancellationError {
            report("cancelled without reason")
        } catch {
            report("\(error)")
        }
        state.withLock { $0.calls += 1 }
    }

    private func readInParts(_ store: DiskFileStore, _ key: String) async throws {
        var content = Data()
        for try await chunk in try await store.reader(for: key).chunks(ofSize: 10_000) { content += chunk }
        check(content, key)
    }

    private func write(_ store: DiskFileStore, _ key: String, _ content: Data, isCommitted: Bool) async throws {
        let writer = try await store.writer(for: key)
        try await writer.write(content.prefix(1_000))
        try await writer.write(content.dropFirst(1_000))
        if isCommitted { try await writer.commit() }
    }

    private func increment(_ store: DiskFileStore, _ counter: Int) async throws {
        try await store.update("counters/\(counter)") { content in
            guard let content else { return Data("1".utf8) }
            return Data("\((Int(String(decoding: content, as: UTF8.self)) ?? 0) + 1)".utf8)
        }
        state.withLock { $0.increments[counter] += 1 }
    }

    private func cancelledSave(_ store: DiskFileStore, _ key: String, _ content: Data) async throws {
        let task = Task {
            try await store.write(to: key) { writer in
                try await writer.write(content)
                try await writer.write(Data())
            }
        }
        task.cancel()
        do {
            _ = try await task.value
        } catch is CancellationError {}
    }

    // MARK: Checks

    private static func content(_ key: String, _ size: Int) -> Data {
        Data("\(key)\n\(size)\n".utf8) + Data(repeating: UInt8(truncatingIfNeeded: size), count: size)
    }

    private func check(_ content: Data, _ key: String) {
        let parts = content.split(separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].elementsEqual(key.utf8),
            let size = Int(String(decoding: parts[1], as: UTF8.self)), parts[2].count == size,
            parts[2].allSatisfy({ $0 == UInt8(truncatingIfNeeded: size) })
        else { return report("\(key) has \(content.count) bytes that were not saved there: \(content.prefix(40))") }
    }

    private func check(_ store: DiskFileStore) async throws {
        for try await file in store.files() where !file.isDirectory && !file.key.hasPrefix("counters/") {
            check(try await store.load(file.key), file.key)
        }
        for (counter, count) in state.withLock({ $0.increments }).enumerated() where count > 0 {
            let content = String(decoding: try await store.load("counters/\(counter)"), as: UTF8.self)
            if content != "\(count)" { report("counter \(counter) is \(content) after \(count) increments") }
        }
        let listed = try await store.list(recursive: true).reduce(0) { $0 + $1.sizeInBytes }
        let total = try await store.totalSize()
        if total != listed { report("the total size is \(total), that of all files \(listed)") }
    }

    private func report(_ line: String) { state.withLock { $0.wrong.append(line) } }

    /// Ends the process if no call ends for a minute.
    private func watch() -> Task<Void, Never> {
        Task.detached {
            var last = -1
            while !Task.isCancelled {
                let calls = self.state.withLock { $0.calls }
                if calls == last {
                    print("files: no call has ended for a minute after \(calls) calls")
                    exit(1)
                }
                last = calls
                do { try await Task.sleep(for: .seconds(60)) } catch { return }
            }
        }
    }

    /// The directories that a store holds open because it has flushed their names.
    private static let flushedDirectoryCount = 8

    private static var openDescriptorCount: Int {
        (0..<4096).count { fcntl($0, F_GETFD) >= 0 }
    }

    private func remove() {
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("\(directory.path) is left: \(error)")
        }
    }
}

/// Random numbers from a seed (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
private struct SplitMix {
    var state: UInt64

    mutating func below(_ bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ mixed >> 31) % UInt64(bound))
    }
}
