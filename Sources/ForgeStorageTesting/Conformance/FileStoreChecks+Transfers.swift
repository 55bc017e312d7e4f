package import ForgeFileStore
import ForgeFileSystem
import Foundation

private typealias Check = ConformanceCheck<any StreamingFileStoring>

extension ConformanceChecks {
    /// Exports, and the progress and cancellation of exports and copies.
    package static let fileTransfers: [ConformanceCheck<any StreamingFileStoring>] = exports + progress

    private static let exports: [Check] = [
        Check("an exported file is written byte for byte, and the stored one stays") { store in
            for size in [0, 1, 4_096, 1_048_577] {
                let content = Data.patterned(count: size)
                try await store.save(content, to: "d/f")
                try await withDestination { destination in
                    try await store.export("d/f", to: destination)
                    try expect(try Data(contentsOf: destination) == content, "\(size) bytes should be exported")
                    try expectEqual(try neighbours(of: destination), ["destination"], "files in the directory")
                }
                try expect(try await store.load("d/f") == content, "the stored file should stay")
            }
        },
        Check("an export replaces a file only if it may") { store in
            try await store.save(Data("new".utf8), to: "f")
            try await withDestination { destination in
                try Data("old".utf8).write(to: destination)
                try await expectCode(.alreadyExists, "export without overwriting") {
                    try await store.export("f", to: destination)
                }
                try expectEqual(try Data(contentsOf: destination), Data("old".utf8), "content")
                try await store.export("f", to: destination, overwrite: true)
                try expectEqual(try Data(contentsOf: destination), Data("new".utf8), "content after overwriting")
                try expectEqual(try neighbours(of: destination), ["destination"], "files in the directory")
            }
        },
        Check("an export replaces a link and does not follow it") { store in
            try await store.save(Data("new".utf8), to: "f")
            try await withDestination { destination in
                let target = destination.deletingLastPathComponent().appendingPathComponent("target")
                try Data("old".utf8).write(to: target)
                try FileManager.default.createSymbolicLink(at: destination, withDestinationURL: target)
                try await expectCode(.alreadyExists, "export without overwriting") {
                    try await store.export("f", to: destination)
                }
                try await store.export("f", to: destination, overwrite: true)
                try expectEqual(try Data(contentsOf: destination), Data("new".utf8), "content")
                try expectEqual(try Data(contentsOf: target), Data("old".utf8), "content of the link's target")
            }
        },
        Check("an export that is refused says why and leaves nothing behind") { store in
            try await store.save(Data("x".utf8), to: "d/f")
            try await withDestination { destination in
                let directory = destination.deletingLastPathComponent()
                guard let remote = URL(string: "https://example.com/x") else { return }
                let cases: [(String, URL, FileStoreError.Code)] = [
                    ("missing", destination, .notFound), ("d", destination, .isDirectory),
                    ("../f", destination, .invalidKey(.dotComponent)),
                    ("d/f", destination.appendingPathComponent("x"), .invalidDestination(.noDirectory)),
                    ("d/f", directory, .alreadyExists), ("d/f", remote, .invalidDestination(.notFileURL)),
                ]
                for (key, url, code) in cases {
                    let error = try await expectCode(code, "export of \(key) to \(url)") {
                        try await store.export(key, to: url)
                    }
                    try expectEqual(error.key, key, "key of the error")
                }
                try await expectCode(.invalidDestination(.isDirectory), "export over a directory") {
                    try await store.export("d/f", to: directory, overwrite: true)
                }
                try expectEqual(try neighbours(of: destination), [], "files in the directory")
            }
        },
    ]

    private static let progress: [Check] = [
        Check("the progress of a copy and of an export ends with the size in bytes") { store in
            let size = 3_000_001
            try await withSource(Data.patterned(count: size)) { source in
                let copied = Progress(totalUnitCount: 0)
                try await store.copy(from: source, to: "f", progress: copied)
                let exported = Progress(totalUnitCount: 0)
                try await store.export(
                    "f", to: source.deletingLastPathComponent().appendingPathComponent("out"), progress: exported)
                for progress in [copied, exported] {
                    try expectEqual(progress.totalUnitCount, Int64(size), "total")
                    try expectEqual(progress.completedUnitCount, Int64(size), "completed")
                    try expect(progress.isFinished, "the progress should be finished")
                }
            }
        },
        Check("cancelling the progress cancels a copy and an export, which leave nothing behind") { store in
            try await store.save(Data("old".utf8), to: "f")
            try await withSource(Data.patterned(count: 100_000)) { source in
                let progress = Progress(totalUnitCount: 0)
                progress.cancel()
                try await expectError(CancellationError.self, "copy") {
                    try await store.copy(from: source, to: "f", progress: progress)
                }
                try expectEqual(try await store.load("f"), Data("old".utf8), "content")
                let destination = source.deletingLastPathComponent().appendingPathComponent("out")
                try await expectError(CancellationError.self, "export") {
                    try await store.export("f", to: destination, progress: progress)
                }
                try expectEqual(try neighbours(of: destination), ["source"], "files in the directory")
            }
        },
        Check("a cancelled task copies and exports nothing") { store in
            try await store.save(Data("old".utf8), to: "f")
            try await withSource(Data("new".utf8)) { source in
                let destination = source.deletingLastPathComponent().appendingPathComponent("out")
                try await expectError(CancellationError.self, "copy in a cancelled task") {
                    try await inCancelledTask {
                        try await store.copy(from: source, to: "f", progress: Progress(totalUnitCount: 0))
                    }
                }
                try await expectError(CancellationError.self, "export in a cancelled task") {
                    try await inCancelledTask { try await store.export("f", to: destination) }
                }
                try expectEqual(try await store.load("f"), Data("old".utf8), "content")
                try expectEqual(try neighbours(of: destination), ["source"], "files in the directory")
            }
        },
    ]

    /// Calls `body` with the URL of a missing file in an empty directory.
    private static func withDestination(_ body: (URL) async throws -> Void) async throws {
        try await withSource(Data()) { source in
            try FileManager.default.removeItem(at: source)
            try await body(source.deletingLastPathComponent().appendingPathComponent("destination"))
        }
    }

    /// The names of all files in the directory of a URL.
    private static func neighbours(of url: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.deletingLastPathComponent().path).sorted()
    }
}
