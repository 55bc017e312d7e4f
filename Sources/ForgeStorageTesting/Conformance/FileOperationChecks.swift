import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    /// The promises of the six operations of `FileSystemProtocol`. Each check needs a new, empty directory.
    public static let fileOperations: [ConformanceCheck<FileOperationsUnderTest>] =
        fileOperationsOfContent + fileOperationsOfDirectories + fileOperationsOfRemoval + fileOperationsOfLinks
        + fileOperationsOfNames + fileOperationsInParallel

    private typealias Check = ConformanceCheck<FileOperationsUnderTest>

    // MARK: Content

    private static let fileOperationsOfContent: [Check] = [
        Check("a written file has its content at every reading") { subject in
            try subject.write("content", "again")
            for _ in 0..<3 { try subject.expectContent("content", "again") }
        },
        Check("a file can be empty, also instead of another content") { subject in
            for old in [nil, "content"] {
                if let old { try subject.write(old, "a") }
                try subject.write("", "a")
                try subject.expectContent("", "a")
                try subject.expectNames(["a"])
            }
        },
        Check("every byte and every size round-trips") { subject in
            let largest = Data.patterned(count: (16 << 20) + 1)
            // At the sizes of pages, of buffers and of the parts of large transfers.
            for size in [1, 256, 4_096, 65_536, 1 << 20, 16 << 20].flatMap({ [$0 - 1, $0, $0 + 1] }) {
                let content = largest.prefix(size)
                try subject.write(content, to: subject.url("a"))
                try expectEqual(try subject.content(at: subject.url("a")), content, "read(from: a)")
            }
        },
        Check("a slice of data is written as the slice") { subject in
            try subject.write(Data("0123456789".utf8).dropFirst(3).prefix(4), to: subject.url("a"))
            try subject.expectContent("3456", "a")
        },
        Check("a file does not change with the memory that its content was written from") { subject in
            let count = 4_096
            let memory = UnsafeMutableRawPointer.allocate(byteCount: count, alignment: 1)
            unsafe memory.initializeMemory(as: UInt8.self, repeating: 1, count: count)
            // The memory is freed with the last copy of this data.
            let content = unsafe Data(
                bytesNoCopy: memory, count: count, deallocator: .custom { start, _ in unsafe start.deallocate() })
            try subject.write(content, to: subject.url("buffer"))
            unsafe memory.initializeMemory(as: UInt8.self, repeating: 2, count: count)
            withExtendedLifetime(content) {}
            try expectEqual(
                try subject.content(at: subject.url("buffer")), Data(repeating: 1, count: count),
                "read(from: buffer) after the caller's memory has changed")
        },
        Check("what was read does not change with its file, nor the file with it") { subject in
            // The sizes of a buffer that may be used again, and of mapped pages.
            for size in [100, 65_536] {
                let (old, new) = (Data(repeating: 1, count: size), Data(repeating: 2, count: size))
                let url = subject.url("rewritten \(size)")
                let result = "the result of read(from: rewritten \(size))"
                try subject.write(old, to: url)
                let first = try subject.content(at: url)
                try subject.write(new, to: url)
                try expectEqual(first, old, "\(result), which was called before")
                var second = try subject.content(at: url)
                try expectEqual(second, new, result)
                second[second.startIndex] = 3
                try expectEqual(try subject.content(at: url), new, "\(result) after another result of it was changed")
                let third = try subject.content(at: url)
                try subject.remove(at: url)
                try subject.write(old, to: subject.url("another \(size)"))
                try expectEqual(third, new, "\(result), which was called before the file was removed")
            }
        },
        Check("files of equal content are independent of each other") { subject in
            // Stored with its entry, with others, or on its own.
            for size in [0, 7, 5_000] {
                let content = String(repeating: "c", count: size)
                let other = String(repeating: "o", count: size)
                let changes: [(file: String, change: (String) throws -> Void)] = [
                    ("removed \(size)", { try subject.remove($0) }),
                    ("replaced \(size)", { try subject.write(other, $0) }),
                    (
                        "written again \(size)",
                        { name in
                            try subject.write(content, name)
                            try subject.remove(name)
                        }
                    ),
                    ("tree/d/removed", { _ in try subject.remove("tree") }),
                ]
                for (name, change) in changes {
                    let kept = "beside \(size) " + name.replacing("/", with: " ")
                    try subject.createDirectory("tree/d", parents: true)
                    for name in ["tree/d/removed", name, kept] { try subject.write(content, name) }
                    // Two are left.
                    if name != "tree/d/removed" { try subject.remove("tree") }
                    try change(name)
                    try subject.expectContent(content, kept)
                    try subject.remove(kept)
                }
            }
        },
        Check("writing replaces the whole content, by a longer and by a shorter one") { subject in
            for content in ["second", "the third content", "4"] {
                try subject.write(content, "a")
                try subject.expectContent(content, "a")
            }
        },
        Check("writing a file changes no other and leaves no other entry") { subject in
            try subject.createDirectory("d")
            // The names of temporary files and copies of "a", if an implementation derives them from its name.
            let copies = ["tmp", "temp", "new", "bak", "part", "swp", "lock"].flatMap {
                ["a.\($0)", ".a.\($0)", ".\($0)"]
            }
            let others = ["a2", "a.b", "b", ".a", "a~", "#a#", "_a"] + copies
            for name in others + ["d/a"] { try subject.write("of " + name, name) }
            for content in ["first", "in place of the first"] {
                try subject.write(content, "a")
                for name in others + ["d/a"] { try subject.expectContent("of " + name, name) }
                try subject.expectNames(others + ["a", "d"])
            }
        },
        Check("a file is not written in a missing directory, which is not created") { subject in
            try subject.expectFailure("write(…, to: d/e/a)") { try subject.write("content", "d/e/a") }
            try subject.expectNames([])
        },
        Check("a directory is not replaced by a file, not even an empty one") { subject in
            for name in ["empty", "full"] { try subject.createDirectory(name) }
            try subject.write("content", "full/a")
            for name in ["empty", "full"] {
                try subject.expectFailure("write(…, to: \(name))") { try subject.write("content", name) }
            }
            try subject.expectNames(["empty", "full"])
            try subject.expectNames([], in: "empty")
            try subject.expectContent("content", "full/a")
        },
        Check("nothing is written below a file, which is kept") { subject in
            try subject.write("content", "a")
            try subject.expectFailure("write(…, to: a/b)") { try subject.write("below", "a/b") }
            try subject.expectContent("content", "a")
            try subject.expectNames(["a"])
        },
        Check("a missing file, a directory and a path below a file cannot be read") { subject in
            try subject.createDirectory("d")
            try subject.write("content", "a")
            for name in ["missing", "missing/a", "d", "a/b"] {
                try subject.expectFailure("read(from: \(name))") { try subject.content(name) }
            }
        },
        Check(
            "a write that fails on a full device keeps the old content and leaves no file",
            needs: [.limitedSpace, .atomicReplacement]
        ) { subject in
            try subject.write("old", "a")
            try subject.fill()
            for name in ["a", "b"] { try subject.expectNoSpace(name) }
            try subject.expectContent("old", "a")
            try subject.expectNames(["a"])
        },
        Check("a write without space on a full device throws and changes no other file", needs: [.limitedSpace]) {
            subject in
            try subject.createDirectory("d")
            for name in ["a", "kept", "d/kept"] { try subject.write("of " + name, name) }
            try subject.fill()
            for name in ["a", "new"] { try subject.expectNoSpace(name) }
            for name in ["kept", "d/kept"] { try subject.expectContent("of " + name, name) }
            // A part of the new content may be left, where files are not replaced atomically.
            let others = try subject.names(in: "").filter { $0 != "a" && $0 != "new" }
            try expectEqual(Set(others), ["d", "kept"], "contentsOfDirectory(…) without the files of the failed calls")
        },
    ]

    // MARK: Directories

    private static let fileOperationsOfDirectories: [Check] = [
        Check("fileExists is true for files and directories alone, and false where the lookup fails") { subject in
            try subject.createDirectory("d")
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for name in ["", "/a", "/d", "/d/", "/d/b", "/d/../a", "//d/./b"] { try subject.expectExists(true, name) }
            let missing = [
                "/b", "/A2", "/a2", "/a/", "/d/a", "/missing/a", "/a/b", "/d/b/c",
                "/" + String(repeating: "n", count: 256),
            ]
            for name in missing { try subject.expectExists(false, name) }
            for path in ["", "\0", try subject.path("/a\0")] {
                try expectEqual(
                    subject.exists(atPath: path), false, "fileExists(atPath: \(path.debugDescription))")
            }
        },
        Check("a created directory is empty and can hold files and directories") { subject in
            for name in ["d", "d/e", "d/e/f"] {
                try subject.createDirectory(name)
                try subject.expectNames([], in: name)
            }
            try subject.write("content", "d/e/f/a")
            try subject.expectContent("content", "d/e/f/a")
        },
        Check("missing parents are created only on request") { subject in
            try subject.expectFailure("createDirectory(at: d/e, withIntermediateDirectories: false)") {
                try subject.createDirectory("d/e")
            }
            try subject.expectNames([])
            try subject.createDirectory("d/e/f", parents: true)
            try subject.expectNames(["d"])
            try subject.expectNames(["f"], in: "d/e")
            // Those that were created before a failure are kept.
            try subject.write("content", "a")
            try subject.expectFailure("createDirectory(at: new/../a/d, withIntermediateDirectories: true), a file") {
                try subject.createDirectory("new/../a/d", parents: true)
            }
            try subject.expectNames(["a", "d", "new"])
            // `..` is an entry of a directory that has to exist.
            try subject.createDirectory("made/../f", parents: true)
            try subject.expectNames(["a", "d", "f", "made", "new"])
        },
        Check("an existing directory is an error without its parents and a success with them, and is kept") { subject in
            try subject.createDirectory("d")
            try subject.write("content", "d/a")
            try subject.expectFailure("createDirectory(at: d, withIntermediateDirectories: false)") {
                try subject.createDirectory("d")
            }
            for name in ["d", "d/e", "d/e"] { try subject.createDirectory(name, parents: true) }
            try subject.expectContent("content", "d/a")
            try subject.expectNames(["a", "e"], in: "d")
        },
        Check("a directory is not created in place of a file or below one") { subject in
            try subject.write("content", "a")
            for (name, parents) in [("a", false), ("a", true), ("a/d", false), ("a/d/e", true)] {
                try subject.expectFailure("createDirectory(at: \(name), withIntermediateDirectories: \(parents))") {
                    try subject.createDirectory(name, parents: parents)
                }
            }
            try subject.expectContent("content", "a")
        },
        Check("a listing has every entry of one level once, hidden ones included") { subject in
            try subject.expectNames([])
            let files = (0..<60).map { "file \($0)" } + [".hidden", "...", "a", "a.b"]
            for name in ["d", ".d"] { try subject.createDirectory(name) }
            for name in files + ["d/below", ".d/below"] { try subject.write("content", name) }
            try subject.expectNames(files + ["d", ".d"])
            try subject.expectNames(["below"], in: "d")
        },
        Check("the listed URLs lead to the entries") { subject in
            let names = ["a", "a%b", "c d"]
            // A URL that is relative to one without a final slash leads to an entry beside the directory.
            for directory in ["e f", "e f/e f", "e f/g", "g"] { try subject.createDirectory(directory) }
            for directory in ["", "e f/", "e f/e f/", "e f/g/"] {
                for name in names { try subject.write("of " + directory + name, directory + name) }
            }
            try subject.write("beside", "g/other")
            for isDirectory in [true, false] {
                let url = subject.url("e f", isDirectory: isDirectory)
                try subject.expectNames(names + ["e f", "g"], at: url)
                for entry in try subject.entries(at: url) {
                    let name = try subject.name(of: entry)
                    guard !names.contains(name) else {
                        try subject.expectContent("of e f/" + name, at: entry)
                        continue
                    }
                    try subject.expectNames(names, at: entry)
                    for below in try subject.entries(at: entry) {
                        try subject.expectContent("of e f/\(name)/\(subject.name(of: below))", at: below)
                    }
                }
            }
            for entry in try subject.entries(at: subject.url("e f")) {
                if try ["c d", "g"].contains(subject.name(of: entry)) { try subject.remove(at: entry) }
            }
            try subject.expectNames(["a", "a%b", "e f"], in: "e f")
            try subject.expectContent("of c d", "c d")
            try subject.expectContent("beside", "g/other")
        },
        Check("a directory of 1,200 entries and a tree of 40 levels are listed and removed whole") { subject in
            let names = (0..<1_200).map { "entry \($0)" }
            try subject.createDirectory("wide")
            for name in names { try subject.write("", "wide/" + name) }
            try subject.expectNames(names, in: "wide")
            let deep = Array(repeating: "deep", count: 40).joined(separator: "/")
            try subject.createDirectory(deep, parents: true)
            try subject.write("content", deep + "/a")
            try subject.expectContent("content", deep + "/a")
            for name in ["wide", "deep"] { try subject.remove(name) }
            try subject.expectNames([])
        },
        Check("a missing directory and a file cannot be listed") { subject in
            try subject.write("content", "a")
            for name in ["missing", "missing/d", "a", "a/b"] {
                try subject.expectFailure("contentsOfDirectory(at: \(name))") {
                    try subject.names(in: name)
                }
            }
        },
    ]

    // MARK: Removal

    private static let fileOperationsOfRemoval: [Check] = [
        Check("a removed file is gone, and every other is kept") { subject in
            try subject.createDirectory("d")
            let others = ["a2", "a.b", ".a", "b", "d/a"]
            for name in ["a"] + others { try subject.write("of " + name, name) }
            try subject.remove("a")
            try subject.expectNothing(at: "a")
            try subject.expectNames(["a2", "a.b", ".a", "b", "d"])
            for name in others { try subject.expectContent("of " + name, name) }
        },
        Check("a removed directory is gone with its tree, and every other is kept") { subject in
            for name in ["d/e/f", "d/.g", "d2/e", "x/d"] { try subject.createDirectory(name, parents: true) }
            let inside = ["d/a", "d/.a", "d/e/b", "d/e/f/c"]
            let others = ["d2/a", "d2/e/b", "x/d/a", "d.b"]
            for name in inside + others { try subject.write("of " + name, name) }
            // What an implementation may keep for the next call.
            for name in inside {
                try subject.expectContent("of " + name, name)
                try subject.expectExists(true, "/" + name)
            }
            try subject.expectNames(["a", ".a", "e", ".g"], in: "d")
            try subject.expectNames(["b", "f"], in: "d/e")
            try subject.remove("d")
            for name in ["d", "d/e", "d/.g"] + inside { try subject.expectNothing(at: name) }
            try subject.expectNames(["d2", "x", "d.b"])
            for name in others { try subject.expectContent("of " + name, name) }
        },
        Check("removing what does not exist is an error and changes nothing") { subject in
            try subject.write("content", "a")
            for name in ["b", "missing/a", "a/b"] {
                try subject.expectFailure("removeItem(at: \(name))") { try subject.remove(name) }
            }
            try subject.expectContent("content", "a")
        },
        Check("removing a path that ends in one or two dots is an error and removes nothing") { subject in
            try subject.createDirectory("d/e", parents: true)
            for name in ["d/a", "d/e/b"] { try subject.write("content", name) }
            for path in ["d/.", "d/./", "d/e/..", "d/e/../", "d/e/..//", "d/%2E", "d/e/%2E%2E", "d/e/.%2e/"] {
                let url = try subject.spelledURL(path)
                try subject.expectFailure("removeItem(at: \(path))") { try subject.remove(at: url) }
                try subject.expectNames(["a", "e"], in: "d")
                for name in ["d/a", "d/e/b"] { try subject.expectContent("content", name) }
            }
        },
        Check("a name can be used again after its removal, for a file and for a directory") { subject in
            try subject.write("first", "a")
            try subject.remove("a")
            try subject.createDirectory("a")
            try subject.write("below", "a/b")
            try subject.remove("a")
            try subject.createDirectory("a")
            try subject.expectNames([], in: "a")
            try subject.remove("a")
            try subject.write("second", "a")
            try subject.expectContent("second", "a")
        },
        Check("no path below a removed directory leads to what was there, also once the directory is created again") {
            subject in
            try subject.createDirectory("a/b/c", parents: true)
            for name in ["a/b/f", "a/b/c/f"] {
                try subject.write("old", name)
                try subject.expectContent("old", name)
            }
            try subject.expectNames(["c", "f"], in: "a/b")
            try subject.remove("a")
            for name in ["a/b/f", "a/b/c/f", "a/b/new"] {
                try subject.expectNothing(at: name)
                try subject.expectFailure("write(…, to: \(name)), whose directory was removed with a") {
                    try subject.write("new", name)
                }
            }
            try subject.expectFailure("createDirectory(at: a/b/d), below a directory that was removed with a") {
                try subject.createDirectory("a/b/d")
            }
            try subject.createDirectory("a/b", parents: true)
            try subject.expectNames([], in: "a/b")
            for name in ["a/b/f", "a/b/c/f"] { try subject.expectNothing(at: name) }
            try subject.write("new", "a/b/g")
            try subject.expectNames(["g"], in: "a/b")
        },
    ]
}
