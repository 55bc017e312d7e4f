import ForgeStorage
import Foundation
import SystemPackage

/// The keys and values of a store, or of lines of JSON.
enum KeyValueSource {
    /// A store as it was when it was opened for reading.
    case store(FileKVStore)
    case lines(Home)

    /// A key that was read, or the reason why it could not be.
    typealias Item = (key: String, bytes: Result<[UInt8], CommandFailure>)

    /// Opens the place for reading.
    ///
    /// - Returns: The source, and the damage found in a store.
    static func open(_ home: Home) throws -> (KeyValueSource, damage: [String]) {
        guard home.scheme == .keyValue else { return (.lines(home), []) }
        let (store, damage) = try KVStoreArgument.open(home.url, .readOnly)
        return (.store(store), damage)
    }

    /// The number of keys, if it is known without reading everything.
    func count() throws -> Int? {
        guard case .store(let store) = self else { return nil }
        return try store.keys().count
    }

    /// Calls `body` with every key, in the order of their bytes, or of the lines.
    func forEach(_ body: (Item) throws -> Void) throws {
        switch self {
        case .store(let store):
            for key in try store.keys().sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
                try Interruption.check()
                guard let bytes = try store.rawValue(named: key) else { continue }
                try body((key, .success(bytes)))
            }
        case .lines(let home):
            let descriptor: FileDescriptor = home.isStandardStream ? .standardInput : try Self.openFile(home)
            // Only read: an error of closing it has no effect.
            defer { if !home.isStandardStream { try? descriptor.close() } }
            try Self.forEachLine(of: descriptor, body)
        }
    }

    /// The value of a key in a store.
    func value(of key: String) throws -> [UInt8]? {
        guard case .store(let store) = self else { return nil }
        return try store.rawValue(named: key)
    }

    var isStore: Bool { if case .store = self { true } else { false } }

    private static func openFile(_ home: Home) throws -> FileDescriptor {
        do {
            return try FileDescriptor.open(FilePath(home.url.path), .readOnly)
        } catch let error as Errno {
            throw CommandFailure("cannot open \(home.path): \(error.text)")
        }
    }

    private static func forEachLine(of descriptor: FileDescriptor, _ body: (Item) throws -> Void) throws {
        var reader = LineReader(descriptor)
        var number = 0
        while let line = try reader.next() {
            try Interruption.check()
            number += 1
            guard line.contains(where: { ![0x20, 0x09, 0x0D].contains($0) }) else { continue }
            guard let text = String(validating: line, as: UTF8.self) else {
                try body(("line \(number)", .failure(CommandFailure("not valid UTF-8"))))
                continue
            }
            let decoded: (key: String, bytes: [UInt8])
            do throws(CommandFailure) {
                decoded = try KeyValueLine.decode(text)
            } catch {
                try body(("line \(number)", .failure(error)))
                continue
            }
            try body((decoded.key, .success(decoded.bytes)))
        }
    }
}
