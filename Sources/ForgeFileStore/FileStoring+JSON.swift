public import Foundation

/// Codable values as JSON files.
extension FileStoring {
    /// Stores a value as a JSON file.
    ///
    /// - Throws: ``FileStoreError`` with ``FileStoreError/Code/unencodable`` if the value cannot be encoded as JSON;
    ///   nothing was stored. Otherwise as ``save(_:to:overwrite:)``.
    public func saveJSON<Value: Encodable>(
        _ value: Value, to key: String, overwrite: Bool = true, encoder: JSONEncoder = JSONEncoder()
    ) async throws {
        let data: Data
        do {
            data = try encoder.encode(value)
        } catch {
            throw FileStoreError(.unencodable, .save, key: key, underlying: error)
        }
        try await save(data, to: key, overwrite: overwrite)
    }

    /// The value in a JSON file.
    ///
    /// - Throws: ``FileStoreError`` with ``FileStoreError/Code/undecodable`` if the file does not contain such a value;
    ///   the `DecodingError` is its underlying error, and the file is unchanged. Otherwise as ``load(_:)``.
    public func loadJSON<Value: Decodable>(
        _ key: String, as type: Value.Type = Value.self, decoder: JSONDecoder = JSONDecoder()
    ) async throws -> Value {
        let data = try await load(key)
        do {
            return try decoder.decode(type, from: data)
        } catch {
            throw FileStoreError(.undecodable, .load, key: key, underlying: error)
        }
    }

    /// The value in a JSON file, or nil if there is no such file.
    ///
    /// Nil means only ``FileStoreError/Code/notFound``: a file that cannot be read or decoded is an error.
    public func loadJSONIfExists<Value: Decodable>(
        _ key: String, as type: Value.Type = Value.self, decoder: JSONDecoder = JSONDecoder()
    ) async throws -> Value? {
        do {
            return try await loadJSON(key, as: type, decoder: decoder)
        } catch let error as FileStoreError where error.code == .notFound {
            return nil
        }
    }
}
