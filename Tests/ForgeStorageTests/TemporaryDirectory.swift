import Foundation

/// Calls `body` with a new, empty directory, which is removed afterwards.
func withTemporaryDirectory<Result>(_ body: (URL) async throws -> Result) async throws -> Result {
    let directory = FileManager.default.temporaryDirectory
        .appending(component: "ForgeStorageTests-\(UUID().uuidString)", directoryHint: .isDirectory)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    do {
        let result = try await body(directory)
        try FileManager.default.removeItem(at: directory)
        return result
    } catch {
        try FileManager.default.removeItem(at: directory)
        throw error
    }
}

/// The paths of all files below a directory, relative to it.
func files(below directory: URL) throws -> Set<String> {
    Set(try FileManager.default.subpathsOfDirectory(atPath: directory.path))
}
