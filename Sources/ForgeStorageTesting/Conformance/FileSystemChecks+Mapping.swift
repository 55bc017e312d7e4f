import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    static let fileSystemMapping: [FileSystemCheck] = [
        holds("data stored into a mapping can be read through a descriptor") { tree in
            try tree.mapping("x", size: 10_000) { descriptor, mapping in
                tree.store("stored", at: 4093, in: mapping)
                try expectEqual(try tree.read(descriptor, 8, at: 4092), "\0stored\0", "through the descriptor")
                try expectEqual(try tree.content("x").count, 10_000, "the length of the content")
            }
        },
        holds("written data can be loaded from a mapping") { tree in
            try tree.mapping("x", size: 10_000) { descriptor, mapping in
                try tree.write(descriptor, "written", at: 8190)
                try expectEqual(tree.load(8189..<8198, of: mapping), "\0written\0", "in the mapping")
                try tree.opening(tree("x"), .writeOnly) { try tree.write($0, "W", at: 8190) }
                try expectEqual(tree.load(8190..<8197, of: mapping), "Written", "after another descriptor's write")
            }
        },
        holds("a mapping shows the existing content, and zeros beyond the end") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                let mapping = try tree.fileSystem.map(descriptor, at: 0, count: 4096)
                try expectEqual(mapping.count, 4096, "the length")
                let zeros = String(repeating: "\0", count: 4089)
                try expectEqual(tree.load(0..<4096, of: mapping), "content" + zeros, "the first page")
            }
        },
        holds("a mapping shows a large or sparse file as it is read, from each offset") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                let pieces: [(offset: Int64, count: Int)] = [
                    (3, 5_000), (65_500, 100), (131_072, 16_384), (250_001, 10),
                ]
                for (number, piece) in pieces.enumerated() {
                    try tree.write(descriptor, String(repeating: "\(number)", count: piece.count), at: piece.offset)
                }
                let ranges: [(offset: Int64, count: Int)] = [
                    (0, 250_011), (65_536, 184_475), (131_072, 5_000), (196_608, 53_403),
                ]
                for (offset, count) in ranges {
                    let mapping = try tree.fileSystem.map(descriptor, at: offset, count: count)
                    try expectEqual(
                        Data(mapping.copy(of: 0..<count)),
                        Data(try tree.fileSystem.readBytes(of: descriptor, at: offset, count: count)),
                        "the bytes of map(x, at: \(offset), count: \(count))")
                }
            }
        },
        holds("all mappings of a file are coherent") { tree in
            try tree.mapping("x", size: 200_000) { _, mapping in
                try tree.opening(tree("x"), .readWrite) { other in
                    let whole = try tree.fileSystem.map(other, at: 0, count: 200_000)
                    let rest = try tree.fileSystem.map(other, at: 65_536, count: 100_000)
                    tree.store("one", at: 70_000, in: mapping)
                    try expectEqual(tree.load(70_000..<70_003, of: whole), "one", "in another mapping")
                    try expectEqual(tree.load(4464..<4467, of: rest), "one", "in one that starts in the middle")
                    tree.store("two", at: 99_997, in: rest)
                    try expectEqual(tree.load(165_533..<165_536, of: mapping), "two", "stored by its end")
                    try expectEqual(try tree.read(other, 3, at: 165_533), "two", "in the file")
                }
            }
        },
        holds("a long store at an odd offset is complete") { tree in
            try tree.mapping("x", size: 200_000) { descriptor, mapping in
                let long = String(repeating: "0123456789", count: 12_345)
                tree.store(long, at: 3, in: mapping)
                try expectEqual(try tree.read(descriptor, 123_452, at: 2), "\0\(long)\0", "the content")
                tree.store("", at: 200_000, in: mapping)
            }
        },
        holds("a mapping outlives its descriptor") { tree in
            let descriptor = try tree.fileSystem.open(tree("f"), .readWrite)
            let mapping = try tree.fileSystem.map(descriptor, at: 0, count: 7)
            try tree.fileSystem.close(descriptor)
            tree.store("C", at: 0, in: mapping)
            try mapping.writeBack()
            try expectEqual(try tree.content("f"), "Content", "the content")
        },
        holds("a mapping outlives the name of its file") { tree in
            try tree.mapping("x", size: 4096) { descriptor, mapping in
                try tree.fileSystem.unlink(tree("x"))
                try tree.create("x", "another")
                tree.store("nameless", at: 0, in: mapping)
                try expectEqual(try tree.read(descriptor, 8, at: 0), "nameless", "through the descriptor")
                try expectEqual(try tree.content("x"), "another", "the file that has the name now")
            }
        },
        holds("a mapping keeps its file once the last name and the last descriptor are gone") { tree in
            let descriptor = try tree.fileSystem.open(tree("x"), .readWrite, options: [.create])
            let mapping = try tree.fileSystem.closing(descriptor) { () throws(FileSystemError) in
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 4096)
                return try tree.fileSystem.map(descriptor, at: 0, count: 4096)
            }
            try tree.fileSystem.unlink(tree("x"))
            // Its inode must not be used again.
            try tree.create("y", "another")
            tree.store("nameless", at: 0, in: mapping)
            try expectEqual(tree.load(0..<9, of: mapping), "nameless\0", "the mapped bytes")
            try expectEqual(try tree.content("y"), "another", "the content of a new file")
            try expect(!mapping.hasFaulted, "hasFaulted after a store: got true")
        },
        holds("a mapping follows a rename of its file") { tree in
            try tree.mapping("x", size: 4096) { _, mapping in
                try tree.fileSystem.rename(tree("x"), to: tree("d/y"))
                tree.store("moved", at: 0, in: mapping)
                try expect(try tree.content("d/y").hasPrefix("moved"), "the file at its new place")
                try expect(try !tree.exists("x"), "the old name is gone")
            }
        },
        holds("an unmapped file keeps the stored data") { tree in
            try tree.mapping("x", size: 4096) { _, mapping in tree.store("kept", at: 9, in: mapping) }
            try expectEqual(try tree.content("x").dropFirst(8).prefix(5), "\0kept", "the content")
        },
        holds("truncated data does not reappear in a mapping when the file grows") { tree in
            try tree.mapping("x", size: 20_000) { descriptor, mapping in
                tree.store("gone", at: 98, in: mapping)
                tree.store("gone", at: 16_000, in: mapping)
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 100)
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 20_000)
                try expectEqual(tree.load(97..<103, of: mapping), "\0go\0\0\0", "where it was cut")
                try expectEqual(tree.load(16_000..<16_004, of: mapping), "\0\0\0\0", "behind it")
                try expectEqual(try tree.read(descriptor, 4, at: 16_000), "\0\0\0\0", "in the file")
            }
        },
        holds("a file may be mapped beyond its end and grow under the mapping") { tree in
            try tree.mapping("x", size: 0, count: 200_000) { descriptor, mapping in
                try expectEqual(try tree.status("x").sizeInBytes, 0, "the size once it is mapped")
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 5000)
                tree.store("early", at: 4995, in: mapping)
                try tree.write(descriptor, "appended", at: 150_000)
                try expectEqual(tree.load(150_000..<150_008, of: mapping), "appended", "what was written")
                tree.store("late", at: 149_996, in: mapping)
                try expectEqual(try tree.read(descriptor, 20, at: 149_996), "lateappended", "in the file")
                try expectEqual(try tree.read(descriptor, 6, at: 4995), "early\0", "what was stored first")
                try expectEqual(try tree.status("x").sizeInBytes, 150_008, "the size")
            }
        },
        holds("a store does not change the size of a file") { tree in
            try tree.mapping("x", size: 10, count: 4096) { descriptor, mapping in
                tree.store("across the end", at: 4, in: mapping)
                try expectEqual(try tree.status("x").sizeInBytes, 10, "the size")
                try expectEqual(try tree.read(descriptor, 100, at: 0), "\0\0\0\0across", "the content")
            }
        },
        holds("reserved space can be stored into") { tree in
            try tree.opening(tree("x"), .readWrite, [.create]) { descriptor in
                try tree.fileSystem.allocate(descriptor, at: 0, length: 100_000)
                let mapping = try tree.fileSystem.map(descriptor, at: 0, count: 100_000)
                let allocated = try tree.status("x").allocatedSizeInBytes
                for place in stride(from: 0, to: 100_000, by: 9999) { tree.store("record", at: place, in: mapping) }
                try expectEqual(try tree.read(descriptor, 8, at: 19_998), "record\0\0", "the content")
                try expectEqual(try tree.status("x").allocatedSizeInBytes, allocated, "the space")
            }
        },
        holds("a mapping shows what is read once its file has grown over a store behind the end") { tree in
            let calls: [(call: String, body: (Descriptor) throws -> Void)] = [
                ("allocate(x, at: 0, length: 100)", { try tree.fileSystem.allocate($0, at: 0, length: 100) }),
                ("write(x, 1 byte, at: 99)", { try tree.write($0, "x", at: 99) }),
                ("truncate(x, to: 100)", { try tree.fileSystem.truncate(.descriptor($0), to: 100) }),
            ]
            for (call, body) in calls {
                try tree.mapping("x", size: 10, count: 4096) { descriptor, mapping in
                    tree.store("behind the end", at: 20, in: mapping)
                    try body(descriptor)
                    try expectEqual(
                        tree.load(0..<100, of: mapping), try tree.read(descriptor, 100, at: 0),
                        "the mapped bytes after a store at 20 of 10 bytes and \(call)")
                }
            }
        },
        holds("writing back and synchronising have no visible effect") { tree in
            try tree.mapping("x", size: 70_000) { descriptor, mapping in
                for text in ["first", "again"] {
                    tree.store(text, at: 65_534, in: mapping)
                    try mapping.writeBack()
                    try tree.fileSystem.synchronize(descriptor, .data)
                    try expectEqual(try tree.read(descriptor, 5, at: 65_534), text, "the content")
                }
                try mapping.writeBack()
            }
        },
        holds("a store that was written back and synchronised is a modification") { tree in
            try tree.mapping("x", size: 200_000) { descriptor, mapping in
                let past = FileTime(seconds: 1000)
                for place in [0, 131_072] {
                    try tree.fileSystem.setTimes(accessed: nil, modified: past, of: .path(tree("x")))
                    tree.store("new", at: place, in: mapping)
                    try mapping.writeBack()
                }
                try tree.fileSystem.synchronize(descriptor, .full)
                try expect(try tree.status("x").modified > past, "the time of modification is the old one")
                // Each store is into a page of its own: only the first one into a page must be noticed.
                tree.store("other", at: 16_384, in: mapping)
                try tree.fileSystem.synchronize(descriptor, .full)
                try tree.fileSystem.setTimes(accessed: nil, modified: past, of: .path(tree("x")))
                tree.store("last", at: 32_768, in: mapping)
                try mapping.writeBack()
                try tree.fileSystem.synchronize(descriptor, .full)
                try expect(
                    try tree.status("x").modified > past,
                    "the time of modification is the old one after a store that follows a synchronised one")
            }
        },
        holds("a store into a file open for appending goes to its own offset") { tree in
            try tree.opening(tree("f"), .readWrite, [.append]) { descriptor in
                let mapping = try tree.fileSystem.map(descriptor, at: 0, count: 7)
                tree.store("C", at: 0, in: mapping)
                try expectEqual(try tree.content("f"), "Content", "the content")
            }
        },
        refuses("a descriptor for reading is not mapped", .permissionDenied) { tree in
            try tree.opening(tree("f"), .readOnly) { _ = try tree.fileSystem.map($0, at: 0, count: 7) }
        },
        refuses("a descriptor for writing is not mapped", .permissionDenied) { tree in
            try tree.opening(tree("f"), .writeOnly) { _ = try tree.fileSystem.map($0, at: 0, count: 7) }
        },
        refuses("a directory is not mapped", .permissionDenied, darwin: .invalidArgument) { tree in
            try tree.opening(tree("d"), .readOnly) { _ = try tree.fileSystem.map($0, at: 0, count: 7) }
        },
        holds("a FIFO is not mapped") { tree in
            try tree.fileSystem.createNode(
                tree("pipe"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.opening(tree("pipe"), .readWrite, [.nonBlocking]) { descriptor in
                let expected = tree.isDarwin ? Errno.invalidArgument : .operationNotSupportedByDevice
                try tree.expectErrno(expected, "map") { _ = try tree.fileSystem.map(descriptor, at: 0, count: 7) }
            }
        },
        holds("an access beyond the file's last page faults, is recorded, and changes no file") { tree in
            // Two pages of the largest size in use.
            try tree.mapping("short", size: 131_072) { descriptor, mapping in
                tree.store("kept", at: 0, in: mapping)
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 4)
                try expect(!mapping.hasFaulted, "truncating alone is no access")
                tree.store("lost", at: 131_068, in: mapping)
                try expect(mapping.hasFaulted, "the store is noted")
                try tree.expectErrno(.ioError, "writing back") { try mapping.writeBack() }
                try expect(tree.load(0..<4, of: mapping) == "kept", "other pages stay")
                let status = try tree.fileSystem.status(of: .descriptor(descriptor))
                try expect(status.sizeInBytes == 4, "the size stays")
            }
            try tree.mapping("read", size: 131_072) { descriptor, mapping in
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 0)
                tree.store("", at: 131_072, in: mapping)
                try expect(tree.load(131_072..<131_072, of: mapping) == "", "nothing is loaded")
                try expect(!mapping.hasFaulted, "a load and a store of no bytes are no access")
                try expect(tree.load(131_068..<131_072, of: mapping) == "\0\0\0\0", "zeros are loaded")
                try expect(mapping.hasFaulted, "the load is noted")
            }
            // A whole number of pages of each size.
            try tree.mapping("edge", size: 131_072) { descriptor, mapping in
                try tree.fileSystem.truncate(.descriptor(descriptor), to: 65_536)
                try expectEqual(tree.load(65_535..<65_536, of: mapping), "\0", "the last of 65,536 bytes")
                try expect(!mapping.hasFaulted, "hasFaulted after a load of the last of 65,536 bytes: got true")
                try expectEqual(tree.load(65_536..<65_537, of: mapping), "\0", "the byte behind 65,536 bytes")
                try expect(mapping.hasFaulted, "hasFaulted after a load of the byte behind 65,536 bytes: got false")
            }
        },
        holds("the last byte of a mapped file is stored, wherever in a page it is") { tree in
            for size in [1, 65_536, 65_537] as [Int64] {
                try tree.mapping("last", size: size) { descriptor, mapping in
                    tree.store("x", at: Int(size) - 1, in: mapping)
                    try expect(!mapping.hasFaulted, "hasFaulted after a store to the last of \(size) bytes: got true")
                    try expectEqual(try tree.read(descriptor, 1, at: size - 1), "x", "the last of \(size) bytes")
                }
            }
        },
        refuses("an invalid descriptor is not mapped", .badFileDescriptor) { tree in
            let none = Descriptor(rawValue: 1_999_999)
            try tree.expectErrno(.badFileDescriptor, "no bytes") {
                _ = try tree.fileSystem.map(none, at: 0, count: 0)
            }
            try tree.expectErrno(.invalidArgument, "at an offset within a page") {
                _ = try tree.fileSystem.map(none, at: 1, count: 1)
            }
            _ = try tree.fileSystem.map(none, at: 0, count: 1)
        },
        refuses("empty and unaligned ranges are not mapped", .invalidArgument) { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                for (offset, count) in [(0, 0), (0, -1), (1, 1), (512, 1), (-512, 1)] as [(Int64, Int)] {
                    try tree.expectErrno(.invalidArgument, "\(count) bytes at \(offset)") {
                        _ = try tree.fileSystem.map(descriptor, at: offset, count: count)
                    }
                }
                _ = try tree.fileSystem.map(descriptor, at: 65_535, count: 100)
            }
        },
        refuses("a range beyond the maximum file size is not mapped", .overflow, darwin: .invalidArgument) { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                let expected = tree.isDarwin ? Errno.invalidArgument : .overflow
                try tree.expectErrno(expected, "before the start") {
                    _ = try tree.fileSystem.map(descriptor, at: -65_536, count: 65_536)
                }
                try tree.expectErrno(expected, "at the end, of as many bytes as begin the last page") {
                    _ = try tree.fileSystem.map(descriptor, at: .max & ~65_535, count: 61_441)
                }
                _ = try tree.fileSystem.map(descriptor, at: .max & ~65_535, count: 65_536)
            }
        },
        holds("a range beyond the address space is not mapped") { tree in
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.expectErrno(.noMemory, "map") {
                    _ = try tree.fileSystem.map(descriptor, at: 0, count: .max & ~65_535)
                }
            }
        },
    ]
}

extension FileSystemFixture {
    /// Makes a zero-filled file of this size and maps all or part of it.
    func mapping(
        _ name: String, size: Int64, count: Int? = nil, _ body: (Descriptor, FileMapping) throws -> Void
    ) throws {
        try opening(self(name), .readWrite, [.create, .truncate]) { descriptor in
            try fileSystem.truncate(.descriptor(descriptor), to: size)
            try body(descriptor, try fileSystem.map(descriptor, at: 0, count: count ?? Int(size)))
        }
    }

    func store(_ text: String, at offset: Int, in mapping: FileMapping) {
        let bytes = Array(text.utf8)
        mapping.store(bytes.span, at: offset)
    }

    func load(_ range: Range<Int>, of mapping: FileMapping) -> String {
        String(decoding: mapping.copy(of: range), as: UTF8.self)
    }
}
