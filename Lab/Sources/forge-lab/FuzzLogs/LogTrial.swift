import ForgeFileSystem
import ForgeKVStore
import Foundation
import Synchronization
import SystemPackage

/// Opens a store on damaged bytes, uses it, and verifies its promises.
struct LogTrial {
    private var log: LogCase
    private let fileSystem: InMemoryFileSystem
    private let issues = IssueCounter()
    private let names: [String]

    /// The store's reaction to the bytes.
    enum Outcome: Int, CaseIterable {
        /// No issue was reported: no relevant damage, or the log is another undamaged one.
        case clean

        /// Bytes were set aside, or records were found to be missing.
        case damaged

        /// The log ended in an unfinished record.
        case torn

        /// The store was opened read-only.
        case readOnly

        /// Opening threw an error.
        case refused
    }

    init(_ log: LogCase) {
        self.log = log
        fileSystem = InMemoryFileSystem(options: .init(seed: UInt64(log.log.count)))
        names = log.sources.sorted().flatMap { LogTemplate.all[$0].names }
    }

    private var options: FileKVStore.Options {
        var options = LogTemplate.options
        options.onIssue = issues.count
        if log.page != nil { options.sharing = .shared }
        return options
    }

    private func open() throws -> FileKVStore {
        try FileKVStore(at: "/store", fileSystem: fileSystem, options: options)
    }

    /// - Throws: ``FuzzFailure`` if a promise is broken.
    mutating func run() throws -> Outcome {
        try fileSystem.makeDirectories("/store")
        try write("log", log.log)
        if let page = log.page { try write("#shared", page) }
        if log.random.chance(5) { try inspect() }
        let kept: Kept
        do {
            kept = try use(try open())
        } catch let error as KVStoreError where error.operation == .open {
            try checkRefusal(error)
            return .refused
        }
        let outcome = issues.outcome
        try reopen(kept)
        return outcome
    }

    private func write(_ name: POSIXPath, _ bytes: [UInt8]) throws {
        let path = POSIXPath("/store").appending(name)
        let file = try fileSystem.open(path, .writeOnly, options: [.create], permissions: [.ownerReadWrite])
        try fileSystem.writeBytes(bytes, to: file)
        try fileSystem.close(file)
    }

    /// A store is refused only if a later version wrote it, and is then left unchanged.
    private func checkRefusal(_ error: KVStoreError) throws {
        // Only a recomputed checksum, or a spliced part of a forged log, makes a foreign version credible.
        guard "\(error.code)".hasPrefix("unknown format"), log.isForged else {
            throw FuzzFailure("refused: \(error)")
        }
        guard try fileSystem.readFile("/store/log") == log.log else {
            throw FuzzFailure("the refused log has changed")
        }
    }

    private func inspect() throws {
        do {
            _ = try KVInspection(of: URL(filePath: "/store"), fileSystem: fileSystem)
        } catch let error as KVStoreError where "\(error.code)".hasPrefix("unknown format") && log.isForged {
            // Opening is refused too.
        }
    }
}

// MARK: Using the store

extension LogTrial {
    /// The state that must survive reopening.
    private struct Kept {
        var name: String
        var value: String
        /// False if the value could not be set.
        var isSet = false
        var content: [String: [UInt8]] = [:]
        /// Whether every value was read before, so that all damage was found.
        var isWhole = false
    }

    private mutating func use(_ store: FileKVStore) throws -> Kept {
        for _ in 0..<4 where !names.isEmpty {
            let name = log.random.pick(names)
            try check(name, try store.rawValue(named: name))
            // After a typed read the store re-encodes the value, which then differs from a forged encoding.
            if !log.hasForgedContent { _ = store.get(KVKey<String>(name)) }
        }
        var kept = Kept(name: log.random.chance(50) ? "new" : names.last ?? "new", value: "set \(log.log.count)")
        kept.isWhole = log.random.chance(70)
        if kept.isWhole {
            for name in try store.keys() { try check(name, try store.rawValue(named: name)) }
        }
        do {
            if log.random.chance(20), let name = names.first { try store.remove(KVKey<String>(name)) }
            try store.set(KVKey<String>(kept.name), value: kept.value)
            if log.random.chance(10) { try store.batch { try $0.set(KVKey<Int>("other"), value: 1) } }
            if log.random.chance(5) { try store.compact() }
            if log.random.chance(5) { try store.synchronize() }
            kept.isSet = true
        } catch let error as KVStoreError where log.isForged && error.code.unavailability != nil {
            // A forged revision leaves none for later writes; the caller received an error.
        }
        if kept.isWhole { kept.content = try content(of: store) }
        return kept
    }

    /// A served value must have been written under its name.
    private func check(_ name: String, _ bytes: [UInt8]?) throws {
        guard let bytes, !log.hasForgedContent else { return }
        guard log.sources.contains(where: { LogTemplate.all[$0].written[name]?.contains(bytes) ?? false }) else {
            throw FuzzFailure("\(name) has a value that was never written: \(bytes.prefix(40))")
        }
    }

    private func reopen(_ kept: Kept) throws {
        guard kept.isSet else { return }
        let first = issues.take()
        let store = try open()
        let value = try store.read(KVKey<String>(kept.name))
        let content = try content(of: store)
        let second = issues.descriptions
        for name in content.keys { _ = store.get(KVKey<String>(name)) }
        guard value == kept.value, content[kept.name] != nil else {
            throw FuzzFailure("a value that was set is missing: first \(first), then \(second)")
        }
        guard !kept.isWhole || content == kept.content else {
            let names = Set(content.keys).union(kept.content.keys).filter { content[$0] != kept.content[$0] }.sorted()
            throw FuzzFailure("\(names) have changed: first \(first), then \(second)")
        }
        guard second.isEmpty || !kept.isWhole else {
            throw FuzzFailure("not repaired: first \(first), then \(second)")
        }
    }

    private func content(of store: FileKVStore) throws -> [String: [UInt8]] {
        var content: [String: [UInt8]] = [:]
        for entry in try store.snapshot() { content[entry.name] = entry.entry.bytes }
        return content
    }
}

/// Counts the issues that a store reports.
final class IssueCounter: Sendable {
    private let issues = Mutex<[KVStoreIssue]>([])

    @Sendable func count(_ issue: KVStoreIssue) { issues.withLock { $0.append(issue) } }

    var descriptions: [String] { issues.withLock { $0.map(\.description) } }

    /// Returns the issues since the last call, and clears them.
    func take() -> [String] {
        issues.withLock { issues in
            defer { issues = [] }
            return issues.map(\.description)
        }
    }

    /// The most severe outcome.
    var outcome: LogTrial.Outcome {
        issues.withLock { issues in
            var outcome = LogTrial.Outcome.clean
            for issue in issues {
                switch issue {
                case .readOnly: return .readOnly
                case .damage, .missingRecords: outcome = .damaged
                case .tornTail where outcome == .clean: outcome = .torn
                default: break
                }
            }
            return outcome
        }
    }
}
