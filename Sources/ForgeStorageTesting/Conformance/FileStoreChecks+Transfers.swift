package import ForgeFileStore
import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    static let fileSources: [FileStoreCheck] = [
        FileStoreCheck("a copied file is stored byte for byte, and its source stays") { store in
            for size in [0, 1, 4_096, 1_048_576, 3_000_001] {
                let content = Data.patterned(count: size)
                try await withSource(content) { source in
                    try await store.copy(from: source, to: "in/\(size)")
                    try expectEqual(try await store.load("in/\(size)"), content, "load(in/\(size)) after copy")
                    try expectEqual(try Data(contentsOf: source), content, "the source after copy")
                    try expectEqual(try neighbours(of: source), ["source"], "files beside the source after copy")
                }
            }
        },
        FileStoreCheck("a moved file is stored byte for byte, and its source is gone") { store in
            let content = Data.patterned(count: 70_000)
            try await withSource(content) { source in
                try await store.move(from: source, to: "in/file")
                try expectEqual(try await store.load("in/file"), content, "load(in/file) after move")
                try expectEqual(try neighbours(of: source), [], "the source, and files beside it, after move")
            }
        },
        FileStoreCheck("copy and move replace a file unless overwriting is forbidden") { store in
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
                try await store.save(Data("below".utf8), to: "dir/file")
                for (key, code) in [("dir", FileStoreError.Code.isDirectory), ("file/below", .notDirectory)] {
                    try await expectCode(code, "copy to \(key)") { try await store.copy(from: source, to: key) }
                    try await expectCode(code, "move to \(key)") { try await store.move(from: source, to: key) }
                    try expectEqual(try neighbours(of: source), ["source"], "files after a refused move to \(key)")
                    try expectEqual(try Data(contentsOf: source), Data("new".utf8), "source of a move to \(key)")
                }
                try await store.copy(from: source, to: "file")
                try expectEqual(try await store.load("file"), Data("new".utf8), "content after a copy")
                try await store.save(Data("old".utf8), to: "file")
                try await store.move(from: source, to: "file")
                try expectEqual(try await store.load("file"), Data("new".utf8), "content after a move")
            }
        },
        FileStoreCheck("a source that is missing, a directory or not a file URL is refused, and nothing is stored") {
            store in
            try await withSource(Data("x".utf8)) { source in
                let missing = source.appendingPathComponent("no")
                let directory = source.deletingLastPathComponent()
                guard let remote = URL(string: "https://example.com/x") else { return }
                for (url, problem) in [
                    (missing, FileStoreError.SourceProblem.notFound), (directory, .notRegular), (remote, .notFileURL),
                    (URL(filePath: "/"), .notRegular),
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
            try expect(url.isFileURL, "url(for:) is not a file URL")
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
            try await overlapping(writers: 2, readers: 2, overlaps: 40) { writer, call in
                try await store.save(contents[2 * writer + call % 2], to: "file")
            } read: { _ in
                let seen = try await store.load("file")
                let (number, size) = (Int(seen.first ?? 0), seen.count)
                guard contents.indices.contains(number), seen == contents[number] else {
                    throw ConformanceViolation(
                        "load(file) beside save(to: file) of 20,000 to 20,003 equal bytes: got a mixture of \(size) bytes"
                    )
                }
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
        FileStoreCheck("a listing beside saves and deletions of a file has every other one once, and does not fail") {
            store in
            let kept = (0..<12).map { "d/\($0)" }
            for key in kept { try await store.save(Data("x".utf8), to: key) }
            let beside = "beside save(to: d/changing) and delete(d/changing)"
            try await overlapping(writers: 1, readers: 1, overlaps: 24) { _, call in
                if call.isMultiple(of: 2) {
                    try await store.save(Data("x".utf8), to: "d/changing")
                } else {
                    try await store.delete("d/changing")
                }
            } read: { _ in
                for (directory, recursive) in [("d", false), ("", true)] {
                    let call = "list(in: \(directory.escaped), recursive: \(recursive)) \(beside)"
                    let files = try await succeeding(call) { try await store.list(in: directory, recursive: recursive) }
                    let found = files.map(\.key).filter { $0 != "d" && $0 != "d/changing" }
                    guard found.count == kept.count, Set(found) == Set(kept) else {
                        throw ConformanceViolation("\(call): expected \(shown(kept)), got \(shown(found.sorted()))")
                    }
                }
                let size = try await succeeding("totalSize() \(beside)") { try await store.totalSize() }
                guard (12...13).contains(size) else {
                    throw ConformanceViolation("totalSize() \(beside): expected 12 or 13, got \(size)")
                }
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

    /// Makes a call that has to succeed; `call` is its text.
    static func succeeding<Result>(
        _ call: String, file: StaticString = #fileID, line: UInt = #line, _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await body()
        } catch {
            throw ConformanceViolation("\(call): expected success, got \(error)", file: file, line: line)
        }
    }

    /// Calls `body` with the URL of a file with this content, in a temporary directory that is removed afterwards.
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

extension ConformanceChecks {
    static let sourcesReplacedDuringMove: [FileStoreCheck] = [
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
                    // The exchanges end with an error once the move has removed one of the two names.
                    _ = await exchanges.result
                    let content = try await store.load("file")
                    let remaining = try [source, link].filter { try isRegular($0) }
                    if let failure {
                        try expect(failure is FileStoreError, "the error is \(failure)")
                        try expectEqual(content, Data("old".utf8), "the content after \(failure)")
                        let contents = try remaining.map { try Data(contentsOf: $0) }
                        try expectEqual(contents, [Data("source".utf8)], "the source after \(failure)")
                    } else {
                        try expectEqual(content, Data("source".utf8), "the content")
                        try expectEqual(remaining, [], "names of the source after the move")
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
                    try expectPrivate(destination)
                    try expectEqual(try neighbours(of: destination), ["destination"], "files in the directory")
                }
                try expect(try await store.load("d/f") == content, "the stored file should stay")
            }
        },
        Check("an export replaces a file only if overwriting is permitted") { store in
            try await store.save(Data("new".utf8), to: "f")
            try await withDestination { destination in
                try Data("old".utf8).write(to: destination)
                try await expectCode(.alreadyExists, "export without overwriting") {
                    try await store.export("f", to: destination)
                }
                try await expectCode(.alreadyExists, "export with a progress, without overwriting") {
                    try await store.export("f", to: destination, progress: Progress(totalUnitCount: 0))
                }
                try expectEqual(try Data(contentsOf: destination), Data("old".utf8), "content")
                try await store.export("f", to: destination, overwrite: true)
                try expectEqual(try Data(contentsOf: destination), Data("new".utf8), "content after overwriting")
                try expectPrivate(destination)
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
                    guard code == .alreadyExists else { continue }
                    let path = (error.underlying as? FileSystemError)?.path
                    try expectEqual(path, try POSIXPath(url), "the path of the underlying error of \(error)")
                }
                let error = try await expectCode(.invalidDestination(.isDirectory), "export over a directory") {
                    try await store.export("d/f", to: directory, overwrite: true)
                }
                try expectEqual(error.key, "d/f", "key of the error")
                try expectEqual(try neighbours(of: destination), [], "files in the directory")
                let (path, disk) = (try POSIXPath(destination), SystemFileSystem())
                do {
                    try disk.createNode(
                        path, at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
                } catch {
                    return  // There are no FIFOs in this directory.
                }
                try await expectCode(.invalidDestination(.notRegular), "export over a FIFO") {
                    try await store.export("d/f", to: destination, overwrite: true)
                }
                let type = try disk.status(path, followsSymbolicLinks: false).type
                try expectEqual(type, .fifo, "the type of the file at the destination after export over a FIFO")
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

    private static func expectPrivate(_ destination: URL) throws {
        let status = try SystemFileSystem().status(try POSIXPath(destination), followsSymbolicLinks: false)
        try expectEqual(status.permissions.rawValue & 0o077, 0, "the permissions of others for an exported file")
    }

    /// The names of all files in the directory of a URL.
    private static func neighbours(of url: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.deletingLastPathComponent().path).sorted()
    }
}
