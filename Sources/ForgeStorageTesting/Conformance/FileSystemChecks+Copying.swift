import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    /// The promises of `copyRange`: a call that the file system does not support must say so.
    static let fileSystemCopying: [FileSystemCheck] = [
        holds("a range is copied from its offset to its offset, and the offsets of both files stay") { tree in
            for (from, to, count) in [(2, 5, 3), (3, 5, 3), (2, 6, 3), (2, 5, 4), (0, 0, 10), (0, 0, 1), (9, 9, 1)] {
                let call = "copyRange(from: source, at: \(from), to: target, at: \(to), count: \(count))"
                try tree.copying { source, target in
                    guard try tree.copy(source, from, target, to, count) == count else { return }
                    var expected = Array("abcdefghij".utf8)
                    expected.replaceSubrange(to..<to + count, with: Array("0123456789".utf8)[from..<from + count])
                    let found = try tree.content("target")
                    try expectEqual(found, String(decoding: expected, as: UTF8.self), "the target after \(call)")
                    try expectEqual(try tree.content("source"), "0123456789", "the source after \(call)")
                    for (name, file) in [("source", source), ("target", target)] {
                        let offset = try tree.fileSystem.seek(file, to: 0, from: .current)
                        try expectEqual(offset, 0, "the offset of the \(name) after \(call)")
                    }
                }
            }
        },
        holds("a range that is copied behind the end extends the file, with zeros before it") { tree in
            try tree.copying { source, target in
                guard try tree.copy(source, 0, target, 12, 3) == 3 else { return }
                try expectEqual(
                    try tree.content("target"), "abcdefghij\0\0012",
                    "the target after copyRange(from: source, at: 0, to: target, at: 12, count: 3)")
            }
        },
        holds("a copy ends at the end of its source") { tree in
            try tree.copying { source, target in
                guard let copied = try tree.copy(source, 7, target, 0, 100) else { return }
                try expectEqual(copied, 3, "the count of copyRange(from: source, at: 7, to: target, at: 0, count: 100)")
                try expectEqual(try tree.content("target"), "789defghij", "the target")
                for offset in [10, 11, 5_000] {
                    try expectEqual(
                        try tree.copy(source, offset, target, 0, 1), 0,
                        "the count of copyRange(from: source, at: \(offset), to: target, at: 0, count: 1)")
                }
                try expectEqual(try tree.content("target"), "789defghij", "the target after copies behind the end")
            }
        },
        holds("a large range is copied byte for byte, in as many calls as it takes") { tree in
            let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 * 7_919 >> 8) }
            try tree.copying { source, target in
                try tree.fileSystem.writeBytes(bytes, to: source, at: 0)
                guard try tree.copy(source, 4_095, target, 1, 200_001) == 200_001 else { return }
                let content = try tree.fileSystem.readFile(tree("target"))
                try expect(
                    content == Array("a".utf8) + bytes[4_095..<204_096],
                    "the target differs after copyRange(from: source, at: 4095, to: target, at: 1, count: 200001)")
            }
        },
        holds("a copy refuses descriptors that do not permit it, and changes nothing") { tree in
            let none = Descriptor(rawValue: 1_999_999)
            try tree.copying { source, target in
                try tree.opening(tree("target"), .readOnly) { reading in
                    try tree.opening(tree("source"), .writeOnly) { writing in
                        let pairs = [
                            ("a target open for reading", source, reading),
                            ("a source open for writing", writing, target),
                            ("no source", none, target), ("no target", source, none),
                        ]
                        for (what, from, to) in pairs {
                            let expected = [.badFileDescriptor] + FileSystemFixture.withoutRangeCopies
                            try tree.expectErrno(expected, "copyRange with \(what)") {
                                _ = try tree.fileSystem.copyRange(from: from, at: 0, to: to, at: 0, count: 1)
                            }
                        }
                    }
                }
                try expectEqual(try tree.content("target"), "abcdefghij", "the target")
            }
        },
    ]
}

extension FileSystemFixture {
    /// The errors of a file system that cannot copy a range between two files.
    fileprivate static let withoutRangeCopies: [Errno] = [
        .notSupported, .improperLink, .invalidArgument, .noFunction, .notPermitted,
    ]

    /// Opens a source of ten digits and a target of ten letters.
    fileprivate func copying(_ body: (_ source: Descriptor, _ target: Descriptor) throws -> Void) throws {
        try create("source", "0123456789")
        try create("target", "abcdefghij")
        try opening(self("source"), .readWrite) { source in
            try opening(self("target"), .readWrite) { try body(source, $0) }
        }
    }

    /// Copies until all is copied or nothing more is, and returns the count; nil where ranges cannot be copied.
    fileprivate func copy(
        _ source: Descriptor, _ from: Int, _ target: Descriptor, _ to: Int, _ count: Int
    ) throws -> Int? {
        var done = 0
        while done < count {
            guard let copied = try copyOnce(source, from + done, target, to + done, count - done) else {
                try expectEqual(done, 0, "copyRange is refused after some bytes")
                return nil
            }
            guard copied > 0 else { break }
            done += copied
            try expect(done <= count, "copyRange(count: \(count)) has copied \(done) bytes")
        }
        return done
    }

