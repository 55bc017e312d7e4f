import ForgeStorage
import Foundation

/// The value that the checks of storages store.
let hello = Data("hello world".utf8)

/// The blocking call; in an async context the compiler would choose the asynchronous one.
func fetchNow(_ key: String, from storage: any Storage) throws -> Data {
    try storage.fetchValue(for: key)
}

/// The blocking call.
func saveNow(_ value: Data, for key: String, in storage: any Storage) throws {
    try storage.save(value: value, for: key)
}

/// The result passed to a call's handler.
func outcome(of call: (@escaping Handler<Data>) -> Void) async -> Result<Data, any Error> {
    await withCheckedContinuation { continuation in
        call { continuation.resume(returning: $0) }
    }
}

func expectNotFound(
    _ key: String, in storage: any Storage, file: StaticString = #fileID, line: UInt = #line
) async throws {
    let error = try await expectError(StorageError.self, "fetching \(key)", file: file, line: line) {
        try fetchNow(key, from: storage)
    }
    try expect(error.isNotFound, "fetching \(key): expected notFound, got \(error)", file: file, line: line)
}

extension StorageError {
    var isNotFound: Bool { if case .notFound = self { true } else { false } }
    var isCantRead: Bool { if case .cantRead = self { true } else { false } }
    var isCantWrite: Bool { if case .cantWrite = self { true } else { false } }
    var isCantRemove: Bool { if case .cantRemove = self { true } else { false } }
}
