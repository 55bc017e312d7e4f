import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    private typealias Check = ConformanceCheck<FileOperationsUnderTest>

    /// The promises of names, paths and URLs.
    static let fileOperationsOfNames: [ConformanceCheck<FileOperationsUnderTest>] = [
        Check("a name is used byte for byte, and a percent escape is decoded once") { subject in
            let names = [
                "~", "%41", "%2541", "A", "a b", "a?b", "a#b", "a;b", "a:b", "a\\b", "a\nb", "*", "\u{E9}", "\u{1F600}",
                "con", "-rf", "$HOME", String(repeating: "n", count: 255), "a+b", "%2B", " a", "a ", "a  b", "a.",
                "a..",
            ]
            for name in names { try subject.write("of " + name, name) }
            for name in names { try subject.expectContent("of " + name, name) }
            try subject.expectNames(names)
            for name in names {
                try subject.expectExists(true, "/" + name)
                try subject.remove(name)
                try subject.expectExists(false, "/" + name)
            }
            try subject.expectNames([])
            for name in names {
                try subject.createDirectory(name)
                try subject.write("of " + name, name + "/a")
            }
            for name in names {
                try subject.expectContent("of " + name, name + "/a")
                try subject.expectNames(["a"], in: name)
                try subject.remove(name)
            }
            try subject.expectNames([])
        },
        Check("two dots after a missing name or a file lead nowhere") { subject in
            try subject.write("content", "a")
            try subject.createDirectory("d")
            for start in ["missing/..", "a/.."] {
                try subject.expectExists(false, "/\(start)/a")
                let (file, directory) = (try subject.spelledURL(start + "/a"), try subject.spelledURL(start + "/d/"))
                try subject.expectFailure("read(from: \(file))") { try subject.content(at: file) }
                try subject.expectFailure("write(…, to: \(file))") { try subject.write(Data(), to: file) }
                try subject.expectFailure("removeItem(at: \(file))") { try subject.remove(at: file) }
                try subject.expectFailure("contentsOfDirectory(at: \(directory))") {
                    try subject.entries(at: directory)
                }
                try subject.expectFailure(
                    "createDirectory(at: \(directory)e, withIntermediateDirectories: false)"
                ) {
                    try subject.createDirectory(at: subject.spelledURL(start + "/d/e"), parents: false)
                }
            }
            try subject.expectContent("content", "a")
            try subject.expectNames(["a", "d"])
            try subject.expectNames([], in: "d")
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
            let url = try subject.spelledURL("a%FFb")
            try subject.write(Data("content".utf8), to: url)
            let listed = try subject.entries(at: subject.directory)
            try expectEqual(
                try listed.map { try POSIXPath($0).splitLast().name.description.lowercased() }, ["a\\xffb"],
                "the names of contentsOfDirectory(at: \(subject.directory))")
            for url in listed {
                try subject.expectContent("content", at: url)
                try subject.remove(at: url)
            }
            try subject.expectNames([])
        },
        Check("a URL with a base leads where its absolute path does") { subject in
            try subject.createDirectory("d")
            let base = subject.url("d", isDirectory: true)
            for (relative, name) in [("a%20b", "d/a b"), ("../c", "c")] {
                guard let url = URL(string: relative, relativeTo: base) else { continue }
                try subject.write(Data("of \(name)".utf8), to: url)
                try subject.expectContent("of \(name)", name)
                try subject.expectContent("of \(name)", at: url)
                try subject.remove(at: url)
                try subject.createDirectory(at: url, parents: false)
                try subject.write("below", name + "/b")
                guard let url = URL(string: relative + "/", relativeTo: base) else { continue }
                try subject.expectNames(["b"], at: url)
                for listed in try subject.entries(at: url) { try subject.expectContent("below", at: listed) }
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
                try subject.createDirectory(at: created, parents: false)
                try subject.write("content", "d\(index)/a")
                try subject.expectNames(["a"], at: used)
                try subject.createDirectory(at: used, parents: true)
                try subject.remove(at: used)
            }
            try subject.expectNames([])
        },
    ]
}
