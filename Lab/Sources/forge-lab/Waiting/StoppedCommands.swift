import ArgumentParser
import Crypto
import ForgeCrypt
import ForgeFileStore
import ForgeKVStore
import ForgeStorage
import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A store that processes share, of which one is stopped by `Lab/check-stopped.py`.
struct StoppedStore: ParsableArguments {
    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case keyValue, files, vault, cache
    }

    /// How long a call waits for another process.
    static let patience = Duration.seconds(1)

    @Argument(help: "The kind of the store.")
    var kind: Kind

    @Argument(help: "The directory of the store.")
    var directory: String

    var url: URL { URL(filePath: directory, directoryHint: .isDirectory) }

    func keyValues() throws -> FileKVStore {
        // A log this small is compacted by almost every batch.
        let options = FileKVStore.Options(
            sharing: .shared, compactionFloorInBytes: 1_000, lockTimeout: Self.patience)
        return try FileKVStore(at: url, options: options)
    }

    func files(deadline: Duration?) -> DiskFileStore {
        DiskFileStore(root: url, options: FileStoreOptions(deadline: deadline))
    }

    func vault() throws -> VaultCrypt {
        let key = SymmetricKey(data: Data(repeating: 7, count: 32))
        return try VaultCrypt(at: url.appending(path: "vault"), key: key, lockTimeout: Self.patience)
    }

    func cache() throws -> BoundedCache<Data> { try BoundedCache(directory: url, coding: .bytes) }
}

/// Makes a fixed sequence of calls, and prints a line after each: what it says was acknowledged.
struct StoppedVictimCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "stopped-victim", shouldDisplay: false)

    @OptionGroup var store: StoppedStore

    func run() async throws {
        // The tracer counts from here.
        _ = getppid()
        switch store.kind {
        case .keyValue:
            let values = try store.keyValues()
            try values.set(KVKey<Int>("victim"), value: 1)
            say("set victim 1")
            _ = try values.update(KVKey<Int>("victim"), default: 0) { $0 += 1 }
            say("set victim 2")
            for round in 0..<4 {
                var batch = KVBatch()
                for number in 0..<40 { try batch.set(KVKey<String>("v\(number)"), value: "value \(round)") }
                try values.commit(batch)
                say("batch \(round)")
            }
            try values.synchronize()
            try values.close()
        case .files:
            // The time in which it is stopped is not to end its calls.
            let files = store.files(deadline: nil)
            try await files.save(Data("1".utf8), to: "victim")
            say("set victim 1")
            let revision = try await files.info("victim").revision
            guard let revision else { throw ExitCode.failure }
            try await files.save(Data("2".utf8), to: "victim", if: .unchanged(revision))
            say("set victim 2")
            try await files.save(Data("3".utf8), to: "folder/other")
            try await files.delete("folder/other")
            try await files.batch { $0.save(Data("4".utf8), to: "batch") }
        case .vault:
            let vault = try store.vault()
            try vault.set("1", for: CryptKey(key: "victim"))
            say("set victim 1")
            try vault.set("2", for: CryptKey(key: "victim"))
            say("set victim 2")
        case .cache:
            let cache = try store.cache()
            await cache.insert(Data("1".utf8), for: "victim")
            await cache.insert(Data("2".utf8), for: "victim")
            try await cache.remove("victim")
        }
        say("done")
    }

    private func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
}

/// For each line on standard input reads and writes, and prints what came of it as a line of JSON.
struct StoppedObserverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "stopped-observer", shouldDisplay: false)

    @OptionGroup var store: StoppedStore

    private struct Outcome: Encodable {
        var getMilliseconds = 0.0
        var readMilliseconds = 0.0
        var writeMilliseconds = 0.0
        var victim = ""
        var read = "ok"
        var write = "ok"
        var own = ""
    }

    func run() async throws {
        let values = store.kind == .keyValue ? try store.keyValues() : nil
        let files = store.files(deadline: StoppedStore.patience)
        let vault = store.kind == .vault ? try store.vault() : nil
        let cache = store.kind == .cache ? try store.cache() : nil
        let name = "own-\(ProcessInfo.processInfo.processIdentifier)"
        var number = 0
        while readLine() != nil {
            number += 1
            let value = number
            var outcome = Outcome()
            outcome.getMilliseconds = await milliseconds {
                if let values { outcome.victim = values.get(KVKey<Int>("victim")).map { "\($0)" } ?? "" }
            }
            outcome.readMilliseconds = await milliseconds {
                outcome.read = await result {
                    switch store.kind {
                    case .keyValue: outcome.victim = try values?.read(KVKey<Int>("victim")).map { "\($0)" } ?? ""
                    case .files: outcome.victim = String(decoding: try await files.load("victim"), as: UTF8.self)
                    case .vault: outcome.victim = try vault?.get(CryptKey<String>(key: "victim")) ?? ""
                    case .cache: _ = try await cache?.value(for: "other") { Data() }
                    }
                }
            }
            outcome.writeMilliseconds = await milliseconds {
                outcome.write = await result {
                    switch store.kind {
                    case .keyValue: try values?.set(KVKey<Int>(name), value: value)
                    case .files: try await files.save(Data("\(value)".utf8), to: name)
                    case .vault: try vault?.set("\(value)", for: CryptKey(key: name))
                    case .cache: await cache?.insert(Data("\(value)".utf8), for: name)
                    }
                    outcome.own = "\(value)"
                }
            }
            let line = try JSONEncoder().encode(outcome)
            FileHandle.standardOutput.write(line + Data("\n".utf8))
        }
    }

    private func milliseconds(_ body: () async -> Void) async -> Double {
        let start = ContinuousClock.now
        await body()
        return (ContinuousClock.now - start) / .milliseconds(1)
    }

    /// "ok", or the name of the error's code.
    private func result(_ body: () async throws -> Void) async -> String {
        do {
            try await body()
            return "ok"
        } catch let error as FileStoreError where error.code == .notFound {
            return "ok"
        } catch let error as KVStoreError {
            return "\(error.code)"
        } catch let error as FileStoreError {
            return "\(error.code)"
        } catch let error as CryptError {
            return "\(error.code)"
        } catch {
            return "\(error)"
        }
    }
}
