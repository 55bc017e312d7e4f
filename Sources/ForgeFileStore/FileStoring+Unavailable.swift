public import Foundation

/// A call of a Codable storage, so that the compiler names the right one. No call compiles, so the body never runs.
extension FileStoring {
    @available(*, unavailable, message: "a file store is written with save(data, to: key)")
    public func save(_ data: Data, for key: String) async throws { fatalError("unavailable") }
}
