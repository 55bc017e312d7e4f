import ForgeFileStore
import ForgeFileSystem
import ForgeS3
import Foundation
import Synchronization

/// Tasks that call one store in S3: own files, exclusive saves of shared ones, streams and lists.
struct S3Stress: Sendable {
    /// The task that has created each shared file, as far as that is known.
    private final class Shared: Sendable {
        let creators = Mutex<[Int: Int]>([:])
        let count = Atomic(0)
    }

    let store: S3FileStore
    let run: StressRun
    private let own = OwnValues()
    private let shared = Shared()

    init(_ store: S3FileStore, _ run: StressRun) {
        (self.store, self.run) = (store, run)
    }

    private static func key(of task: Int) -> String { "own/\(task % 50)/\(task)" }

    /// A content that differs for each value, and the value of one; -1 for a torn or mixed one.
    private static func content(_ value: Int) -> Data { Data(String(repeating: "\(value) ", count: 200).utf8) }

    private static func value(of content: Data) -> Int {
        let words = String(decoding: content, as: UTF8.self).split(separator: " ")
        let value = words.first.flatMap { Int($0) } ?? -1
        return content == Self.content(value) ? value : -1
    }

    /// Makes a random call.
    func call(_ task: Int) async {
        do {
            switch Int.random(in: 0..<20) {
            case 0..<7: own.check(task, try await load(Self.key(of: task)), run)
            case 7..<12: try await save(task)
            case 12: try await remove(task)
            case 13..<15: try await stream(task)
            case 15..<19: try await create(task)
            default: try await list("own/\(task % 50)")
            }
            run.count("done")
        } catch is CancellationError {
            run.count("cancelled")
        } catch let error as FileStoreError {
            switch error.code {
            // A server that is too busy to accept a connection is one that is not there.
            case .unknownOutcome, .alreadyExists, .conflict, .unavailable(.server): run.count("\(error.code)")
            default: run.report("\(error)")
            }
        } catch {
            run.report("\(error)")
        }
    }

    private static func isUnknown(_ error: any Error) -> Bool {
        (error as? FileStoreError)?.code == .unknownOutcome
    }

    /// The value of a file; nil if it is absent.
    private func load(_ key: String) async throws -> Int? {
        do {
            return Self.value(of: try await store.load(key))
        } catch let error as FileStoreError where error.code == .notFound {
            return nil
        }
    }

    /// Lists a directory, which exists as long as it has a file.
    private func list(_ directory: String) async throws {
        do {
            _ = try await store.list(in: directory)
        } catch let error as FileStoreError where error.code == .notFound {}
    }

    private func save(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        try await own.note(task, value, isUnknown: Self.isUnknown) {
            try await store.save(Self.content(value), to: Self.key(of: task))
        }
    }

    private func remove(_ task: Int) async throws {
        try await own.note(task, nil, isUnknown: Self.isUnknown) {
            do {
                try await store.delete(Self.key(of: task))
            } catch let error as FileStoreError where error.code == .notFound {}
        }
    }

    /// Writes the task's own file in parts, and reads it in parts.
    private func stream(_ task: Int) async throws {
        let value = Int.random(in: 0 ... .max)
        try await own.note(task, value, isUnknown: Self.isUnknown) {
            let writer = try store.writer(for: Self.key(of: task))
            let content = Self.content(value)
            try await writer.write(content.prefix(1000))
            try await writer.write(content.dropFirst(1000))
            _ = try await writer.commit()
        }
        var content = Data()
        for try await part in store.contents(of: Self.key(of: task)) { content += part }
        own.check(task, Self.value(of: content), run)
    }

    /// Creates a shared file that others create at the same time.
    private func create(_ task: Int) async throws {
        let number = shared.count.add(1, ordering: .relaxed).newValue / 4
        try await store.save(Self.content(task), to: "shared/\(number)", overwrite: false)
        let other = shared.creators.withLock { $0.updateValue(task, forKey: number) }
        if other != nil { run.report("shared/\(number) was created twice") }
    }

    /// Compares every file with the outcomes of the calls.
    func check() async throws {
        for task in own.tasks { own.check(task, try await load(Self.key(of: task)), run) }
        let creators = shared.creators.withLock { $0 }
        for (number, task) in creators where try await load("shared/\(number)") != task {
            run.report("shared/\(number) is not that of its creator")
        }
        print("\(creators.count) files were created exclusively")
        await store.close()
    }
}
