import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    static let fileSystemContent: [FileSystemCheck] = [
        holds("a file that was unlinked while open can be read and written until it is closed") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.fileSystem.unlink(tree("f"))
                try tree.write(descriptor, "C")
                try expectEqual(try tree.read(descriptor, at: 0), "Content", "the content")
                try expectEqual(try tree.fileSystem.status(of: .descriptor(descriptor)).linkCount, 0, "the link count")
                try expect(try !tree.exists("f"), "the name is gone")
            }
        },
        holds("a file replaced by a rename while open keeps its content for open descriptors") { tree in
            try tree.create("new", "newer")
            try tree.opening(tree("f"), .readOnly) { descriptor in
                try tree.fileSystem.rename(tree("new"), to: tree("f"))
                try expectEqual(try tree.read(descriptor), "content", "through the descriptor")
                try expectEqual(try tree.content("f"), "newer", "through the path")
            }
        },
        holds("a file stays open while its directory is renamed") { tree in
            try tree.create("d/x")
            try tree.opening(tree("d/x"), .writeOnly) { descriptor in
                try tree.fileSystem.rename(tree("d"), to: tree("moved"))
                try tree.write(descriptor, "late")
                try expectEqual(try tree.content("moved/x"), "late", "at the new path")
            }
        },
        refuses("a descriptor for writing does not read", .badFileDescriptor) { tree in
            try tree.opening(tree("f"), .writeOnly) { _ = try tree.read($0) }
        },
        refuses("a descriptor for reading does not write", .badFileDescriptor) { tree in
            try tree.opening(tree("f"), .readOnly) { _ = try tree.write($0, "x") }
        },
        holds("every call refuses an invalid descriptor") { tree in
            let (none, fileSystem) = (Descriptor(rawValue: 1_999_999), tree.fileSystem)
            let calls: [(String, () throws -> Void)] = [
                ("read(1999999)", { _ = try tree.read(none) }), ("write(1999999)", { try tree.write(none, "x") }),
                ("read(1999999, at: 0)", { _ = try tree.read(none, at: 0) }),
                ("write(1999999, at: 0)", { try tree.write(none, "x", at: 0) }),
                ("seek(1999999)", { _ = try fileSystem.seek(none, to: 0, from: .start) }),
                ("truncate(1999999)", { try fileSystem.truncate(.descriptor(none), to: 0) }),
                ("entries(of: 1999999)", { _ = try fileSystem.entries(of: none) }),
                ("status(of: 1999999)", { _ = try fileSystem.status(of: .descriptor(none)) }),
                ("briefStatus(of: 1999999)", { _ = try fileSystem.briefStatus(of: .descriptor(none)) }),
                ("duplicate(1999999)", { _ = try fileSystem.duplicate(none) }),
                ("lock(1999999)", { try fileSystem.lock(none, .shared, waiting: false) }),
                ("allocate(1999999)", { try fileSystem.allocate(none, at: 0, length: 1) }),
                (
                    "setPermissions(of: 1999999)",
                    { try fileSystem.setPermissions(.ownerReadWrite, of: .descriptor(none)) }
                ),
                ("setOwner(of: 1999999)", { try fileSystem.setOwner(nil, group: nil, of: .descriptor(none)) }),
                (
                    "setTimes(of: 1999999)",
                    { try fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: .descriptor(none)) }
                ),
                ("status(f, at: 1999999)", { _ = try fileSystem.status("f", at: none) }),
                ("close(1999999)", { try fileSystem.close(none) }),
            ]
            for (call, body) in calls { try tree.expectErrno(.badFileDescriptor, call, body) }
            for level in [SyncLevel.full, .data, .barrier] {
                try tree.expectErrno(.badFileDescriptor, "synchronize(1999999, .\(level))") {
                    try fileSystem.synchronize(none, level)
                }
            }
        },
        holds("an absolute path ignores the starting directory") { tree in
            _ = try tree.fileSystem.status(tree("f"), at: Descriptor(rawValue: 1_999_999))
        },
        refuses("a relative path cannot start from a file", .notDirectory) { tree in
            try tree.opening(tree("f"), .readOnly) { _ = try tree.fileSystem.status("x", at: $0) }
        },
        refuses("a descriptor for reading does not truncate", .invalidArgument) { tree in
            try tree.opening(tree("f"), .readOnly) { try tree.fileSystem.truncate(.descriptor($0), to: 0) }
        },
        refuses("a directory is not truncated", .isDirectory) { try $0.fileSystem.truncate(.path($0("d")), to: 0) },
        refuses("a file is not truncated to a negative size", .invalidArgument) {
            try $0.fileSystem.truncate(.path($0("f")), to: -1)
        },
        refuses("a link that is not followed is not truncated", .tooManySymbolicLinkLevels) { tree in
            try tree.expectErrno(.tooManySymbolicLinkLevels, "truncate(dang)") {
                try tree.fileSystem.truncate(.path(tree("dang"), followsSymbolicLinks: false), to: 0)
            }
            try tree.expectErrno(.tooManySymbolicLinkLevels, "open(sf, .readOnly, [.truncate, .noFollow])") {
                try tree.open("sf", .readOnly, [.truncate, .noFollow])
            }
            try tree.fileSystem.truncate(.path(tree("sf"), followsSymbolicLinks: false), to: 0)
        },
        refuses("a missing file is not truncated", .noSuchFileOrDirectory) { tree in
            try tree.expectErrno(.noSuchFileOrDirectory, "truncate(dang)") {
                try tree.fileSystem.truncate(.path(tree("dang")), to: 0)
            }
            try tree.fileSystem.truncate(.path(tree("missing")), to: 0)
        },
        holds("a file opened for appending is written at its end, regardless of its offset") { tree in
            try tree.opening(tree("f"), .readWrite, [.append]) { descriptor in
                _ = try tree.fileSystem.seek(descriptor, to: 0, from: .start)
                try tree.write(descriptor, "1")
                try expectEqual(try tree.content("f"), "content1", "after a write")
                try tree.write(descriptor, "2", at: 0)
                try expectEqual(
                    try tree.content("f"), tree.isDarwin ? "2ontent1" : "content12", "after a write at an offset")
            }
        },
        holds("a hole reads as zeros and takes no space") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                try tree.write(descriptor, "x", at: 1_000_000)
                try expectEqual(
                    try tree.read(descriptor, 4, at: 999_997), "\0\0\0x", "the end of the hole and the byte behind it")
                let status = try tree.fileSystem.status(of: .descriptor(descriptor))
                try expectEqual(status.sizeInBytes, 1_000_001, "the size")
                try expect(status.allocatedSizeInBytes < 1_000_001, "the hole takes space")
            }
        },
        refuses("a directory is not read as a file", .isDirectory) { _ = try $0.content("d") },
        refuses("a file above the maximum size of the call is not read as a whole", .fileTooLarge) { tree in
            let content = try tree.fileSystem.readFile(tree("f"), maximumSizeInBytes: 7)
            try expectEqual(content, Array("content".utf8), "readFile(f, maximumSizeInBytes: 7)")
            _ = try tree.fileSystem.readFile(tree("f"), maximumSizeInBytes: 6)
        },
        holds("truncated data never reappears") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 3)
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 6)
                try expectEqual(try tree.read(descriptor), "con\0\0\0", "the content")
            }
        },
        holds("reading beyond the end returns no bytes") { tree in
            try tree.opening(tree("f"), .readOnly) { descriptor in
                try expectEqual(try tree.read(descriptor, at: 7), "", "at the end")
                try expectEqual(try tree.read(descriptor, at: 1 << 40), "", "far behind it")
            }
        },
        refuses("negative offsets are refused", .invalidArgument) { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.expectErrno(.invalidArgument, "read") { _ = try tree.read(descriptor, at: -1) }
                try tree.expectErrno(.invalidArgument, "write") { try tree.write(descriptor, "x", at: -1) }
                try tree.expectErrno(.invalidArgument, "before the end") {
                    _ = try tree.fileSystem.seek(descriptor, to: -8, from: .end)
                }
                _ = try tree.fileSystem.seek(descriptor, to: -1, from: .start)
            }
        },
        holds("seeking starts from the beginning, the offset or the end") { tree in
            try tree.opening(tree("f"), .readOnly) { descriptor in
                let fileSystem = tree.fileSystem
                try expectEqual(try fileSystem.seek(descriptor, to: 2, from: .start), 2, "from the start")
                try expectEqual(try fileSystem.seek(descriptor, to: 1, from: .current), 3, "from the offset")
                try expectEqual(try tree.read(descriptor, 2), "te", "the bytes there")
                try expectEqual(try fileSystem.seek(descriptor, to: -1, from: .end), 6, "from the end")
                try expectEqual(try fileSystem.seek(descriptor, to: 5, from: .end), 12, "behind the end")
            }
        },
        holds("a file opened for reading only can be synchronised") { tree in
            try tree.opening(tree("f"), .readOnly) { descriptor in
                for level in [SyncLevel.full, .data, .barrier] { try tree.fileSystem.synchronize(descriptor, level) }
            }
        },
        holds("a directory can be synchronised") { tree in
            try tree.opening(tree("d"), .readOnly) { try tree.fileSystem.synchronize($0, .full) }
        },
        holds("a lock excludes another open of the same process") { tree in
            try tree.opening(tree("f"), .readOnly) { first in
                try tree.opening(tree("f"), .readOnly) { second in
                    try tree.fileSystem.lock(first, .exclusive, waiting: false)
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "a second lock") {
                        try tree.fileSystem.lock(second, .shared, waiting: false)
                    }
                    try tree.fileSystem.lock(first, .shared, waiting: true)
                    try tree.fileSystem.lock(second, .shared, waiting: true)
                    try tree.expectErrno(.resourceTemporarilyUnavailable, "a lock for oneself") {
                        try tree.fileSystem.lock(first, .exclusive, waiting: false)
                    }
                    try tree.fileSystem.lock(second, .unlocked, waiting: false)
                    try tree.fileSystem.lock(first, .exclusive, waiting: false)
                }
            }
        },
        holds("closing the last descriptor of an open file releases its lock") { tree in
            try tree.opening(tree("f"), .readOnly) { second in
                let copy = try tree.opening(tree("f"), .readOnly) { first in
                    try tree.fileSystem.lock(first, .exclusive, waiting: false)
                    return try tree.fileSystem.duplicate(first)
                }
                try tree.expectErrno(.resourceTemporarilyUnavailable, "while a copy is open") {
                    try tree.fileSystem.lock(second, .exclusive, waiting: false)
                }
                try tree.fileSystem.close(copy)
                try tree.fileSystem.lock(second, .exclusive, waiting: false)
            }
        },
        holds("a duplicate shares the offset, a second open does not") { tree in
            try tree.opening(tree("f"), .readOnly) { first in
                let copy = try tree.fileSystem.duplicate(first)
                try expectEqual(try tree.read(copy, 3), "con", "through the copy")
                try expectEqual(try tree.read(first, 4), "tent", "through the first")
                try tree.fileSystem.close(copy)
                try tree.opening(tree("f"), .readOnly) { second in
                    try expectEqual(try tree.read(second), "content", "through a second open")
                }
            }
        },
        holds("reserving space extends the file by zeros") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                try tree.fileSystem.allocate(descriptor, at: 0, length: 10_000)
                let status = try tree.fileSystem.status(of: .descriptor(descriptor))
                try expectEqual(status.sizeInBytes, 10_000, "the size")
                try expect(status.allocatedSizeInBytes >= 10_000, "the space")
                try expectEqual(try tree.read(descriptor, 2, at: 9_998), "\0\0", "the end")
                try tree.fileSystem.allocate(descriptor, at: 0, length: 5)
                try expectEqual(try tree.status("x").sizeInBytes, 10_000, "the size after a smaller reservation")
                try tree.write(descriptor, "reserved", at: 0)
                try tree.fileSystem.allocate(descriptor, at: 0, length: 10_000)
                let space = try tree.status("x").allocatedSizeInBytes
                try expect(
                    space >= 10_000,
                    "the space after a write to 10,000 reserved bytes and a second allocate(x, at: 0, length: 10000): got \(space)"
                )
            }
        },
        holds("each of several reserved ranges takes its space, and takes it once") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                let unit: Int64 = 65_536
                // The ranges leave gaps, overlap and touch.
                let ranges: [(units: Range<Int64>, sum: Int64)] = [(0..<2, 2), (10..<11, 3), (5..<6, 4), (1..<3, 5)]
                for (units, sum) in ranges {
                    let (offset, length) = (units.lowerBound * unit, Int64(units.count) * unit)
                    try tree.fileSystem.allocate(descriptor, at: offset, length: length)
                    let space = try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes
                    try expect(
                        space >= sum * unit,
                        "the space after allocate(at: \(offset), length: \(length)): expected \(sum * unit) bytes, got \(space)"
                    )
                }
                let space = try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes
                for (units, _) in ranges {
                    let (offset, length) = (units.lowerBound * unit, Int64(units.count) * unit)
                    try tree.fileSystem.allocate(descriptor, at: offset, length: length)
                    try expectEqual(
                        try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes, space,
                        "the space after a second allocate(at: \(offset), length: \(length))")
                }
                // The space behind the new end is no longer reserved.
                try tree.fileSystem.truncate(.descriptor(descriptor), to: unit)
                try tree.fileSystem.allocate(descriptor, at: 10 * unit, length: unit)
                let rest = try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes
                try expect(
                    rest >= 2 * unit,
                    "the space after a truncation to \(unit) bytes and allocate(at: \(10 * unit), length: \(unit)): got \(rest)"
                )
            }
        },
        holds("a block that is overwritten takes no more space") { tree in
            for reserved in [0, 4096] as [Int64] {
                try tree.opening(tree("x"), .readWrite, [.create, .truncate]) { descriptor in
                    if reserved > 0 { try tree.fileSystem.allocate(descriptor, at: 0, length: reserved) }
                    // The last one first: a file system may reserve space behind the end of a file that grows.
                    let blocks: [Int64] = [301, 257, 258, 263]
                    for block in blocks {
                        try tree.write(descriptor, String(repeating: "x", count: 4096), at: block * 4096)
                    }
                    let space = try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes
                    for block in blocks {
                        try tree.write(descriptor, "y", at: block * 4096 + 5)
                        let now = try tree.fileSystem.status(of: .descriptor(descriptor)).allocatedSizeInBytes
                        try expect(
                            now <= space,
                            "the space after a byte of block \(block) was overwritten, with \(reserved) bytes reserved: expected \(space) bytes, got \(now)"
                        )
                    }
                }
            }
        },
        holds("a file that grows by a hole and is cut within it takes no more space") { tree in
            let contents: [(offset: Int64, count: Int, cut: Int64)] = [
                (257 * 4096, 4096, 258 * 4096), (0, 300_000, 49_153), (0, 300_000, 53_248), (0, 300_000, 200_705),
            ]
            for (offset, count, cut) in contents {
                try tree.opening(tree("x"), .readWrite, [.create, .truncate]) { descriptor in
                    let file = FileReference.descriptor(descriptor)
                    try tree.write(descriptor, String(repeating: "x", count: count), at: offset)
                    try tree.fileSystem.truncate(file, to: cut)
                    let space = try tree.fileSystem.status(of: file).allocatedSizeInBytes
                    for size in [1 << 30, 1 << 29] as [Int64] { try tree.fileSystem.truncate(file, to: size) }
                    let now = try tree.fileSystem.status(of: file).allocatedSizeInBytes
                    try expect(
                        now <= space,
                        "the space after write(x, \(count) bytes, at: \(offset)), truncate(x, to: \(cut)), to 2^30 and to 2^29: expected \(space) bytes, got \(now)"
                    )
                }
            }
        },
        refuses("no space is reserved for nothing, or before the start", .invalidArgument) { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.expectErrno(.invalidArgument, "no length") {
                    try tree.fileSystem.allocate(descriptor, at: 0, length: 0)
                }
                try tree.fileSystem.allocate(descriptor, at: -1, length: 1)
            }
        },
        refuses("a descriptor for reading reserves nothing", .badFileDescriptor) { tree in
            try tree.opening(tree("f"), .readOnly) { try tree.fileSystem.allocate($0, at: 0, length: 1) }
        },
        holds("large and sparse contents read as written, regardless of chunk boundaries") { tree in
            try checkLargeContent(tree)
        },
        holds("synchronising a file that was unlinked succeeds") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.fileSystem.unlink(tree("f"))
                try tree.fileSystem.synchronize(descriptor, .full)
            }
        },
    ]

    /// Writes pieces of odd sizes at odd offsets, truncates and extends, and compares with an array.
    private static func checkLargeContent(_ tree: FileSystemFixture) throws {
        var expected: [UInt8] = []
        try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
            for step in 0..<60 {
                let offset = step * 7919 % 180_001
                let piece = [UInt8](repeating: UInt8(step + 1), count: 1 + step * 977 % 20_011)
                if expected.count < offset + piece.count {
                    expected += [UInt8](repeating: 0, count: offset + piece.count - expected.count)
                }
                expected.replaceSubrange(offset..<offset + piece.count, with: piece)
                try tree.fileSystem.writeBytes(piece, to: descriptor, at: Int64(offset))
                if step % 7 == 6 {
                    let size = expected.count * 2 / 3
                    expected.removeLast(expected.count - size)
                    try tree.fileSystem.truncate(.descriptor(descriptor), to: Int64(size))
                    expected += [UInt8](repeating: 0, count: 5000)
                    try tree.fileSystem.truncate(.descriptor(descriptor), to: Int64(size + 5000))
                }
                let content = try tree.fileSystem.readContents(of: descriptor)
                try expect(content == expected, "the content after step \(step)")
            }
        }
    }
}

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
                    guard let found, found > start else { continue }
                    try expectEqual(
                        try tree.fileSystem.seek(descriptor, to: 0, from: .current), found,
                        "the offset after nextData(at: \(start))")
                }
                try expectEqual(try tree.read(descriptor, 1, at: data[1]), "x", "the data")
            }
            // The last byte before a hole, where data ends within a block, at its end and at the beginning of another.
            for (offset, count) in [(0, 4_097), (4_096, 1), (4_096, 4_097), (8_192, 4_096)] as [(Int64, Int)] {
                try tree.opening(tree("y"), .readWrite, [.create, .truncate]) { descriptor in
                    try tree.write(descriptor, "x", at: 1 << 30)
                    try tree.write(descriptor, String(repeating: "y", count: count), at: offset)
                    let last = offset + Int64(count) - 1
                    try expectEqual(
                        try tree.fileSystem.nextData(of: descriptor, at: last), last,
                        "nextData(at: \(last)), the last of \(count) bytes at \(offset)")
                }
            }
            // The last byte of a file that was cut within a block.
            try tree.opening(tree("z"), .readWrite, [.create]) { descriptor in
                try tree.write(descriptor, String(repeating: "z", count: 300_000))
                for size in [200_705, 69_633, 4_097] as [Int64] {
                    try tree.fileSystem.truncate(.descriptor(descriptor), to: size)
                    try expectEqual(
                        try tree.fileSystem.nextData(of: descriptor, at: size - 1), size - 1,
                        "nextData(at: \(size - 1)) after truncate(to: \(size))")
                }
            }
            try tree.opening(tree("f"), .readOnly) { descriptor in
                try expectEqual(try tree.fileSystem.nextData(of: descriptor, at: 3), 3, "the data of f from 3 on")
            }
        },
        holds("there is no data at the end of a file, or behind it") { tree in
            try tree.opening(tree("f"), .readOnly) { descriptor in
                for offset in [7, 8, 5000] as [Int64] {
                    // A file system without holes may refuse every search.
                    try tree.expectErrno([.noSuchAddressOrDevice, .invalidArgument], "seek(\(offset), from: .data)") {
                        _ = try tree.fileSystem.seek(descriptor, to: offset, from: .data)
                    }
                }
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
