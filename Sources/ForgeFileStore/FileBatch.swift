public import Foundation

/// Saves and deletions that a store performs together, in their order, with few flushes.
///
/// Each file is replaced atomically, the batch as a whole is not: a reader or a crash meanwhile may see some of the
/// changes. See ``StreamingFileStoring/batch(durability:_:)``.
public struct FileBatch: Sendable {
    enum Change: Sendable {
        case save(Data, SaveCondition, [String: String])
        case delete
    }

    private(set) var changes: [(key: String, change: Change)] = []

    /// Creates an empty batch.
    public init() {}

    /// Adds a save; see ``StreamingFileStoring/save(_:to:if:durability:attributes:)``.
    public mutating func save(
        _ data: Data, to key: String, if condition: SaveCondition = .always, attributes: [String: String] = [:]
    ) {
        changes.append((key, .save(data, condition, attributes)))
    }

    /// Adds a deletion; see ``FileStoring/delete(_:)``.
    public mutating func delete(_ key: String) {
        changes.append((key, .delete))
    }
}