    /// The count of one call; nil where ranges cannot be copied.
    private func copyOnce(
        _ source: Descriptor, _ from: Int, _ target: Descriptor, _ to: Int, _ count: Int
    ) throws -> Int? {
        do {
            return try fileSystem.copyRange(from: source, at: Int64(from), to: target, at: Int64(to), count: count)
        } catch {
            guard Self.withoutRangeCopies.contains(error.errno) else { throw error }
            return nil
        }
    }
}

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
        holds("a FIFO whose data was read to the last byte has not ended while a writer has it open") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                    for text in ["abc", String(repeating: "x", count: 4096), "d"] {
                        try tree.write(writer, text)
                        try expect(
                            try tree.read(reader, text.utf8.count) == text, "the \(text.utf8.count) bytes written")
                        try tree.expectErrno(.resourceTemporarilyUnavailable, "a read once all was read") {
                            _ = try tree.read(reader)
                        }
                    }
                }
            }
        },
        holds("a full FIFO refuses more data, and all data in it can be read") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                    let content = String(decoding: (0..<50_000).map { UInt8(97 + $0 % 23) }, as: UTF8.self)
                    var (written, read) = ("", "")
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "it is full") {
                        while written.utf8.count < 10_000_000 {
                            let count = try tree.write(writer, content)
                            written += content.prefix(count)
                        }
                    }
                    while read.utf8.count < written.utf8.count { read += try tree.read(reader, 50_000) }
                    try expect(read == written, "\(read.utf8.count) bytes were read, not those that were written")
                    // PIPE_BUF is at least 512.
                    let record = String(content.prefix(500))
                    var count = 0
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "it is full of records") {
                        while count < 100_000 {
                            try expectEqual(try tree.write(writer, record), 500, "bytes written of a record of 500")
                            count += 1
                        }
                    }
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
        holds("unread data stays in a FIFO while a writer has it open") { tree in
            guard !tree.isDarwin else { return }
            try makeFIFO(tree)
            let first = try tree.fileSystem.open(tree("fifo"), options: [.nonBlocking])
            try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                try tree.write(writer, "kept")
                try tree.fileSystem.close(first)
                try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                    try expectEqual(try tree.read(reader), "kept", "what another reader reads")
                }
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
        holds("a FIFO cannot be synchronised") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { reader in
                // fsync(2) of Darwin names only sockets.
                guard !tree.isDarwin else { return }
                for level in [SyncLevel.full, .data, .barrier] {
                    try tree.expectErrno(.invalidArgument, "synchronize(fifo, .\(level))") {
                        try tree.fileSystem.synchronize(reader, level)
                    }
                }
            }
        },
        holds("no space is reserved for a FIFO") { tree in
            try makeFIFO(tree)
            try tree.opening(tree("fifo"), .readOnly, [.nonBlocking]) { _ in
                try tree.opening(tree("fifo"), .writeOnly, [.nonBlocking]) { writer in
                    // fcntl(2) of Darwin names no error for it.
                    guard !tree.isDarwin else { return }
                    try tree.expectErrno(.illegalSeek, "allocate(fifo, at: 0, length: 1)") {
                        try tree.fileSystem.allocate(writer, at: 0, length: 1)
                    }
                }
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

extension ConformanceChecks {
    static let fileSystemRelativePaths: [FileSystemCheck] = [
        holds("every call takes paths that are relative to open directories") { tree in
            let (fileSystem, past, owner) = (tree.fileSystem, FileTime(seconds: 1_000_000), UserID(12))
            try tree.create("d/x", "content")
            let d = try fileSystem.open(tree("d"), options: [.directory])
            let e = try fileSystem.open(tree("e"), options: [.directory])
            try fileSystem.link("x", at: d, to: "y", at: e)
            try fileSystem.rename("x", at: d, to: "z", at: e, .replacing)
            try fileSystem.createSymbolicLink("link", at: e, to: "y")
            try fileSystem.createNode("node", at: e, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try fileSystem.createDirectory("below", at: e, permissions: .ownerReadWriteExecute)
            try expectEqual(try fileSystem.readSymbolicLink("link", at: e), "y", "readSymbolicLink(link, at: e)")
            try expectEqual(try tree.list("e").sorted(), ["below", "link", "node", "y", "z"], "entries(of: e)")
            try expectEqual(try tree.list("d"), ["s"], "entries(of: d)")
            let link = FileReference.path("link", at: e)
            try fileSystem.truncate(link, to: 3)
            try fileSystem.setPermissions(.ownerRead, of: link)
            try fileSystem.setOwner(owner, group: nil, of: link)
            try fileSystem.setTimes(accessed: nil, modified: past, of: link)
            let status = try fileSystem.status(of: .path("z", at: e))
            try expectEqual(status.sizeInBytes, 3, "the size after truncate(link, at: e)")
            try expectEqual(status.permissions, .ownerRead, "the permissions after setPermissions(link, at: e)")
            try expectEqual(status.owner, owner, "the owner after setOwner(link, at: e)")
            try expectEqual(status.modified, past, "modified after setTimes(link, at: e)")
            try fileSystem.rename("below", at: e, to: "moved", at: d, .exclusive)
            try expectEqual(try tree.list("d").sorted(), ["moved", "s"], "entries(of: d) after a rename")
            try fileSystem.removeDirectory("moved", at: d)
            for name in ["link", "node", "y", "z"] as [POSIXPath] { try fileSystem.unlink(name, at: e) }
            try expectEqual(try tree.list("e"), [], "entries(of: e) after all were removed")
            try expectEqual(try tree.list("d"), ["s"], "entries(of: d) after removeDirectory(moved, at: d)")
            for directory in [d, e] { try fileSystem.close(directory) }
        }
    ]

    /// Promises of the descriptor table; the process has at most 100,000 descriptors and no other code opens files.
    public static let fileSystemDescriptors: [ConformanceCheck<FileSystemUnderTest>] = descriptors.map {
        $0.needing(.limitedDescriptors)
    }

    private static let descriptors: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a process at its limit of open files cannot open more") { tree in
            var open: [Descriptor] = []
            try tree.expectErrno(.tooManyOpenFiles, "one more") {
                while open.count < 100_000 { open.append(try tree.fileSystem.open(tree("f"))) }
            }
            if let limit = tree.subject.maximumOpenFileCount {
                try expectEqual(open.count, limit, "how many files are open at the limit")
            }
            try tree.expectErrno(.tooManyOpenFiles, "a creation") { try tree.open("new", .writeOnly, [.create]) }
            try tree.expectErrno(.tooManyOpenFiles, "a duplicate") { _ = try tree.fileSystem.duplicate(open[0]) }
            try tree.expectErrno(.tooManyOpenFiles, "even of a missing file") { try tree.open("missing") }
            for descriptor in open { try tree.fileSystem.close(descriptor) }
            try expect(try !tree.exists("new"), "nothing was created")
        },
        holds("a new descriptor has the lowest free number") { tree in
            let open = try (0..<4).map { _ in try tree.fileSystem.open(tree("f")) }
            try tree.fileSystem.close(open[2])
            try tree.fileSystem.close(open[1])
            try expectEqual(try tree.fileSystem.open(tree("f")), open[1], "the first")
            try expectEqual(try tree.fileSystem.duplicate(open[0]), open[2], "the second")
            for descriptor in open { try tree.fileSystem.close(descriptor) }
        },
        refuses("a closed descriptor is refused", .badFileDescriptor) { tree in
            let descriptor = try tree.fileSystem.open(tree("f"))
            try tree.fileSystem.close(descriptor)
            try tree.expectErrno(.badFileDescriptor, "closing it again") { try tree.fileSystem.close(descriptor) }
            _ = try tree.read(descriptor)
        },
        holds("the calls that are composed of others close what they open, also when they fail") { tree in
            let (fileSystem, f, d) = (tree.fileSystem, tree("f"), tree("d"))
            try tree.create("d/s/x", "content")
            let calls: [(call: String, body: () throws -> Void)] = [
                ("copyTree(d, to: copy)", { try fileSystem.copyTree(d, to: tree("copy")) }),
                ("copyTree(d, to: e)", { try fileSystem.copyTree(d, to: tree("e")) }),
                ("copyTree(d, to: d/s/copy)", { try fileSystem.copyTree(d, to: tree("d/s/copy")) }),
                ("copyTree(f, to: x)", { try fileSystem.copyTree(f, to: tree("x")) }),
                ("removeTree(copy)", { try fileSystem.removeTree(tree("copy")) }),
                ("removeTree(missing)", { try fileSystem.removeTree(tree("missing")) }),
                ("makeDirectories(a/b)", { try fileSystem.makeDirectories(tree("a/b")) }),
                ("makeDirectories(f/b)", { try fileSystem.makeDirectories(tree("f/b")) }),
                ("readFile(f)", { _ = try fileSystem.readFile(f) }),
                ("readFile(d)", { _ = try fileSystem.readFile(d) }),
                ("write(to: f)", { try fileSystem.write(Data([1]), to: URL(f)) }),
                ("write(to: d)", { try fileSystem.write(Data([1]), to: URL(d)) }),
                ("read(from: f)", { _ = try fileSystem.read(from: URL(f)) }),
                ("contentsOfDirectory(at: d)", { _ = try fileSystem.contentsOfDirectory(at: URL(d)) }),
                ("contentsOfDirectory(at: f)", { _ = try fileSystem.contentsOfDirectory(at: URL(f)) }),
                ("removeItem(at: a)", { try fileSystem.removeItem(at: URL(tree("a"))) }),
            ]
            let lowest = try tree.opening(f, .readOnly) { $0 }
            for (call, body) in calls {
                do { try body() } catch is FileSystemError {}
                let found = try tree.opening(f, .readOnly) { $0 }
                try expectEqual(found, lowest, "the lowest free descriptor after \(call)")
            }
        },
    ]
}
