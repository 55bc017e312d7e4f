import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    /// Checks of FIFOs that are opened with `O_NONBLOCK`.
    static let fileSystemPipes: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a FIFO without writers opens for reading at its end") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try expectEqual(try tree.read(reader), "", "what is read")
            }
        },
        holds("a FIFO delivers data once and in order, and ends when the writer closes it") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                    try tree.write(writer, "abc")
                    try tree.write(writer, "de")
                    try expectEqual(try tree.read(reader, 2), "ab", "the beginning")
                    try expectEqual(try tree.read(reader), "cde", "the rest")
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "nothing is there yet") {
                        _ = try tree.read(reader)
                    }
                }
                try expectEqual(try tree.read(reader), "", "the end")
            }
        },
        holds("a full FIFO refuses more data, and all data in it can be read") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                    var taken = 0
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "it is full") {
                        let content = String(repeating: "x", count: 50_000)
                        while taken < 10_000_000 { taken += try tree.write(writer, content) }
                    }
                    var given = 0
                    while given < taken { given += try tree.read(reader, 50_000).utf8.count }
                    try expectEqual(given, taken, "what was read")
                }
            }
        },
        holds("unread data is discarded when a FIFO is closed") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { _ in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { try tree.write($0, "lost") }
            }
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try expectEqual(try tree.read(reader), "", "what is read")
            }
        },
        refuses("a FIFO has no offset to read at", .illegalSeek) { tree in
            try makeFIFO(tree)
            defer { removeFIFO(tree) }
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                if !tree.isDarwin {
                    try tree.expectErrno(.illegalSeek, "a positional write") {
                        try tree.write(reader, "x", at: 0)
                    }
                }
                _ = try tree.read(reader, at: 0)
            }
        },
        refuses("a FIFO has no offset to move", .illegalSeek) { tree in
            try makeFIFO(tree)
            defer { removeFIFO(tree) }
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) {
                _ = try tree.fileSystem.seek($0, to: 0, from: .start)
            }
        },
        refuses("a FIFO is not read as a whole file", .notSupported) { tree in
            try makeFIFO(tree)
            defer { removeFIFO(tree) }
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { _ in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { _ in
                    try tree.expectErrno(.notSupported, "by URL") {
                        _ = try tree.fileSystem.read(from: URL(tree("fifo")))
                    }
                    _ = try tree.content("fifo")
                }
            }
        },
    ]

    private static func makeFIFO(_ tree: FileSystemFixture) throws {
        try tree.fileSystem.createNode(
            tree("fifo"), at: .workingDirectory, type: .fifo, permissions: FilePermissions(rawValue: 0o644),
            deviceNumber: 0)
    }

    private static func removeFIFO(_ tree: FileSystemFixture) {
        // A leftover FIFO would show in the comparison of the trees.
        do throws(FileSystemError) { try tree.fileSystem.unlink(tree("fifo")) } catch {}
    }
}
