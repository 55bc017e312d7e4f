import ForgeFileSystem
import Foundation
import Testing

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

/// Runs each test twice: with file systems in memory as on Linux, and as on a Mac.
///
/// A test creates them with ``fileSystem()``.
struct EachPlatform: SuiteTrait, TestTrait, TestScoping {
    @TaskLocal private static var options = InMemoryFileSystem.Options()

    var isRecursive: Bool { true }

    /// An empty file system of the current platform.
    static func fileSystem(_ change: (inout InMemoryFileSystem.Options) -> Void = { _ in }) -> InMemoryFileSystem {
        var options = options
        change(&options)
        return InMemoryFileSystem(options: options)
    }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        for options in [InMemoryFileSystem.Options(), .darwin] {
            try await Self.$options.withValue(options, operation: function)
        }
    }
}

extension Trait where Self == EachPlatform {
    /// Runs each test as on Linux and as on a Mac.
    static var eachPlatform: Self { Self() }
}
