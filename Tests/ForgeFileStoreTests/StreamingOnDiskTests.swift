import ForgeFileStore
import ForgeFileSystem
import Foundation
import Testing

@Suite("Reading and writing in parts on the disk")
struct StreamingOnDiskTests {
    private let directory: TemporaryDirectory
    private let root: URL

    init() throws {
        directory = try TemporaryDirectory()
        root = directory.url("store")
    }

    private func entries() throws -> Set<String> {
        Set(try FileManager.default.subpathsOfDirectory(atPath: root.path))
    }

    @Test("a mapped file stays valid when it is replaced, deleted or truncated, and is not changed through its data")
    func mapped() async throws {
        let store = DiskFileStore(root: root)
        let content = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 7) })
        try await store.save(content, to: "f")
        var mapped = try await store.reader(for: "f").mapped()
        #expect(mapped == content)
        mapped[0] = 99
        #expect(try await store.load("f") == content)
        let other = try await store.reader(for: "f").mapped()
        for _ in 0..<4 { try await store.save(Data("new".utf8), to: "f", durability: .none) }
        #expect(other == content)
        try await store.save(content, to: "f")
        let cut = try await store.reader(for: "f").mapped()
        try #require(truncate(root.appending(path: "f").path, 10) == 0)
        #expect(cut.count == content.count)
        #expect(cut.last == 0)
        try await store.save(Data(), to: "empty")
        #expect(try await store.reader(for: "empty").mapped() == Data())
    }

    @Test("of many stores that count in one file by conditional saves, every count is kept")
    func conditionalSaves() async throws {
        let root = root
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
                    for _ in 0..<25 {
                        try await store.update("d/count") { data in
                            // The size is always the same, so that only inode and time distinguish the revisions.
                            let count = Int(String(decoding: data ?? Data("1000".utf8), as: UTF8.self)) ?? 0
                            return Data("\(count + 1)".utf8)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let store = DiskFileStore(root: root)
        #expect(try await store.load("d/count") == Data("1100".utf8))
        #expect(try await store.list(in: "d").map(\.key) == ["d/count"])
    }

    @Test("an unconditional save beside conditional ones is never lost")
    func unconditionalSaves() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
        try await store.save(Data("0".utf8), to: "f")
        for round in 0..<200 {
            let before = try await store.info("f")
            let revision = try #require(before.revision)
            async let plain: Void = store.save(Data("plain \(round)".utf8), to: "f")
            async let conditional = store.save(Data("conditional \(round)".utf8), to: "f", if: .unchanged(revision))
            try await plain
            do {
                _ = try await conditional
            } catch let error as FileStoreError {
                #expect(error.code == .conflict)
                #expect(try await store.load("f") == Data("plain \(round)".utf8))
            }
        }
    }

    @Test("no plain save is replaced by a conditional one that has not read it, and none waits forever")
    func mixedSaves() async throws {
        // Two stores exclude each other as those of two processes do.
        let options = FileStoreOptions(durability: .none)
        try await DiskFileStore(root: root, options: options).save(Data("0".utf8), to: "f")
        let root = root
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<2 {
                group.addTask {
                    let store = DiskFileStore(root: root, options: options)
                    for number in 0..<300 { try await store.save(Data("plain \(task) \(number)".utf8), to: "f") }
                }
            }
            for _ in 0..<2 {
                group.addTask {
                    let store = DiskFileStore(root: root, options: options)
                    for _ in 0..<300 {
                        try await store.update("f") { data in
                            let text = String(decoding: data ?? Data(), as: UTF8.self)
                            return Data((text.hasPrefix("after ") ? text : "after " + text).utf8)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let last = String(decoding: try await DiskFileStore(root: root).load("f"), as: UTF8.self)
        #expect(last.hasSuffix(" 299"), "\(last)")
    }

    @Test("of the commits of a writer one succeeds, and no write that overlaps it adds to the stored file")
    func overlappingCommits() async throws {
        let store = DiskFileStore(root: root)
        for round in 0..<20 {
            let writer = try await store.writer(for: "f\(round)")
            try await writer.write(Data(count: 10))
            let stored = await withTaskGroup(of: StoredFile?.self, returning: [StoredFile].self) { group in
                for _ in 0..<5 {
                    group.addTask { try? await writer.commit() }
                    group.addTask {
                        try? await writer.write(Data(count: 100_000))
                        return nil
                    }
                }
                return await group.reduce(into: []) { files, file in file.map { files.append($0) } }
            }
            #expect(stored.count == 1)
            #expect(try await store.info("f\(round)") == stored.first)
        }
    }

    @Test("a moved file has a revision of its own, whatever the time of the source")
    func movedRevision() async throws {
        let store = DiskFileStore(root: root)
        let source = directory.url("source")
        var revisions: Set<FileRevision> = []
        for _ in 0..<3 {
            try Data("same".utf8).write(to: source)
            let past = Date(timeIntervalSince1970: 1_000_000_000)
            try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: source.path)
            try await store.move(from: source, to: "f", overwrite: true)
            revisions.insert(try #require(try await store.info("f").revision))
            try await store.delete("f")
        }
        #expect(revisions.count == 3)
    }

    @Test("a writer that is cancelled, released or whose task is cancelled leaves no file")
    func leavesNothing() async throws {
        let store = DiskFileStore(root: root)
        try await store.save(Data(), to: "d/kept")
        let before = try entries()
        for chunks in 0..<3 {
            let task = Task {
                try await store.write(to: "d/f") { writer in
                    for chunk in 0..<100 {
                        if chunk == chunks { withUnsafeCurrentTask { $0?.cancel() } }
                        try await writer.write(Data(count: 10_000))
                    }
                }
            }
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        let writer = try await store.writer(for: "d/g")
        try await writer.write(Data(count: 10))
        await writer.cancel()
        _ = try await store.writer(for: "d/h")
        #expect(try entries() == before)
    }

    @Test("a writer that is cancelled while it is written or committed harms no other file")
    func overlappingCancel() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
        let own = Data(repeating: 1, count: 10_000)
        let other = Data(repeating: 2, count: 10_000)
        try await store.save(other, to: "other")
        let before = try entries()
        for _ in 0..<300 {
            let writer = try await store.writer(for: "own")
            // The content of an open file that is not the writer's, and the temporary name after it is free again.
            async let cancelled: Void = writer.cancel()
            async let written: Void? = try? writer.write(own)
            async let committed = try? writer.commit()
            try await store.write(to: "other") { try await $0.write(other) }
            await cancelled
            _ = await (written, committed)
            #expect(try await store.load("other") == other)
            if store.exists("own") {
                let content = try await store.load("own")
                #expect(content.isEmpty || content == own)
                try await store.delete("own")
            }
        }
        #expect(try entries() == before)
    }

    @Test("a leftover with the temporary name of a writer is replaced")
    func leftover() async throws {
        let store = DiskFileStore(root: root)
        try await store.save(Data(), to: "kept")
        let id = try directory.journal("store/#journal-0").id
        try directory.write("leftover", to: "store/#tmp-\(id)-0")
        try await store.save(Data("content".utf8), to: "f", if: .always)
        #expect(try await store.load("f") == Data("content".utf8))
        #expect(try entries() == ["#journal-0", "#store-files", "f", "kept"])
    }

    @Test("a writer whose directory is deleted, replaced or renamed stores its file at its key")
    func changedDirectory() async throws {
        let store = DiskFileStore(root: root)
        let changes: [() async throws -> Void] = [
            { try await store.deleteDirectory("d") },
            {
                try await store.deleteDirectory("d")
                try await store.save(Data("other".utf8), to: "d/g")
            },
            {
                try FileManager.default.moveItem(
                    at: root.appending(path: "d"), to: root.appending(path: "e\(UUID().uuidString)"))
            },
        ]
        for (number, change) in changes.enumerated() {
            let writer = try await store.writer(for: "d/f")
            try await writer.write(Data("content \(number)".utf8))
            try await change()
            let stored = try await writer.commit()
            #expect(try await store.load("d/f") == Data("content \(number)".utf8))
            #expect(try await store.info("d/f").revision == stored.revision)
            #expect(try entries().filter { $0.contains("#tmp") } == [])
        }
    }

    @Test("a thousand concurrent calls all end")
    func manyCalls() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
        try await store.open()
        let content = Data(count: 100_000)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<1000 {
                group.addTask {
                    try await store.save(content, to: "d\(number % 7)/\(number % 50)")
                }
            }
            try await group.waitForAll()
        }
        #expect(try await store.totalSize() == 350 * 100_000)
    }

    #if os(Linux)
    @Test("a saved file has the time of the save to the nanosecond, not that of the last tick of the kernel's clock")
    func preciseTime() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
        for number in 0..<20 {
            let before = try #require(SystemFileSystem().preciseTime)
            try await store.save(Data(), to: "f\(number)")
            let after = try #require(SystemFileSystem().preciseTime)
            let modified = try SystemFileSystem().status(POSIXPath(root.path + "/f\(number)")).modified
            #expect(before <= modified && modified <= after)
        }
    }

    /// Why a store never writes a new content into a file that it has kept: `sendfile(2)` and `splice(2)` queue the
    /// pages of a file, not copies of them, and a lease is granted for a file with queued pages.
    @Test("bytes of a file that another program sends stay the same when the file is replaced")
    func sentBytes() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(durability: .none))
        let old = Data(repeating: 1, count: 4096)
        func queued(_ change: (Data) async throws -> Void) async throws -> Data {
            try await store.save(old, to: "f")
            var ends: [CInt] = [0, 0]
            try #require(pipe(&ends) == 0)
            defer { for end in ends { close(end) } }
            let file = open(root.appending(path: "f").path, O_RDONLY)
            try #require(sendfile(ends[1], file, nil, old.count) == old.count)
            close(file)
            for number: UInt8 in 2..<6 { try await change(Data(repeating: number, count: old.count)) }
            var bytes = [UInt8](repeating: 0, count: old.count)
            try #require(read(ends[0], &bytes, bytes.count) == bytes.count)
            return Data(bytes)
        }
        #expect(try await queued { try await store.save($0, to: "f") } == old)
        // The hazard is real: a write to the file itself reaches the queued bytes.
        let overwritten = try await queued { content in
            let file = open(root.appending(path: "f").path, O_WRONLY)
            defer { close(file) }
            let setLease: CInt = 1024  // F_SETLEASE
            #expect(fcntl(file, setLease, CInt(F_WRLCK)) == 0)
            try #require(content.withUnsafeBytes { write(file, $0.baseAddress, $0.count) } == content.count)
        }
        #expect(overwritten == Data(repeating: 5, count: old.count))
    }
    #endif

    @Test("a file that is larger than the limit of a load is read in parts")
    func largerThanTheLimit() async throws {
        let store = DiskFileStore(root: root, options: FileStoreOptions(maximumLoadSizeInBytes: 1000))
        try await store.save(Data(count: 3000), to: "f")
        await #expect(performing: { try await store.load("f") }, throws: hasCode(.tooLarge))
        var sum = 0
        for try await chunk in try await store.reader(for: "f").chunks(ofSize: 999) { sum += chunk.count }
        #expect(sum == 3000)
    }

    @Test("a sparse file that no memory can hold is too large, and its end can be read")
    func sparse() async throws {
        let store = DiskFileStore(root: root)
        try await store.save(Data(), to: "f")
        try #require(truncate(root.appending(path: "f").path, 15 << 40) == 0)
        await #expect(performing: { try await store.load("f") }, throws: hasCode(.tooLarge))
        let reader = try await store.reader(for: "f")
        #expect(try await reader.read((15 << 40) - 5 ..< .max).count == 5)
        #expect(try reader.mapped().count == 15 << 40)
        withUnsafeTemporaryAllocation(byteCount: 8, alignment: 1) { buffer in
            var bytes = OutputRawSpan(buffer: buffer, initializedCount: 0)
            do throws(FileStoreError) {
                try reader.readBlocking(into: &bytes, at: -1)
                Issue.record("a negative offset was read")
            } catch _ {}
        }
    }
}
