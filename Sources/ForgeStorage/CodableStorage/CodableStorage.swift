public import Foundation

/// Codable values in a ``Storage``, as JSON.
///
/// ```swift
/// let storage = CodableStorage(storage: DiskStorage(path: directory))
/// try storage.save(timeline, for: "timeline")
/// let cached: Timeline = try storage.fetch(for: "timeline")
/// ```
///
/// A fetch distinguishes three failures: ``StorageError/notFound``, ``StorageError/cantRead(_:)``, and a
/// `DecodingError` for bytes that do not decode as the requested type.
public final class CodableStorage: Sendable {
    private let storage: any Storage
    private let decoder: JSONDecoder
    private let encoder: JSONEncoder

    /// Creates a storage of Codable values in `storage`.
    ///
    /// - Parameters:
    ///   - storage: The storage of the bytes.
    ///   - decoder: Decodes values; must not be changed afterwards.
    ///   - encoder: Encodes values; must not be changed afterwards.
    public init(storage: any Storage, decoder: JSONDecoder = .init(), encoder: JSONEncoder = .init()) {
        self.storage = storage
        self.decoder = decoder
        self.encoder = encoder
    }

    /// The value stored for `key`.
    ///
    /// - Throws: The storage's errors, or a `DecodingError`.
    public func fetch<T: Decodable>(for key: String) throws -> T {
        try decoder.decode(T.self, from: try storage.fetchValue(for: key))
    }

    /// Stores `value` for `key`, replacing any previous value.
    ///
    /// - Throws: The storage's errors, or an `EncodingError`; the previous value is kept.
    public func save<T: Encodable>(_ value: T, for key: String) throws {
        try storage.save(value: try encoder.encode(value), for: key)
    }

    /// Removes the value for `key`; has no effect if there is none.
    ///
    /// - Throws: The storage's errors; the value is kept.
    public func remove(for key: String) throws {
        try storage.removeValue(for: key)
    }
}

/// Declared unavailable so that the compiler suggests `save(_:for:)`.
extension CodableStorage {
    @available(*, unavailable, message: "a Codable storage is written with save(value, for: key)")
    public func save<T: Encodable>(_ value: T, to key: String) throws { fatalError("unavailable") }
}

// MARK: In the background

extension CodableStorage {
    /// Fetches the value for `key` in the background and calls `handler` once with it.
    ///
    /// The value is decoded on the queue of the storage's handlers.
    public func fetch<T: Decodable & Sendable>(for key: String, handler: @escaping Handler<T>) {
        storage.fetchValue(for: key) { [decoder] fetched in
            handler(Result { try decoder.decode(T.self, from: try fetched.get()) })
        }
    }

    /// Stores `value` for `key` in the background and calls `handler` once, with `value` if it was stored.
    ///
    /// The value is encoded before the call returns, so it may be changed afterwards; if that fails, `handler` is
    /// called before the call returns.
    public func save<T: Encodable & Sendable>(_ value: T, for key: String, handler: @escaping Handler<T>) {
        let data: Data
        do {
            data = try encoder.encode(value)
        } catch {
            return handler(.failure(error))
        }
        storage.save(value: data, for: key) { saved in
            handler(saved.map { _ in value })
        }
    }

    /// Fetches the value for `key` on the storage's queue, without blocking a thread of the cooperative pool.
    ///
    /// - Throws: The storage's errors, or a `DecodingError`.
    public func fetchInBackground<T: Decodable & Sendable>(for key: String) async throws -> T {
        try decoder.decode(T.self, from: try await storage.fetchValueInBackground(for: key))
    }

    /// Stores `value` for `key` on the storage's queue, without blocking a thread of the cooperative pool.
    ///
    /// - Throws: The storage's errors, or an `EncodingError`; the previous value is kept.
    public func saveInBackground<T: Encodable & Sendable>(_ value: T, for key: String) async throws {
        try await storage.saveInBackground(value: try encoder.encode(value), for: key)
    }
}
