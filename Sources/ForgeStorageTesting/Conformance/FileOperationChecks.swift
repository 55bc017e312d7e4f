import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    /// The promises of the six operations of `FileSystemProtocol`. Each check needs a new, empty directory.
    public static let fileOperations: [ConformanceCheck<FileOperationsUnderTest>] =
        fileOperationsOfContent + fileOperationsOfDirectories + fileOperationsOfRemoval + fileOperationsOfNames
        + fileOperationsInParallel

    private typealias Check = ConformanceCheck<FileOperationsUnderTest>

    // MARK: Content

    private static let fileOperationsOfContent: [Check] = [
        Check("a written file has its content at every reading") { subject in
            try subject.write("content", "a")
            try subject.expectContent("content", "a")
            try subject.expectContent("content", "a")
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
            for size in [1, 255, 256, 257, 4_095, 4_096, 4_097, 65_537, 1_048_577] {
                let content = Data.patterned(count: size)
                try subject.fileSystem.write(content, to: subject.url("a"))
                let read = try subject.fileSystem.read(from: subject.url("a"))
                try expect(
                    read == content, "read(from: a): expected the \(size) written bytes, got \(read.count) bytes")
            }
        },
        Check("a slice of data is written as the slice") { subject in
            try subject.fileSystem.write(Data("0123456789".utf8).dropFirst(3).prefix(4), to: subject.url("a"))
            try subject.expectContent("3456", "a")
        },
        Check("writing replaces the whole content, by a longer and by a shorter one") { subject in
            for content in ["second", "the third content", "4"] {
                try subject.write(content, "a")
                try subject.expectContent(content, "a")
            }
        },
        Check("writing a file changes no other and leaves no other entry") { subject in
            try subject.createDirectory("d")
            for name in ["a", "a2", "a.b", "b", ".a", "d/a"] { try subject.write("of " + name, name) }
            try subject.write("new", "a")
            for name in ["a2", "a.b", "b", ".a", "d/a"] { try subject.expectContent("of " + name, name) }
            try subject.expectNames(["a", "a2", "a.b", "b", ".a", "d"])
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
            try subject.expectNames([], in: "empty")
            try subject.expectContent("content", "full/a")
        },
        Check("nothing is written below a file, which is kept") { subject in
            try subject.write("content", "a")
            try subject.expectFailure("write(…, to: a/b)") { try subject.write("below", "a/b") }
            try subject.expectContent("content", "a")
        },
        Check("a missing file, a directory and a path below a file cannot be read") { subject in
            try subject.createDirectory("d")
            try subject.write("content", "a")
            for name in ["missing", "missing/a", "d", "a/b"] {
                try subject.expectFailure("read(from: \(name))") { try subject.content(name) }
            }
        },
        Check("a write that fails on a full device keeps the old content and leaves no file", needs: [.limitedSpace]) {
            subject in
            guard let fillDevice = subject.fillDevice else { throw ConformanceViolation("fillDevice is nil") }
            try subject.write("old", "a")
            try fillDevice()
            for name in ["a", "b"] {
                try subject.expectFailure("write(a mebibyte, to: \(name)) on a full device") {
                    try subject.fileSystem.write(Data(count: 1 << 20), to: subject.url(name))
                }
            }
            try subject.expectContent("old", "a")
            try subject.expectNames(["a"])
        },
    ]

    // MARK: Directories

    private static let fileOperationsOfDirectories: [Check] = [
        Check("fileExists is true for files and directories alone, and false where the lookup fails") { subject in
            try subject.createDirectory("d")
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for name in ["", "/a", "/d", "/d/b"] { try subject.expectExists(true, name) }
            let missing = [
                "/b", "/A2", "/a2", "/d/a", "/missing/a", "/a/b", "/d/b/c", "/" + String(repeating: "n", count: 256),
            ]
            for name in missing { try subject.expectExists(false, name) }
            for path in ["", "\0", try subject.path("/a\0")] {
                let exists = subject.fileSystem.fileExists(atPath: path)
                try expectEqual(exists, false, "fileExists(atPath: \(path.debugDescription))")
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
            try subject.createDirectory("d e")
            for name in ["a", "a%b", "c d"] { try subject.write("of " + name, "d e/" + name) }
            for url in try subject.fileSystem.contentsOfDirectory(at: subject.url("d e", isDirectory: true)) {
                let name = try subject.name(of: url)
                let content = String(decoding: try subject.fileSystem.read(from: url), as: UTF8.self)
                try expectEqual(content, "of " + name, "read(from: \(url)), a listed URL")
            }
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
            try subject.expectFailure("read(from: a) after removeItem(at: a)") { try subject.content("a") }
            try subject.expectNames(["a2", "a.b", ".a", "b", "d"])
            for name in others { try subject.expectContent("of " + name, name) }
        },
        Check("a removed directory is gone with its tree, and every other is kept") { subject in
            for name in ["d/e/f", "d/.g", "d2/e", "x/d"] { try subject.createDirectory(name, parents: true) }
            let inside = ["d/a", "d/.a", "d/e/b", "d/e/f/c"]
            let others = ["d2/a", "d2/e/b", "x/d/a", "d.b"]
            for name in inside + others { try subject.write("of " + name, name) }
            try subject.remove("d")
            try subject.expectFailure("contentsOfDirectory(at: d) after removeItem(at: d)") {
                try subject.names(in: "d")
            }
            for name in inside {
                try subject.expectFailure("read(from: \(name)) after removeItem(at: d)") { try subject.content(name) }
            }
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
        Check("fileExists follows a link, and a link to nothing does not exist", needs: [.symbolicLinks]) { subject in
            try subject.write("content", "a")
            try subject.createDirectory("d")
            for (link, target) in [("to a", "a"), ("to d", "d"), ("to nothing", "missing")] {
                try subject.link(link, to: target)
            }
            for (name, exists) in [("/to a", true), ("/to d", true), ("/to nothing", false)] {
                try subject.expectExists(exists, name)
            }
        },
        Check("links that form a cycle lead to nothing, and can be removed", needs: [.symbolicLinks]) { subject in
            for (link, target) in [("b", "c"), ("c", "b"), ("self", "self")] { try subject.link(link, to: target) }
            for name in ["b", "self", "self/a"] {
                try subject.expectExists(false, "/" + name)
                try subject.expectFailure("read(from: \(name)) through a cycle of links") { try subject.content(name) }
                try subject.expectFailure("contentsOfDirectory(at: \(name)) through a cycle of links") {
                    try subject.names(in: name)
                }
            }
            for name in ["b", "c", "self"] { try subject.remove(name) }
            try subject.expectNames([])
        },
        Check("two dots after a link lead to the parent of its target", needs: [.symbolicLinks]) { subject in
            try subject.createDirectory("d/e", parents: true)
            try subject.link("to e", to: "d/e")
            for name in ["a", "d/a"] { try subject.write("of " + name, name) }
            guard let url = subject.url(escaped: "to%20e/../a") else { throw ConformanceViolation("no URL") }
            let content = String(decoding: try subject.fileSystem.read(from: url), as: UTF8.self)
            try expectEqual(content, "of d/a", "read(from: \(url)), where \"to e\" is a link to d/e")
            try subject.fileSystem.write(Data("new content".utf8), to: url)
            try subject.expectContent("of a", "a")
            try subject.expectContent("new content", "d/a")
            try subject.fileSystem.removeItem(at: url)
            try subject.expectNames(["a", "d", "to e"])
            try subject.expectExists(false, "/to e/../a")
        },
        Check("a write through a link replaces the target's content and keeps the link", needs: [.symbolicLinks]) {
            subject in
            try subject.createDirectory("d")
            try subject.write("old", "d/a")
            try subject.link("to a", to: "d/a")
            try subject.write("through the link", "to a")
            try subject.expectContent("through the link", "d/a")
            try subject.write("without the link", "d/a")
            try subject.expectContent("without the link", "to a")
            try subject.expectNames(["a"], in: "d")
            try subject.expectNames(["d", "to a"])
        },
        Check("a removed link is gone, and its target is kept", needs: [.symbolicLinks]) { subject in
            try subject.createDirectory("d")
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for (link, target) in [("to a", "a"), ("to d", "d"), ("to nothing", "missing")] {
                try subject.link(link, to: target)
                try subject.remove(link)
            }
            try subject.expectNames(["a", "d"])
            for name in ["a", "d/b"] { try subject.expectContent("content", name) }
        },
        Check("a tree is removed without what links in it lead to", needs: [.symbolicLinks]) { subject in
            for name in ["d", "tree"] { try subject.createDirectory(name) }
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for (link, target) in [("tree/to a", "a"), ("tree/to d", "d")] { try subject.link(link, to: target) }
            try subject.remove("tree")
            try subject.expectNames(["a", "d"])
            for name in ["a", "d/b"] { try subject.expectContent("content", name) }
        },
    ]

    // MARK: Names

    private static let fileOperationsOfNames: [Check] = [
        Check("a name is used byte for byte, and a percent escape is decoded once") { subject in
            let names = [
                "~", "%41", "%2541", "A", "a b", "a?b", "a#b", "a;b", "a:b", "a\\b", "a\nb", "*", "\u{E9}", "\u{1F600}",
                "con", "-rf", "$HOME", String(repeating: "n", count: 255),
            ]
            for name in names { try subject.write("of " + name, name) }
            for name in names { try subject.expectContent("of " + name, name) }
            try subject.expectNames(names)
            for name in names { try subject.remove(name) }
            try subject.expectNames([])
        },
        Check("canonically equivalent names, and names of another case, are different files", needs: [.bytewiseNames]) {
            subject in
            let names = ["\u{E9}", "e\u{301}", "\u{C5}", "A\u{30A}", "\u{212B}", "n", "N"]
            for name in names { try subject.write("of " + name.escaped, name) }
            for name in names { try subject.expectContent("of " + name.escaped, name) }
            try subject.expectNames(names)
            try subject.remove("\u{E9}")
            try subject.expectContent("of " + "e\u{301}".escaped, "e\u{301}")
        },
        Check("the listed URL of a name that is not UTF-8 leads to the file", needs: [.namesOfAnyBytes]) { subject in
            guard let url = subject.url(escaped: "a%FFb") else { throw ConformanceViolation("no URL of a%FFb") }
            try subject.fileSystem.write(Data("content".utf8), to: url)
            let listed = try subject.fileSystem.contentsOfDirectory(at: subject.directory)
            try expectEqual(
                try listed.map { try POSIXPath($0).bytes.split(separator: UInt8(ascii: "/")).last.map { [UInt8]($0) } },
                [[0x61, 0xFF, 0x62]], "the bytes of the names of contentsOfDirectory(at: \(subject.directory))")
            for url in listed {
                let content = String(decoding: try subject.fileSystem.read(from: url), as: UTF8.self)
                try expectEqual(content, "content", "read(from: \(url)), a listed URL")
                try subject.fileSystem.removeItem(at: url)
            }
            try subject.expectNames([])
        },
        Check("a URL with a base leads where its absolute path does") { subject in
            try subject.createDirectory("d")
            let base = subject.url("d", isDirectory: true)
            for (relative, name) in [("a%20b", "d/a b"), ("../c", "c")] {
                guard let url = URL(string: relative, relativeTo: base) else { continue }
                try subject.fileSystem.write(Data("of \(name)".utf8), to: url)
                try subject.expectContent("of \(name)", name)
                let content = String(decoding: try subject.fileSystem.read(from: url), as: UTF8.self)
                try expectEqual(content, "of \(name)", "read(from: \(url))")
                try subject.fileSystem.removeItem(at: url)
                try subject.fileSystem.createDirectory(at: url, withIntermediateDirectories: false)
                try subject.write("below", name + "/b")
                guard let url = URL(string: relative + "/", relativeTo: base) else { continue }
                try subject.expectNames(["b"], at: url)
            }
            try subject.expectNames(["c", "d"])
        },
        Check("a URL that is not a path is refused by every call") { subject in
            try subject.createDirectory("d")
            for name in ["a", "d/a"] { try subject.write("content", name) }
            for (call, body) in subject.refusedCalls() { try subject.expectFailure(call, body) }
            try subject.expectNames(["a", "d"])
            for name in ["a", "d/a"] { try subject.expectContent("content", name) }
        },
        Check("a URL that is not a path is refused with EINVAL") { subject in
            for (call, body) in subject.refusedCalls() {
                let error = try subject.expectFailure(call, body)
                try expect(
                    (error as? FileSystemError)?.errno == .invalidArgument,
                    "\(call): expected a FileSystemError with EINVAL, got \(error)")
            }
        },
        Check("a directory is the same with and without a final slash") { subject in
            for (index, hints) in [(0, (true, false)), (1, (false, true))] {
                let created = subject.url("d\(index)", isDirectory: hints.0)
                let used = subject.url("d\(index)", isDirectory: hints.1)
                try subject.fileSystem.createDirectory(at: created, withIntermediateDirectories: false)
                try subject.write("content", "d\(index)/a")
                try subject.expectNames(["a"], at: used)
                try subject.fileSystem.createDirectory(at: used, withIntermediateDirectories: true)
                try subject.fileSystem.removeItem(at: used)
            }
            try subject.expectNames([])
        },
    ]

    // MARK: Concurrent calls

    private static let fileOperationsInParallel: [Check] = [
        Check("concurrent writers of different files do not interfere") { subject in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    group.addTask {
                        try subject.createDirectory("d\(writer)")
                        for number in 0..<25 { try subject.write("\(writer).\(number)", "d\(writer)/\(number)") }
                    }
                }
                try await group.waitForAll()
            }
            for writer in 0..<4 {
                for number in 0..<25 { try subject.expectContent("\(writer).\(number)", "d\(writer)/\(number)") }
            }
        },
        Check("concurrent writers of different files in one directory lose none") { subject in
            try subject.createDirectory("shared")
            let names = (0..<4).map { writer in (0..<25).map { "\(writer).\($0)" } }
            try subject.atOnce(4, "write(…, to: different files of one directory)") { writer in
                for name in names[writer] { try subject.write("of " + name, "shared/" + name) }
            }
            for name in names.joined() { try subject.expectContent("of " + name, "shared/" + name) }
            try subject.expectNames(names.flatMap(\.self), in: "shared")
        },
        Check("a directory that several threads create at once with its parents is a success for each") { subject in
            for round in 0..<4 {
                let name = "shared\(round)/d/e"
                try subject.atOnce(4, "createDirectory(at: \(name), withIntermediateDirectories: true)") { thread in
                    try subject.createDirectory(name, parents: true)
                    try subject.write("\(thread)", "\(name)/\(thread)")
                }
                for thread in 0..<4 { try subject.expectContent("\(thread)", "\(name)/\(thread)") }
            }
        },
        Check(
            "a file that is read while it is replaced has the old content or the new", needs: [.atomicReplacement]
        ) { subject in
            let contents = ["a", "b"].map { String(repeating: $0, count: 30_000) }
            try subject.write(contents[0], "a")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<2 {
                    group.addTask { for _ in 0..<40 { try subject.write(contents[writer], "a") } }
                    group.addTask {
                        for _ in 0..<80 {
                            let content = try subject.content("a")
                            try expect(
                                contents.contains(content),
                                "read(from: a): got a mixture of \(content.utf8.count) bytes")
                        }
                    }
                }
                try await group.waitForAll()
            }
            // A mixture that stays is found whatever the order of the tasks was.
            for content in contents {
                try subject.write(content, "a")
                try expectEqual(
                    subject.content("a").utf8.elementsEqual(content.utf8), true, "read(from: a) is the last content")
            }
        },
    ]
}
