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
    /// The value is decoded on the queue on which the storage calls its handlers. The errors are those of the
    /// synchronous call.
    public func fetch<T: Decodable & Sendable>(for key: String, handler: @escaping Handler<T>) {
        storage.fetchValue(for: key) { [decoder] fetched in
            handler(Result { try decoder.decode(T.self, from: try fetched.get()) })
        }
    }

    /// Stores `value` for `key` in the background and calls `handler` once, with `value` if it was stored.
    ///
    /// The value is encoded before the call returns, so it may be changed afterwards; if encoding fails, `handler` is
    /// called before the call returns. The errors are those of the synchronous call.
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

/// A key-value storage of bytes that can be read and written.
///
/// Depend on `any Storage`; pass a ``DiskStorage`` in the app and an ``InMemoryStorage`` in tests.
public typealias Storage = ReadableStorage & WritableStorage

/// The read operations of a key-value storage of bytes.
///
/// Code that only reads takes a `ReadableStorage`; code that also writes takes a ``Storage``. A type must implement the
/// two `fetchValue` methods.
public protocol ReadableStorage: Sendable {
    /// The value stored for `key`, read synchronously.
    ///
    /// - Throws: ``StorageError/notFound`` if there is none, ``StorageError/cantRead(_:)`` if the read fails: a failed
    ///   read is never reported as an absent value.
    func fetchValue(for key: String) throws -> Data

    /// Reads the value for `key` in the background and calls `handler` once with it.
    ///
    /// The errors are those of the synchronous call.
    func fetchValue(for key: String, handler: @escaping Handler<Data>)
}

extension ReadableStorage {
    /// The value stored for `key`, read without blocking a thread of the cooperative pool.
    ///
    /// It awaits a call with a handler, so it keeps the order of such calls. Cancelling the task has no effect.
    ///
    /// - Throws: The errors of the synchronous call.
    public func fetchValueInBackground(for key: String) async throws -> Data {
        try await withCheckedThrowingContinuation { continuation in
            fetchValue(for: key) { continuation.resume(with: $0) }
        }
    }
}

/// The write operations of a key-value storage of bytes.
///
/// A type must implement the two `save` methods. A type that can remove values also implements `removeValue(for:)`.
public protocol WritableStorage: Sendable {
    /// Stores `value` for `key` synchronously, replacing the previous value.
    ///
    /// - Throws: ``StorageError/cantWrite(_:)``, which says whether the previous value is kept.
    func save(value: Data, for key: String) throws

    /// Stores `value` for `key` in the background and calls `handler` once, with `value` if it was stored.
    ///
    /// The errors are those of the synchronous call.
    func save(value: Data, for key: String, handler: @escaping Handler<Data>)

    /// Removes the value for `key`; succeeds if there is none.
    ///
    /// - Throws: ``StorageError/cantRemove(_:)``, which says whether the value is kept. The default implementation
    ///   always throws ``StorageError/removalNotSupported``.
    func removeValue(for key: String) throws
}

extension WritableStorage {
    /// Throws ``StorageError/removalNotSupported``: the default for a type that cannot remove values.
    public func removeValue(for key: String) throws {
        throw StorageError.removalNotSupported
    }

    /// Stores `value` for `key` without blocking a thread of the cooperative pool.
    ///
    /// It awaits a call with a handler, so it keeps the order of such calls. Cancelling the task has no effect.
    ///
    /// - Throws: The errors of the synchronous call.
    public func saveInBackground(value: Data, for key: String) async throws {
        _ = try await withCheckedThrowingContinuation { continuation in
            save(value: value, for: key) { continuation.resume(with: $0) }
        }
    }
}

/// A handler of the result of a background operation, called on the storage's queue.
public typealias Handler<T> = @Sendable (Result<T, any Error>) -> Void

/// The error of a failed call of a ``Storage``.
///
/// The underlying error names the failed operation and the path or key: a `FileSystemError` with the `errno` of the
/// system, or an `InvalidKey` for a key that was rejected before any system call.
public enum StorageError: Error {
    /// Nothing is stored for the key.
    case notFound

    /// The read failed; the error does not tell whether a value is stored for the key.
    case cantRead(any Error)

    /// The value was not stored, and the previous value is kept. Exception: if the underlying error is a
    /// `FileSystemError` with `isEffectVisible`, the new value is stored, but a power cut may undo that.
    case cantWrite(any Error)

    /// The value was not removed. Exception: if the underlying error is a `FileSystemError` with `isEffectVisible`, it
    /// was removed, but a power cut may undo that.
    case cantRemove(any Error)

    /// The storage cannot remove values: its type does not implement `removeValue(for:)`.
    case removalNotSupported
}

extension StorageError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notFound: "nothing is stored for the key"
        case .cantRead(let error): "cannot read: \(error)"
        case .cantWrite(let error): "cannot write: \(error)"
        case .cantRemove(let error): "cannot remove: \(error)"
        case .removalNotSupported: "this storage cannot remove values"
        }
    }
}
