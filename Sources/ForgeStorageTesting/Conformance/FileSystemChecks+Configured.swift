import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    /// Promises on a full device, which holds 64 KiB to 64 MiB and 24 to 10,000 inodes.
    public static let fileSystemQuota: [ConformanceCheck<FileSystemUnderTest>] = quota.map { $0.needing(.limitedSpace) }

    private static let quota: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a write that fills the device is short, the next is refused, and the written bytes are kept") { tree in
            let written = try fill(tree, "big")
            try expectEqual(try tree.status("big").sizeInBytes, Int64(written), "the size")
            try expect(try tree.content("big").allSatisfy { $0 == "x" }, "the bytes")
        },
        holds("allocated bytes can be overwritten on a full device") { tree in
            try fill(tree, "big")
            try tree.opening(tree("big"), .writeOnly) { try expectEqual(try tree.write($0, "y", at: 0), 1, "written") }
            try expect(try tree.content("big").hasPrefix("yx"), "the byte is there")
        },
        holds("the space of an unlinked file is freed when its last descriptor is closed") { tree in
            let written = try fill(tree, "big")
            try tree.opening(tree("big"), .readOnly) { _ in
                try tree.fileSystem.unlink(tree("big"))
                try tree.create("next")
                try tree.expectErrno(.noSpace, "while it is open") { try tree.create("next", block) }
            }
            // A process that is being started has a copy of the descriptor until it executes its program.
            for attempt in 1...200 {
                do {
                    try tree.create("next", block)
                    break
                } catch  where attempt < 200 {
                    Thread.sleep(forTimeInterval: 0.01)
                }
            }
            try expectEqual(try fill(tree, "next"), written, "the space after it was closed")
        },
        holds("files can be renamed, removed and truncated on a full device") { tree in
            try fill(tree, "big")
            try tree.fileSystem.rename(tree("big"), to: tree("e/big"))
            try tree.fileSystem.truncate(.path(tree("e/big")), to: 1)
            try tree.create("next", block)
            try tree.fileSystem.unlink(tree("e/big"))
        },
        holds("on a full device a file can be extended by a hole, but space cannot be reserved") { tree in
            try fill(tree, "big")
            try tree.fileSystem.truncate(.path(tree("big")), to: 1 << 30)
            try tree.opening(tree("f"), .readWrite) { descriptor in
                try tree.expectErrno(.noSpace, "reserving") {
                    try tree.fileSystem.allocate(descriptor, at: 0, length: 1 << 20)
                }
            }
        },
        holds("a device without free inodes creates nothing until one is free") { tree in
            var count = 0
            do {
                while count < 20_000 {
                    try tree.create("e/n\(count)")
                    count += 1
                }
                throw ConformanceViolation("20,000 files fit on the device")
            } catch let error as FileSystemError {
                try expectEqual(error.errno, .noSpace, "the refusal")
            }
            try tree.expectErrno(.noSpace, "a directory") { try tree.makeDirectory("x") }
            try tree.expectErrno(.noSpace, "a symbolic link") { try tree.makeLink("x", to: "f") }
            try tree.fileSystem.unlink(tree("e/n0"))
            try tree.create("e/again")
        },
    ]

    /// Promises on a read-only device; the subject can make its device read-only.
    public static let fileSystemReadOnly: [ConformanceCheck<FileSystemUnderTest>] = readOnly.map {
        $0.needing(.readOnlyDevice)
    }

    private static let readOnly: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a read-only device refuses every change") { tree in
            let file = FileReference.path(tree("f"))
            let before = try tree.snapshot()
            try tree.subject.makeReadOnly?()
            let calls: [(String, () throws -> Void)] = [
                ("create", { try tree.open("new", .writeOnly, [.create]) }),
                ("open for writing", { try tree.open("f", .writeOnly) }),
                ("open and truncate", { try tree.open("f", .readOnly, [.truncate]) }),
                ("mkdir", { try tree.makeDirectory("new") }), ("symlink", { try tree.makeLink("new", to: "f") }),
                ("link", { try tree.fileSystem.link(tree("f"), to: tree("new")) }),
                ("unlink", { try tree.fileSystem.unlink(tree("f")) }),
                ("rmdir", { try tree.fileSystem.removeDirectory(tree("e")) }),
                ("rename", { try tree.fileSystem.rename(tree("f"), to: tree("new")) }),
                ("truncate", { try tree.fileSystem.truncate(file, to: 0) }),
                ("chmod", { try tree.fileSystem.setPermissions(.ownerRead, of: file) }),
                ("chown", { try tree.fileSystem.setOwner(UserID(1), group: nil, of: file) }),
                (
                    "utimens",
                    { try tree.fileSystem.setTimes(accessed: nil, modified: FileTime(seconds: 1), of: file) }
                ),
            ]
            for (name, call) in calls { try tree.expectErrno(.readOnlyFileSystem, name, call) }
            try tree.expectErrno(.fileExists, "a directory that exists") { try tree.makeDirectory("d") }
            try expectEqual(try tree.snapshot(), before, "the tree")
        },
        holds("a read-only device can be read, even by an open with the create option") { tree in
            try tree.subject.makeReadOnly?()
            try tree.open("f", .readOnly, [.create])
            try expectEqual(try tree.content("f"), "content", "the content")
            try expectEqual(try tree.list("d"), ["s"], "a listing")
            try tree.opening(tree("f"), .readOnly) { try tree.fileSystem.synchronize($0, .full) }
        },
    ]

    /// Promises across two devices; the subject names a directory on another one.
    public static let fileSystemDevices: [ConformanceCheck<FileSystemUnderTest>] = devices.map {
        $0.needing(.secondDevice)
    }

    private static let devices: [ConformanceCheck<FileSystemUnderTest>] = [
        refuses("nothing is renamed to another device", .improperLink) { tree in
            try tree.fileSystem.rename(tree("f"), to: other(tree))
        },
        refuses("nothing is linked to another device", .improperLink) { tree in
            try tree.fileSystem.link(tree("f"), to: other(tree))
        },
        holds("devices have distinct numbers") { tree in
            let device = try tree.fileSystem.status(tree.subject.otherDevice ?? "/").device
            try expect(try device != tree.status("f").device, "the numbers")
        },
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
    ]

    /// The limit of 65,000 hard links to a file, as on ext4.
    public static let fileSystemLinkLimit: [ConformanceCheck<FileSystemUnderTest>] = linkLimit.map {
        $0.needing(.linkLimit)
    }

    private static let linkLimit: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file has 65,000 names at most") { tree in
            for number in 1..<65_000 { try tree.fileSystem.link(tree("f"), to: tree("e/n\(number)")) }
            try tree.expectErrno(.tooManyLinks, "one more") { try tree.fileSystem.link(tree("f"), to: tree("x")) }
            try expectEqual(try tree.status("f").linkCount, 65_000, "the link count")
        }
    ]

    private static let block = String(repeating: "x", count: 4096)

    private static func other(_ tree: FileSystemFixture) -> POSIXPath {
        (tree.subject.otherDevice ?? "/").appending("moved")
    }

    /// Writes until the device is full and returns the number of bytes written.
    @discardableResult
    private static func fill(_ tree: FileSystemFixture, _ name: String) throws -> Int {
        var written = 0
        try tree.opening(tree(name), .writeOnly, [.create]) { descriptor in
            try tree.expectErrno(.noSpace, "filling the device") {
                // An odd length, so that the last effective write is short.
                while written < 1 << 27 { written += try tree.write(descriptor, String(repeating: "x", count: 5001)) }
            }
        }
        return written
    }
}
