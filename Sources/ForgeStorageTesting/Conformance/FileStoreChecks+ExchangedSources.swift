import ForgeFileStore
import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    static let fileExchangedSources: [FileStoreCheck] = [
        FileStoreCheck("a source that another program exchanges for a link during a move is moved or refused") {
            store in
            for round in 0..<12 {
                try await withSource(Data("source".utf8)) { source in
                    try await store.save(Data("old".utf8), to: "file")
                    let link = source.deletingLastPathComponent().appendingPathComponent("link")
                    let outside = source.deletingLastPathComponent().appendingPathComponent("outside")
                    try Data("outside".utf8).write(to: outside)
                    try FileManager.default.createSymbolicLink(at: link, withDestinationURL: outside)
                    let names = (try POSIXPath(source), try POSIXPath(link))
                    let exchanges = Task.detached {
                        // An odd number leaves the link under the source's name.
                        for _ in 0..<(2 * round + 1) {
                            try SystemFileSystem().rename(names.0, to: names.1, .exchanging)
                        }
                    }
                    let failure = await failure { try await store.move(from: source, to: "file") }
                    // The exchanges end with an error once the move has taken one of the two.
                    _ = await exchanges.result
                    let content = try await store.load("file")
                    let rest = try [source, link].filter { try isRegular($0) }
                    if let failure {
                        try expect(failure is FileStoreError, "the error is \(failure)")
                        try expectEqual(content, Data("old".utf8), "the content after \(failure)")
                        let contents = try rest.map { try Data(contentsOf: $0) }
                        try expectEqual(contents, [Data("source".utf8)], "the source after \(failure)")
                    } else {
                        try expectEqual(content, Data("source".utf8), "the content")
                        try expectEqual(rest, [], "names of the source after the move")
                    }
                    try expectEqual(try Data(contentsOf: outside), Data("outside".utf8), "the file outside")
                }
            }
        }
    ]

    private static func failure(_ body: () async throws -> Void) async -> (any Error)? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    private static func isRegular(_ url: URL) throws -> Bool {
        let (fileSystem, path) = (SystemFileSystem(), try POSIXPath(url))
        guard try fileSystem.exists(path, followsSymbolicLinks: false) else { return false }
        return try fileSystem.status(path, followsSymbolicLinks: false).type == .regular
    }
}
