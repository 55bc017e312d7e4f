import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    /// Checks of user attributes, which not every file system has.
    public static let fileSystemExtendedAttributes: [ConformanceCheck<FileSystemUnderTest>] = extendedAttributes.map {
        $0.needing(.extendedAttributes)
    }

    private static let extendedAttributes: [FileSystemCheck] = [
        onFile("an extended attribute has the value that was set last, and is listed once") { tree, file in
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file), [], "names of a new file")
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), nil, "an attribute that is not set")
            let values: [[UInt8]] = [Array(0...255), [], Array(repeating: 7, count: 900), [0], [1, 2, 3]]
            for value in values {
                try tree.fileSystem.setExtendedAttribute("a", to: value, of: file)
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), value, "value")
            }
            try tree.fileSystem.setExtendedAttribute("b.c-d é", to: [4], of: file)
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), ["a", "b.c-d é"], "names")
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1, 2, 3], "the other value")
            try expectEqual(try tree.fileSystem.extendedAttribute("b", of: file), nil, "a prefix of a name")
        },
        onFile("many extended attributes are listed") { tree, file in
            // More bytes of names than a first buffer holds.
            let prefix = String(repeating: "n", count: 60)
            let names: [String] = (10..<34).map { "\(prefix)\($0)" }
            for name in names { try tree.fileSystem.setExtendedAttribute(name, to: Array(name.utf8), of: file) }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), names, "names")
            for name in names {
                try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), Array(name.utf8), "value")
            }
        },
        onFile("names of extended attributes that are equivalent or differ in case are different") { tree, file in
            guard !tree.isDarwin else { return }
            let names = ["a", "A", "\u{E9}", "e\u{301}"]
            for (number, name) in names.enumerated() {
                try tree.fileSystem.setExtendedAttribute(name, to: [UInt8(number)], of: file)
            }
            for (number, name) in names.enumerated() {
                try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), [UInt8(number)], "value")
            }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).count, names.count, "names")
        },
        onFile("extended attributes belong to the file: a link shows them, a rename and a write keep them") {
            tree, file in
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try tree.fileSystem.link(tree("f"), to: tree("g"))
            try tree.fileSystem.rename(tree("f"), to: tree("e/f"))
            _ = try tree.write(file, "new content")
            try tree.fileSystem.truncate(.descriptor(file), to: 0)
            for name in ["g", "e/f"] {
                try tree.opening(tree(name), .readOnly) { other in
                    try expectEqual(try tree.fileSystem.extendedAttribute("a", of: other), [1], name)
                }
            }
        },
        holds("a new file has no extended attributes of a removed one") { tree in
            try tree.opening(tree("f"), .readWrite) { file in
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            }
            try tree.fileSystem.unlink(tree("f"))
            // Its inode may be used again.
            for name in ["f", "g"] {
                try tree.opening(tree(name), .readWrite, [.create]) { new in
                    try expectEqual(try tree.fileSystem.extendedAttributeNames(of: new), [], "names of \(name)")
                    try expectEqual(try tree.fileSystem.extendedAttribute("a", of: new), nil, "the value of \(name)")
                }
            }
        },
        onFile("a change of an extended attribute changes the change time only") { tree, file in
            let old = FileTime(seconds: 1_000_000)
            try tree.fileSystem.setTimes(accessed: nil, modified: old, of: .descriptor(file))
            let before = try tree.status("f").changed
            for _ in 0..<1_000_000 {
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
                if try tree.status("f").changed > before { break }
            }
            try expect(try tree.status("f").changed > before, "the change time should advance")
            try expectEqual(try tree.status("f").modified, old, "modified")
            try expectEqual(try tree.status("f").sizeInBytes, 7, "size")
        },
        onFile("an invalid name of an extended attribute is refused") { tree, file in
            let limit = tree.isDarwin ? 127 : 250
            let longest = String(repeating: "x", count: limit)
            try tree.fileSystem.setExtendedAttribute(longest, to: [1], of: file)
            try expectEqual(try tree.fileSystem.extendedAttribute(longest, of: file), [1], "the longest name")
            let tooLong: Errno = tree.isDarwin ? .fileNameTooLong : .outOfRange
            let refused: [(String, Errno)] = [
                ("", .invalidArgument), ("a\0b", .invalidArgument), (longest + "x", tooLong),
            ]
            for (name, errno) in refused {
                try tree.expectErrno(errno, "setting \(name)") {
                    try tree.fileSystem.setExtendedAttribute(name, to: [2], of: file)
                }
                try tree.expectErrno(errno, "reading \(name)") {
                    _ = try tree.fileSystem.extendedAttribute(name, of: file)
                }
            }
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file), [longest], "names")
        },
        onFile("a value of an extended attribute has at most 65,536 bytes") { tree, file in
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try tree.expectErrno(.argListTooLong, "one more") {
                try tree.fileSystem.setExtendedAttribute("a", to: [UInt8](repeating: 2, count: 65_537), of: file)
            }
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1], "value")
        },
        onFile("an extended attribute that does not fit changes nothing") { tree, file in
            let value = [UInt8](repeating: 3, count: 1_000)
            // ext4 has room for less than four of them, other file systems for more.
            let names: [String] = (10..<40).map { "a\($0)" }
            let set = Array(try names.prefix { try fits($0, value, tree, file) })
            try expect(set.count >= 3, "only \(set.count) attributes of 1,000 bytes fit")
            try expectEqual(try tree.fileSystem.extendedAttributeNames(of: file).sorted(), set, "names")
            for name in set { try expectEqual(try tree.fileSystem.extendedAttribute(name, of: file), value, name) }
        },
        onFile("a directory has extended attributes, a FIFO has none") { tree, _ in
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                try tree.fileSystem.setExtendedAttribute("a", to: [1], of: directory)
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: directory), [1], "a directory's")
            }
            guard !tree.isDarwin else { return }
            try tree.fileSystem.createNode(
                tree("fifo"), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            try tree.opening(tree("fifo"), .readWrite, [.nonBlocking]) { fifo in
                try tree.expectErrno(.notPermitted, "setting") {
                    try tree.fileSystem.setExtendedAttribute("a", to: [1], of: fifo)
                }
                try expectEqual(try tree.fileSystem.extendedAttribute("a", of: fifo), nil, "a FIFO's")
            }
        },
        onFile("extended attributes can be set through a file opened for reading, not a closed one") { tree, _ in
            let file = try tree.fileSystem.open(tree("f"))
            try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
            try expectEqual(try tree.fileSystem.extendedAttribute("a", of: file), [1], "value")
            try tree.fileSystem.close(file)
            try tree.expectErrno(.badFileDescriptor, "setting") {
                try tree.fileSystem.setExtendedAttribute("a", to: [2], of: file)
            }
            try tree.expectErrno(.badFileDescriptor, "reading") {
                _ = try tree.fileSystem.extendedAttribute("a", of: file)
            }
            try tree.expectErrno(.badFileDescriptor, "listing") {
                _ = try tree.fileSystem.extendedAttributeNames(of: file)
            }
        },
    ]

    /// Sets an attribute, unless there is no space for it.
    private static func fits(
        _ name: String, _ value: [UInt8], _ tree: FileSystemFixture, _ file: Descriptor
    ) throws -> Bool {
        do {
            try tree.fileSystem.setExtendedAttribute(name, to: value, of: file)
            return true
        } catch  where error.isOutOfSpace {
            return false
        }
    }

    /// A check that starts from the fixture, with the file `f` opened for reading and writing.
    private static func onFile(
        _ description: String, _ body: @escaping @Sendable (FileSystemFixture, Descriptor) throws -> Void
    ) -> FileSystemCheck {
        holds(description) { tree in try tree.opening(tree("f"), .readWrite) { try body(tree, $0) } }
    }
}
