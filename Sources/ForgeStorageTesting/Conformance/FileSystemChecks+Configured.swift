import Dispatch
import ForgeFileSystem
import Foundation
import Synchronization
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
            try createWhenFree(tree, "next")
            try expectEqual(try fill(tree, "next"), written, "the space after it was closed")
        },
        holds("the space of an unlinked file that is mapped is freed with the mapping") { tree in
            let written = try fill(tree, "big")
            var mapping: FileMapping? = try tree.opening(tree("big"), .readWrite) {
                try tree.fileSystem.map($0, at: 0, count: 1)
            }
            try tree.fileSystem.unlink(tree("big"))
            try tree.create("next")
            try withExtendedLifetime(mapping) {
                try tree.expectErrno(.noSpace, "while it is mapped") { try tree.create("next", block) }
            }
            mapping = nil
            try createWhenFree(tree, "next")
            try expectEqual(try fill(tree, "next"), written, "the space after it was unmapped")
        },
        holds("a block that is allocated can be filled on a full device, and a write across its end is not complete") {
            tree in
            try fill(tree, "big")
            try tree.opening(tree("f"), .writeOnly) { descriptor in
                try expectEqual(try tree.write(descriptor, "more", at: 7), 4, "bytes written behind the end of f")
                // A file system that needs space for all blocks of a page refuses the write.
                var count = 0
                do {
                    count = try tree.write(descriptor, block + block, at: 11)
                } catch let error as FileSystemError where error.errno == .noSpace {}
                try expect(count < 2 * block.utf8.count, "a write of 8,192 bytes: expected fewer, got \(count)")
                try expectEqual(try tree.status("f").sizeInBytes, Int64(11 + count), "the size of f")
                try expect(try tree.content("f") == "contentmore" + block.prefix(count), "the content of f")
                try tree.expectErrno(.noSpace, "a write behind the allocated block") {
                    // Less than a block may be left.
                    for number in 1...64 as ClosedRange<Int64> {
                        _ = try tree.write(descriptor, block, at: number << 20)
                    }
                }
            }
        },
        holds("reserved space can be written on a full device") { tree in
            try tree.opening(tree("reserved"), .readWrite, [.create]) { descriptor in
                try tree.fileSystem.allocate(descriptor, at: 0, length: 8_192)
                try fill(tree, "big")
                try expectEqual(
                    try tree.write(descriptor, block + block, at: 0), 8_192, "bytes written to reserved space")
                let mapping = try tree.fileSystem.map(descriptor, at: 0, count: 8_192)
                for place in [0, 8_190] { tree.store("y", at: place, in: mapping) }
                try expect(!mapping.hasFaulted, "hasFaulted after stores to reserved space on a full device: got true")
                try expectEqual(try tree.read(descriptor, 2, at: 8_190), "yx", "the bytes stored")
            }
        },
        holds("a store into a hole of a mapped file takes space") { tree in
            let written = try fill(tree, "first")
            try tree.fileSystem.unlink(tree("first"))
            try tree.mapping("mapped", size: 32_768) { _, mapping in
                for place in stride(from: 0, to: 32_768, by: 4_096) { tree.store("x", at: place, in: mapping) }
                let left = try fill(tree, "second")
                try expect(
                    left < written,
                    "the bytes that fit beside 8 blocks stored into: expected fewer than \(written), got \(left)")
            }
        },
        holds("the space of truncated, replaced and removed files is free again") { tree in
            let written = try fill(tree, "first")
            try tree.fileSystem.truncate(.path(tree("first")), to: 0)
            try expectEqual(try fill(tree, "second"), written, "bytes that fit after a file was truncated")
            try tree.fileSystem.rename(tree("first"), to: tree("second"))
            try expectEqual(try fill(tree, "third"), written, "bytes that fit after a file was replaced")
            try tree.fileSystem.unlink(tree("third"))
            try expectEqual(try fill(tree, "fourth"), written, "bytes that fit after a file was removed")
        },
        holds("files can be renamed, removed and truncated on a full device") { tree in
            try tree.create("spare", block)
            try fill(tree, "big")
            // A device that has taken more than its space has none for this block now.
            try tree.fileSystem.unlink(tree("spare"))
            try createWhenFree(tree, "next")
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
        holds("a store into a hole of a mapped file faults on a full device") { tree in
            try tree.mapping("mapped", size: 1 << 23) { _, mapping in
                try fill(tree, "big")
                try expect(!mapping.hasFaulted, "the mapping has faulted before a store")
                // Less than a block may be left.
                for place in stride(from: 0, to: 1 << 23, by: 1 << 17) where !mapping.hasFaulted {
                    tree.store("lost", at: place, in: mapping)
                }
                try expect(mapping.hasFaulted, "64 stores, each into another hole: expected a fault")
                try tree.expectErrno(.ioError, "writing back after a fault") { try mapping.writeBack() }
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
            for name in ["e/n1", "e/n2"] { try tree.fileSystem.unlink(tree(name)) }
            for _ in 0..<100 {
                for name in ["e/x", "e/x/y"] { try tree.makeDirectory(name) }
                for name in ["e/x/y", "e/x"] { try tree.fileSystem.removeDirectory(tree(name)) }
            }
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
            try tree.opening(tree("f"), .readOnly) { file in
                try tree.expectErrno([.readOnlyFileSystem, .notSupported], "an extended attribute") {
                    try tree.fileSystem.setExtendedAttribute("a", to: [1], of: file)
                }
            }
            try tree.expectErrno(.fileExists, "a directory that exists") { try tree.makeDirectory("d") }
            try expectEqual(try tree.snapshot(), before, "the tree")
        },
        holds("a read-only device can be read, even by an open with the create option") { tree in
            try tree.subject.makeReadOnly?()
            let accessed = try tree.status("f").accessed
            try tree.open("f", .readOnly, [.create])
            try expectEqual(try tree.content("f"), "content", "the content")
            try expectEqual(try tree.status("f").accessed, accessed, "the time of access after a read of f")
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
            // Other tests may use the device at the same time.
            let path = (tree.subject.otherDevice ?? "/").appending(POSIXPath("new-\(tree.fileSystem.randomBits())"))
            try tree.fileSystem.createDirectory(path, permissions: .ownerReadWriteExecute)
            defer { try? tree.fileSystem.removeDirectory(path) }
            try expectEqual(
                try tree.fileSystem.status(path).device, device, "the device of a new directory on the other one")
        },
        holds("a mount point is not renamed, replaced or removed") { tree in
            let point = try mountPoint(of: tree.subject.otherDevice ?? "/", tree)
            let moved = POSIXPath(Array(point.bytes) + Array(".moved".utf8))
            // A user without the right to change the directory above is refused for that.
            let refusals: [Errno] = [
                .resourceBusy, .permissionDenied, .notPermitted, .readOnlyFileSystem, .isDirectory,
            ]
            try tree.expectErrno(refusals, "rename(\(point), to: \(moved))") {
                try tree.fileSystem.rename(point, to: moved)
                try tree.fileSystem.rename(moved, to: point)
            }
            try tree.expectErrno(refusals, "removeDirectory(\(point))") { try tree.fileSystem.removeDirectory(point) }
            // The directory above may be on a third device.
            try tree.expectErrno(refusals + [.improperLink], "rename(e, to: \(point))") {
                try tree.fileSystem.rename(tree("e"), to: point)
            }
        },
    ]

    /// The highest directory of the device that contains an absolute path.
    private static func mountPoint(of path: POSIXPath, _ tree: FileSystemFixture) throws -> POSIXPath {
        let device = try tree.fileSystem.status(path).device
        var point = path
        while point != "/" {
            let (parent, _) = point.splitLast()
            guard try tree.fileSystem.status(parent).device == device else { break }
            point = parent
        }
        return point
    }

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

    /// Creates a file with a block that is about to be free: a process that is being started has copies of the
    /// descriptors and mappings until it executes its program.
    private static func createWhenFree(_ tree: FileSystemFixture, _ name: String) throws {
        for attempt in 1...200 {
            do {
                return try tree.create(name, block)
            } catch  where attempt < 200 {
                Thread.sleep(forTimeInterval: 0.01)
            }
        }
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

extension ConformanceChecks {
    /// The times of accesses, on a file system that notes them like Linux with `relatime`.
    public static let fileSystemAccessTimes: [ConformanceCheck<FileSystemUnderTest>] = accessTimes.map {
        $0.needing(.accessTimes)
    }

    private static let accessTimes: [FileSystemCheck] = [
        holds("an access is noted unless the last one is newer than the last change") { tree in
            let descriptor = try tree.fileSystem.open(tree("f"), .readWrite)
            let pipe = "pipe"
            try tree.fileSystem.createNode(
                tree(pipe), at: .workingDirectory, type: .fifo, permissions: .ownerReadWrite, deviceNumber: 0)
            let (created, made) = (try tree.status(pipe).accessed, try tree.status("f").changed)
            try expect(
                created >= made,
                "the time of access of a new file: expected \(made), when another was made, or later, got \(created)")
            let fifo = try tree.fileSystem.open(tree(pipe), .readWrite, options: [.nonBlocking])
            let accesses: [(call: String, name: String, access: () throws -> Void)] = [
                ("read(f)", "f", { _ = try tree.read(descriptor, 1, at: 0) }),
                ("map(f)", "f", { _ = try tree.fileSystem.map(descriptor, at: 0, count: 1) }),
                ("entries(d)", "d", { _ = try tree.list("d") }),
                ("readSymbolicLink(sf)", "sf", { _ = try tree.fileSystem.readSymbolicLink(tree("sf")) }),
                ("status(sf/) through a link", "sd", { _ = try tree.status("sd/") }),
                (
                    "read(pipe)", pipe,
                    {
                        try tree.write(fifo, "x")
                        _ = try tree.read(fifo, 1)
                    }
                ),
            ]
            let past = FileTime(seconds: 1_000_000)
            for (call, name, access) in accesses {
                let file = FileReference.path(tree(name), followsSymbolicLinks: false)
                try tree.fileSystem.setTimes(accessed: past, modified: past, of: file)
                try access()
                let noted = try tree.status(name).accessed
                try expect(
                    noted > past, "the time of access after \(call): expected a later one than \(past), got \(noted)")
            }
            let file = FileReference.path(tree("f"))
            let future = FileTime(seconds: 10_000_000_000)
            try tree.fileSystem.setTimes(accessed: future, modified: past, of: file)
            _ = try tree.read(descriptor, 1, at: 0)
            try expectEqual(try tree.status("f").accessed, future, "the time of access after it was noted, and read(f)")
            try tree.fileSystem.setTimes(accessed: future, modified: future, of: file)
            _ = try tree.read(descriptor, 1, at: 0)
            try expect(
                try tree.status("f").accessed < future,
                "the time of access after read(f) is still that of the last change, \(future)")
            try tree.fileSystem.setTimes(accessed: past, modified: past, of: file)
            _ = try tree.read(descriptor, 0, at: 0)
            try tree.write(descriptor, "x", at: 0)
            try expectEqual(
                try tree.status("f").accessed, past, "the time of access after a write and a read of 0 bytes")
            for descriptor in [descriptor, fifo] { try tree.fileSystem.close(descriptor) }
        }
    ]

    /// The end of a process; the subject can start one.
    public static let fileSystemProcesses: [ConformanceCheck<FileSystemUnderTest>] = processes.map {
        $0.needing(.processes)
    }

    private static let processes: [FileSystemCheck] = [
        holds("the end of a process closes its files and releases their locks") { tree in
            let (other, end) = try startProcess(tree)
            let (first, second) = (
                try other.open(tree("f"), .readWrite), try other.open(tree("d"), options: [.directory])
            )
            try other.lock(first, .exclusive, waiting: false)
            try other.lock(second, .shared, waiting: false)
            try tree.fileSystem.unlink(tree("f"))
            try tree.opening(tree("d"), .readOnly, [.directory]) { directory in
                try tree.expectErrno(.resourceTemporarilyUnavailable, "lock(d, .exclusive) beside a shared lock") {
                    try tree.fileSystem.lock(directory, .exclusive, waiting: false)
                }
                end()
                try tree.fileSystem.lock(directory, .exclusive, waiting: false)
            }
            for descriptor in [first, second] {
                try tree.expectErrno(.badFileDescriptor, "status of a descriptor after the end of its process") {
                    _ = try other.status(of: .descriptor(descriptor))
                }
            }
        },
        holds("processes do not share descriptors, and share the files") { tree in
            let (other, end) = try startProcess(tree)
            defer { end() }
            try tree.opening(tree("f"), .readWrite) { own in
                try tree.expectErrno(.badFileDescriptor, "a read of another process's descriptor") {
                    _ = try other.readBytes(of: own, at: 0, count: 1)
                }
                try tree.write(own, "C", at: 0)
            }
            try expectEqual(
                String(decoding: try other.readFile(tree("f")), as: UTF8.self), "Content", "f in the other process")
        },
        holds("a process that waits for a lock gets it when the holder ends") { tree in
            let (other, end) = try startProcess(tree)
            try other.lock(try other.open(tree("f"), .readWrite), .exclusive, waiting: false)
            try tree.opening(tree("f"), .readWrite) { own in
                let (isWaiting, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
                let failure = Mutex<(any Error)?>(nil)
                let waiter = tree.fileSystem
                Thread.detachNewThread {
                    isWaiting.signal()
                    do {
                        try waiter.lock(own, .exclusive, waiting: true)
                    } catch {
                        failure.withLock { $0 = error }
                    }
                    isOver.signal()
                }
                isWaiting.wait()
                // For the thread to reach the lock; a call that comes too late succeeds as well.
                Thread.sleep(forTimeInterval: 0.01)
                end()
                let call = "lock(f, .exclusive, waiting: true) while its holder ends"
                try expect(isOver.wait(timeout: .now() + .seconds(10)) == .success, "\(call): no return within 10 s")
                if let error = failure.withLock({ $0 }) { throw ConformanceViolation("\(call): \(error)") }
            }
        },
    ]

    static func startProcess(
        _ tree: FileSystemFixture
    ) throws -> (fileSystem: any POSIXFileSystem, end: @Sendable () -> Void) {
        guard let process = tree.subject.startProcess?() else { throw ConformanceViolation("startProcess is nil") }
        return process
    }
}
