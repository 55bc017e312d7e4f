import ForgeFileStore
import Foundation

extension ConformanceChecks {
    static let fileSources: [FileStoreCheck] = [
        FileStoreCheck("a copied file is stored byte for byte, and its source stays") { store in
            for size in [0, 1, 4_096, 1_048_576, 3_000_001] {
                let content = Data.patterned(count: size)
                try await withSource(content) { source in
                    try await store.copy(from: source, to: "in/\(size)")
                    try expect(try await store.load("in/\(size)") == content, "\(size) bytes should be stored")
                    try expect(try Data(contentsOf: source) == content, "the source should stay")
                }
            }
        },
        FileStoreCheck("a moved file is stored byte for byte, and its source is gone") { store in
            let content = Data.patterned(count: 70_000)
            try await withSource(content) { source in
                try await store.move(from: source, to: "in/file")
                try expect(try await store.load("in/file") == content, "the content should be stored")
                try expect(!FileManager.default.fileExists(atPath: source.path), "the source should be gone")
            }
        },
        FileStoreCheck("copy and move replace a file unless they may not") { store in
            try await store.save(Data("old".utf8), to: "file")
            try await withSource(Data("new".utf8)) { source in
                try await expectCode(.alreadyExists, "copy without overwriting") {
                    try await store.copy(from: source, to: "file", overwrite: false)
                }
                try await expectCode(.alreadyExists, "move without overwriting") {
                    try await store.move(from: source, to: "file", overwrite: false)
                }
                try expectEqual(try await store.load("file"), Data("old".utf8), "content")
                try expectEqual(try Data(contentsOf: source), Data("new".utf8), "source")
                try await store.copy(from: source, to: "file")
                try expectEqual(try await store.load("file"), Data("new".utf8), "content after a copy")
                try await store.save(Data("old".utf8), to: "file")
                try await store.move(from: source, to: "file")
                try expectEqual(try await store.load("file"), Data("new".utf8), "content after a move")
            }
        },
        FileStoreCheck("a source that is missing, a directory or not a path is refused, and nothing is stored") {
            store in
            try await withSource(Data("x".utf8)) { source in
                let missing = source.appendingPathComponent("no")
                let directory = source.deletingLastPathComponent()
                guard let remote = URL(string: "https://example.com/x") else { return }
                for (url, problem) in [
                    (missing, FileStoreError.SourceProblem.notFound), (directory, .notRegular), (remote, .notFileURL),
                ] {
                    try await expectCode(.invalidSource(problem), "copy of \(url)") {
                        try await store.copy(from: url, to: "file")
                    }
                    try await expectCode(.invalidSource(problem), "move of \(url)") {
                        try await store.move(from: url, to: "file")
                    }
                }
            }
            try expect(!(await store.exists("file")), "nothing should be stored")
        },
        FileStoreCheck("copy follows a link to a file, move refuses it") { store in
            try await withSource(Data("x".utf8)) { source in
                let link = source.deletingLastPathComponent().appendingPathComponent("link")
                try FileManager.default.createSymbolicLink(at: link, withDestinationURL: source)
                try await store.copy(from: link, to: "copied")
                try expectEqual(try await store.load("copied"), Data("x".utf8), "content")
                try await expectCode(.invalidSource(.symbolicLink), "move of a link") {
                    try await store.move(from: link, to: "moved")
                }
                try expect(!(await store.exists("moved")), "nothing should be stored")
                try expectEqual(try Data(contentsOf: link), Data("x".utf8), "the link should stay")
            }
        },
        FileStoreCheck("a URL names the file", needs: [.fileURLs]) { store in
            try await store.save(Data("hello".utf8), to: "a dir/100%~.txt")
            let url = try await store.url(for: "a dir/100%~.txt")
            try expect(url.isFileURL, "it should be a file's")
            try expectEqual(url.lastPathComponent, "100%~.txt", "name")
        },
    ]

    static let fileConcurrency: [FileStoreCheck] = [
        FileStoreCheck("of eight concurrent saves that may not overwrite, exactly one succeeds") { store in
            for round in 0..<5 {
                let key = "race/\(round)"
                let winners = try await withThrowingTaskGroup(of: Int?.self) { group in
                    for number in 0..<8 {
                        group.addTask {
                            do {
                                try await store.save(Data("\(number)".utf8), to: key, overwrite: false)
                                return number
                            } catch let error as FileStoreError where error.code == .alreadyExists {
                                return nil
                            }
                        }
                    }
                    return try await group.reduce(into: [Int]()) { winners, number in
                        if let number { winners.append(number) }
                    }
                }
                try expectEqual(winners.count, 1, "saves that succeeded")
                try expectEqual(try await store.load(key), Data("\(winners[0])".utf8), "content")
            }
        },
        FileStoreCheck("a load during saves gives one content or another, never a mixture") { store in
            let contents = (0..<4).map { Data(repeating: UInt8($0), count: 20_000 + $0) }
            try await store.save(contents[0], to: "file")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for content in contents {
                    group.addTask { for _ in 0..<10 { try await store.save(content, to: "file") } }
                }
                for _ in 0..<2 {
                    group.addTask {
                        for _ in 0..<40 {
                            let seen = try await store.load("file")
                            try expect(contents.contains(seen), "a load saw a mixture of \(seen.count) bytes")
                        }
                    }
                }
                try await group.waitForAll()
            }
        },
        FileStoreCheck("concurrent saves of many keys are all kept") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<64 {
                    group.addTask { try await store.save(Data("\(number)".utf8), to: "d\(number % 7)/\(number)") }
                }
                try await group.waitForAll()
            }
            for number in 0..<64 {
                try expectEqual(try await store.load("d\(number % 7)/\(number)"), Data("\(number)".utf8), "\(number)")
            }
        },
        FileStoreCheck(
            "a save concurrent with the removal of its directory is complete or absent, and neither call fails"
        ) { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for number in 0..<60 { try await store.save(Data("x".utf8), to: "d/e/\(number)") } }
                group.addTask {
                    for _ in 0..<30 {
                        do {
                            try await store.deleteDirectory("d")
                        } catch let error as FileStoreError where error.code == .notFound {
                            continue
                        }
                    }
                }
                try await group.waitForAll()
            }
            for file in try await store.list(recursive: true) where !file.isDirectory {
                try expectEqual(try await store.load(file.key), Data("x".utf8), file.key)
            }
        },
        FileStoreCheck("a cancelled task changes nothing") { store in
            try await store.save(Data("old".utf8), to: "file")
            try await expectError(CancellationError.self, "save in a cancelled task") {
                try await inCancelledTask { try await store.save(Data("new".utf8), to: "file") }
            }
            try expectEqual(try await store.load("file"), Data("old".utf8), "content")
        },
    ]

    /// Calls `body` in a task that is cancelled already.
    static func inCancelledTask(_ body: @escaping @Sendable () async throws -> Void) async throws {
        try await Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await body()
        }.value
    }

    /// Calls `body` with a file in a temporary directory, which is removed afterwards.
    static func withSource(_ content: Data, _ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("ForgeStorage-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let outcome: Result<Void, any Error>
        do {
            let source = directory.appendingPathComponent("source")
            try content.write(to: source)
            outcome = .success(try await body(source))
        } catch {
            outcome = .failure(error)
        }
        try FileManager.default.removeItem(at: directory)
        try outcome.get()
    }
}
