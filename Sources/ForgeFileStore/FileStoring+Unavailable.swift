public import Foundation

/// A call of a Codable storage, declared unavailable so that the compiler suggests the right one.
extension FileStoring {
    @available(*, unavailable, message: "a file store is written with save(data, to: key)")
    public func save(_ data: Data, for key: String) async throws { fatalError("unavailable") }
}
