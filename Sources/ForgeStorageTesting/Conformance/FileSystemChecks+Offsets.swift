import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    static let fileSystemOffsets: [FileSystemCheck] = [
        holds("reading and writing at an offset do not move the file's own") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try expectEqual(try tree.read(descriptor, 2), "co", "the first read")
                try expectEqual(try tree.read(descriptor, 3, at: 4), "ent", "the read at an offset")
                try expectEqual(try tree.read(descriptor, 2), "nt", "the second read")
                try tree.write(descriptor, "C", at: 0)
                try expectEqual(try tree.read(descriptor), "ent", "the last read")
                try expectEqual(try tree.content("f"), "Content", "the content")
            }
        },
        holds("an append leaves the offset at the end") { tree in
            try tree.opening(tree("f"), .readWrite, [.append]) { descriptor in
                try tree.write(descriptor, "12")
                try expectEqual(try tree.fileSystem.seek(descriptor, to: 0, from: .current), 9, "the offset")
                try expectEqual(try tree.read(descriptor), "", "what is left to read")
            }
        },
        holds("a change of size does not move the offset") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try expectEqual(try tree.read(descriptor, 5), "conte", "the first read")
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 2)
                try expectEqual(try tree.fileSystem.seek(descriptor, to: 0, from: .current), 5, "the offset")
                try tree.write(descriptor, "x")
                try expectEqual(try tree.content("f"), "co\0\0\0x", "the content")
            }
        },
        holds("listing a file is refused, and its offset is unchanged") { tree in
            try tree.opening(tree("f"), .readOnly) { descriptor in
                try expectEqual(try tree.read(descriptor, 3), "con", "the first read")
                try tree.expectErrno(.notDirectory, "a listing") { _ = try tree.fileSystem.entries(of: descriptor) }
                try expectEqual(try tree.read(descriptor, 3), "ten", "the second read")
            }
        },
        holds("a search for data after holes skips none") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                let data: [Int64] = [1_000_000, 9_000_000]
                for offset in data { try tree.write(descriptor, "x", at: offset) }
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 1 << 30)
                for (start, expected) in [(0, data[0]), (data[0], data[0]), (2_000_000, data[1]), (data[1], data[1])] {
                    let found = try tree.fileSystem.nextData(of: descriptor, at: start)
                    // A file system may report holes as data.
                    try expect(found.map { start <= $0 && $0 <= expected } ?? false, "from \(start) on")
                }
                try expectEqual(try tree.read(descriptor, 1, at: data[1]), "x", "the data")
            }
        },
        refuses("a range beyond the largest offset is refused", .invalidArgument) { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.expectErrno(.invalidArgument, "read") { _ = try tree.read(descriptor, at: .max) }
                try tree.write(descriptor, "xx", at: .max)
            }
        },
    ]
}
