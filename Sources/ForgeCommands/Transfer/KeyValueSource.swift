import ForgeStorage
import Foundation
import SystemPackage

/// The keys and values of a store, or of lines of JSON.
enum KeyValueSource {
    /// A store: on this machine as it was when it was opened for reading, on servers as it is when its first page is
    /// read.
    case store(OpenedKVStore)
    case lines(Home)

    /// A key that was read, or the reason why it could not be.
    typealias Item = (key: String, bytes: Result<[UInt8], CommandFailure>)

    /// Opens the place for reading.
    ///
    /// - Returns: The source, and the damage found in a store.
    static func open(_ home: Home) throws -> (KeyValueSource, damage: [String]) {
        if let server = try home.server() { return (.store(OpenedKVStore(try server.openKeyValueStore())), []) }
        guard home.scheme == .keyValue else { return (.lines(home), []) }
        let (store, damage) = try KVStoreArgument.open(home.url, .readOnly)
        return (.store(OpenedKVStore(store)), damage)
    }

    /// The number of keys, if it is known without reading every value.
    func count() async throws -> Int? {
        guard case .store(let store) = self else { return nil }
        return try await store.names().count
    }

    /// Whether it is known that there is no key.
    func isEmpty() async throws -> Bool {
        guard case .store(let store) = self else { return false }
        return try await store.isEmpty()
    }

    /// Calls `body` with every key, in the order of their bytes, or of the lines.
    func forEach(_ body: (Item) async throws -> Void) async throws {
        switch self {
        case .store(let store):
            try await store.forEach { key, entry in try await body((key, .success(entry.bytes))) }
        case .lines(let home):
            let descriptor: FileDescriptor = home.isStandardStream ? .standardInput : try Self.openFile(home)
            // Only read: an error of closing it has no effect.
            defer { if !home.isStandardStream { try? descriptor.close() } }
            try await Self.forEachLine(of: descriptor, body)
        }
    }

    private static func openFile(_ home: Home) throws -> FileDescriptor {
        do {
            return try FileDescriptor.open(FilePath(home.url.path), .readOnly)
        } catch let error as Errno {
            throw CommandFailure("cannot open \(home.path): \(error.text)")
        }
    }

    private static func forEachLine(of descriptor: FileDescriptor, _ body: (Item) async throws -> Void) async throws {
        var reader = LineReader(descriptor)
        var number = 0
        while let line = try reader.next() {
            try Interruption.check()
            number += 1
            guard line.contains(where: { ![0x20, 0x09, 0x0D].contains($0) }) else { continue }
            guard let text = String(validating: line, as: UTF8.self) else {
                try await body(("line \(number)", .failure(CommandFailure("not valid UTF-8"))))
                continue
            }
            let decoded: (key: String, bytes: [UInt8])
            do throws(CommandFailure) {
                decoded = try KeyValueLine.decode(text)
            } catch {
                try await body(("line \(number)", .failure(error)))
                continue
            }
            try await body((decoded.key, .success(decoded.bytes)))
        }
    }
}
