import ForgeFileSystem
import Foundation
import SystemPackage

extension ConformanceChecks {
    private typealias Check = ConformanceCheck<FileOperationsUnderTest>

    /// The numbers of links, each to the next one, that lead to a file or a directory.
    private static let linkCounts = [1, 2, 9]

    /// The promises of symbolic links: every call but `removeItem` follows them.
    static let fileOperationsOfLinks: [ConformanceCheck<FileOperationsUnderTest>] =
        links.map { $0.needing(.symbolicLinks) }

    private static let links: [Check] = [
        Check("fileExists follows a link, and a link to nothing does not exist") { subject in
            try subject.write("content", "a")
            try subject.createDirectory("d")
            for count in linkCounts {
                for (target, exists) in [("a", true), ("d", true), ("missing", false)] {
                    let links = try subject.links("\(count) to \(target) ", count, to: target)
                    for link in links { try subject.expectExists(exists, "/" + link) }
                }
            }
        },
        Check("a link to nothing cannot be read or listed, and is removed like any other") { subject in
            for count in linkCounts {
                let links = try subject.links("link", count, to: "missing")
                for link in links {
                    try subject.expectNothing(at: link)
                    try subject.expectNothing(at: link + "/a")
                }
                for link in links.reversed() { try subject.remove(link) }
                try subject.expectNames([])
            }
        },
        Check("links that form a cycle lead to nothing, and can be removed") { subject in
            for (link, target) in [("b", "c"), ("c", "b"), ("self", "self")] { try subject.link(link, to: target) }
            for name in ["b", "self", "self/a"] {
                try subject.expectNothing(at: name)
                try subject.expectFailure("write(…, to: \(name)), a cycle of links") {
                    try subject.write("content", name)
                }
                for parents in [false, true] {
                    try subject.expectFailure(
                        "createDirectory(at: \(name), withIntermediateDirectories: \(parents)), a cycle of links"
                    ) {
                        try subject.createDirectory(name, parents: parents)
                    }
                }
                try subject.expectNothing(at: name)
            }
            try subject.expectNames(["b", "c", "self"])
            for name in ["b", "c", "self"] { try subject.remove(name) }
            try subject.expectNames([])
        },
        Check("two dots after a link lead to the parent of its target") { subject in
            try subject.createDirectory("d/e", parents: true)
            try subject.link("to e", to: "d/e")
            for name in ["a", "d/a"] { try subject.write("of " + name, name) }
            let url = try subject.spelledURL("to%20e/../a")
            try subject.expectContent("of d/a", at: url)
            try subject.write(Data("new content".utf8), to: url)
            try subject.expectContent("of a", "a")
            try subject.expectContent("new content", "d/a")
            try subject.remove(at: url)
            try subject.expectNames(["a", "d", "to e"])
            try subject.expectExists(false, "/to e/../a")
            try subject.expectExists(true, "/to e/../e")
            try subject.expectExists(false, "/to e/../d")
            try subject.expectNames(["e"], at: subject.spelledURL("to%20e/.."))
            for (name, parents) in [("f", false), ("g", true)] {
                try subject.createDirectory(at: subject.spelledURL("to%20e/../" + name), parents: parents)
            }
            try subject.expectNames(["e", "f", "g"], in: "d")
            try subject.expectNames(["a", "d", "to e"])
        },
        Check("a write through a link replaces the target's content and keeps the link") { subject in
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
        Check("a file is read and replaced through every link of a chain, which is kept") { subject in
            for count in linkCounts {
                try subject.write("old", "a")
                let links = try subject.links("link", count, to: "a")
                for link in links {
                    try subject.write("through " + link, link)
                    for name in ["a"] + links { try subject.expectContent("through " + link, name) }
                    // Each link is still one: it leads to the new content.
                    try subject.write("new", "a")
                    for name in ["a"] + links { try subject.expectContent("new", name) }
                    try subject.expectNames(["a"] + links)
                }
                for link in links { try subject.remove(link) }
                try subject.expectContent("new", "a")
            }
        },
        Check("a link to a file is not taken for a directory, and is kept") { subject in
            try subject.write("content", "a")
            for count in linkCounts {
                for link in try subject.links("\(count) to a ", count, to: "a") {
                    try subject.expectFailure("contentsOfDirectory(at: \(link)), a link to a file") {
                        try subject.names(in: link)
                    }
                    for (name, parents) in [(link, false), (link, true), (link + "/d", true)] {
                        try subject.expectFailure(
                            "createDirectory(at: \(name), withIntermediateDirectories: \(parents)), a link to a file"
                        ) {
                            try subject.createDirectory(name, parents: parents)
                        }
                    }
                    try subject.expectContent("content", link)
                }
            }
        },
        Check("a link to nothing is not taken for a directory") { subject in
            for count in linkCounts {
                for link in try subject.links("\(count) to nothing ", count, to: "missing") {
                    for parents in [false, true] {
                        // The link may be refused, or its target created.
                        do { try subject.createDirectory(link, parents: parents) } catch { continue }
                        try subject.expectNames([], in: link)
                        try subject.remove("missing")
                    }
                }
            }
        },
        Check("a relative link is followed from its own directory, however that is reached") { subject in
            try subject.createDirectory("d/e", parents: true)
            // One is the target, the others would be it if the link were followed from elsewhere.
            for name in ["b", "d/b", "d/e/b"] { try subject.write("of " + name, name) }
            try subject.link("to e", to: "d/e")
            for (link, target) in [("near", "b"), ("near h", "h"), ("near e", "e")] {
                try subject.relativeLink("d/" + link, to: target)
            }
            for (link, target) in [
                ("up", "../b"), ("beside", "b"), ("twice", "up"), ("far", "../near"), ("to h", "../h"),
                ("far h", "../near h"),
            ] {
                try subject.relativeLink("d/e/" + link, to: target)
            }
            // A link of a chain begins in its own directory, not in that of the first one.
            for (link, target) in [("to near", "d/near"), ("to near e", "d/near e")] {
                try subject.relativeLink(link, to: target)
            }
            for place in ["d/e/", "to e/", "to near e/"] {
                for (link, target) in [("up", "d/b"), ("beside", "d/e/b"), ("twice", "d/b"), ("far", "d/b")] {
                    try subject.expectContent("of " + target, place + link)
                    try subject.write("by " + place + link, place + link)
                    try subject.expectContent("by " + place + link, target)
                    try subject.write("of " + target, target)
                    try subject.expectExists(true, "/" + place + link)
                }
                for link in ["to h", "far h"] {
                    try subject.expectNothing(at: place + link)
                    try subject.createDirectory("d/h")
                    try subject.createDirectory(place + link + "/g")
                    try subject.expectNames(["g"], in: "d/h")
                    try subject.expectNames(["g"], in: place + link)
                    try subject.remove("d/h")
                }
            }
            try subject.write("through to near", "to near")
            try subject.expectContent("through to near", "d/b")
            try subject.expectContent("through to near", "to near")
            try subject.write("of d/b", "d/b")
            try subject.remove("to e/up")
            try subject.expectNames(["b", "beside", "twice", "far", "to h", "far h"], in: "d/e")
            for name in ["b", "d/b", "d/e/b"] { try subject.expectContent("of " + name, name) }
            try subject.expectNames(["b", "e", "near", "near h", "near e"], in: "d")
            try subject.expectNames(["b", "d", "to e", "to near", "to near e"])
        },
        Check("a path may lead several times through one link") { subject in
            try subject.createDirectory("d")
            try subject.link("into", to: "d")
            try subject.link("d/out", to: "")
            for place in ["", "d/"] { try subject.relativeLink(place + "here", to: ".") }
            try subject.link("through", to: "here/here/d/here/here")
            for place in [
                "here/here/d/", "d/here/here/", "d/here/here/here/", "into/out/into/", "into/here/out/here/into/",
                "through/here/",
            ] {
                try subject.write("through " + place, place + "a")
                for name in ["d/a", place + "a"] { try subject.expectContent("through " + place, name) }
                try subject.expectExists(true, "/\(place)a")
                try subject.expectNames(["a", "here", "out"], in: place)
                try subject.createDirectory(place + "e")
                try subject.createDirectory(place + "e/g/h", parents: true)
                try subject.expectNames(["h"], in: place + "e/g")
                for name in ["e/g", "e", "a"] { try subject.remove(place + name) }
                try subject.expectNames(["here", "out"], in: "d")
            }
            try subject.write("content", "d/a")
            try subject.expectContent("content", at: subject.spelledURL("into/../into/here/../d/a"))
        },
        Check("a path may lead through 32 links") { subject in
            try subject.createDirectory("d")
            try subject.write("content", "d/a")
            guard let file = try subject.links("to a ", 32, to: "d/a").last,
                let directory = try subject.links("to d ", 32, to: "d").last
            else { return }
            for name in [file, directory + "/a"] {
                try subject.expectExists(true, "/" + name)
                try subject.write("through " + name, name)
                for read in [name, "d/a"] { try subject.expectContent("through " + name, read) }
            }
            try subject.expectNames(["a"], in: directory)
            try subject.createDirectory(directory + "/e")
            try subject.createDirectory(directory + "/e/g/h", parents: true)
            try subject.expectNames(["h"], in: "d/e/g")
            try subject.remove(directory + "/e")
            try subject.expectNames(["a"], in: "d")
        },
        Check("a directory is listed and changed through every link of a chain, and is not replaced") { subject in
            try subject.createDirectory("empty")
            try subject.createDirectory("full")
            try subject.write("content", "full/b")
            for (target, names) in [("empty", []), ("full", ["b"])] {
                for count in linkCounts {
                    let links = try subject.links("link", count, to: target)
                    for link in links {
                        for isDirectory in [false, true] {
                            try subject.expectNames(names, at: subject.url(link, isDirectory: isDirectory))
                        }
                        try subject.expectExists(true, "/\(link)/")
                        try subject.expectFailure("read(from: \(link)), a link to a directory") {
                            try subject.content(link)
                        }
                        try subject.expectFailure("write(…, to: \(link)), a link to a directory") {
                            try subject.write("content", link)
                        }
                        try subject.expectFailure(
                            "createDirectory(at: \(link), withIntermediateDirectories: false), a link to a directory"
                        ) {
                            try subject.createDirectory(link)
                        }
                        try subject.createDirectory(link + "/new/d", parents: true)
                        try subject.write("of " + link, link + "/new/a")
                        try subject.expectContent("of " + link, target + "/new/a")
                        try subject.expectContent("of " + link, link + "/new/a")
                        try subject.remove(link + "/new")
                        try subject.expectNames(names, in: target)
                    }
                    try subject.expectNames(["empty", "full"] + links)
                    for link in links { try subject.remove(link) }
                }
            }
            try subject.expectContent("content", "full/b")
        },
        Check("what changes through a link is seen at its target's path, and the other way round") { subject in
            try subject.createDirectory("d")
            try subject.link("to d", to: "d")
            for (changed, read) in [("d", "to d"), ("to d", "d")] {
                // Each reading call may keep its result for the next one at this path.
                try subject.expectNothing(at: read + "/a")
                for content in ["first", "the second"] {
                    try subject.write(content, changed + "/a")
                    try subject.expectExists(true, "/\(read)/a")
                    try subject.expectContent(content, read + "/a")
                    try subject.expectNames(["a"], in: read)
                }
                try subject.createDirectory(changed + "/e")
                try subject.expectNames([], in: read + "/e")
                try subject.expectNames(["a", "e"], in: read)
                for name in ["a", "e"] {
                    try subject.remove("\(changed)/\(name)")
                    try subject.expectNothing(at: "\(read)/\(name)")
                }
                try subject.expectNames([], in: read)
            }
        },
        Check("a removed link is gone, and its target is kept") { subject in
            for name in ["d", "empty"] { try subject.createDirectory(name) }
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for count in linkCounts {
                for target in ["a", "d", "empty", "missing"] {
                    // The final slash of a URL does not follow the link.
                    for isDirectory in target == "d" || target == "empty" ? [false, true] : [false] {
                        let links = try subject.links("link", count, to: target)
                        for link in links.reversed() {
                            try subject.remove(at: subject.url(link, isDirectory: isDirectory))
                        }
                        try subject.expectNames(["a", "d", "empty"])
                        for name in ["a", "d/b"] { try subject.expectContent("content", name) }
                    }
                }
            }
        },
        Check("a tree is removed without what links in it lead to") { subject in
            for name in ["d", "tree/e"] { try subject.createDirectory(name, parents: true) }
            for name in ["a", "d/b"] { try subject.write("content", name) }
            for place in ["tree", "tree/e"] {
                for target in ["a", "d", "missing"] { try subject.link("\(place)/to \(target)", to: target) }
                try subject.link(place + "/to itself", to: place + "/to itself")
            }
            try subject.remove("tree")
            try subject.expectNames(["a", "d"])
            for name in ["a", "d/b"] { try subject.expectContent("content", name) }
        },
    ]
}

extension ConformanceChecks {
    /// The promises of names, paths and URLs.
    static let fileOperationsOfNames: [ConformanceCheck<FileOperationsUnderTest>] = [
        Check("a name is used byte for byte, and a percent escape is decoded once") { subject in
            let names = [
                "~", "%41", "%2541", "A", "a b", "a?b", "a#b", "a;b", "a:b", "a\\b", "a\nb", "*", "\u{E9}", "\u{1F600}",
                "con", "-rf", "$HOME", String(repeating: "n", count: 255), "a+b", "%2B", " a", "a ", "a  b", "a.",
                "a..", "a_b", "a-b", "a%3Ab", "ab",
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
        Check("a name of 255 bytes is replaced, listed and removed like any other") { subject in
            // Whatever an implementation adds to such a name makes it too long.
            for name in [String(repeating: "n", count: 255), String(repeating: "\u{1F600}", count: 63) + "nnn"] {
                for place in ["", name + "/"] {
                    if !place.isEmpty { try subject.createDirectory(name) }
                    for content in ["first", "second", "the third"] {
                        try subject.write(content, place + name)
                        try subject.expectContent(content, place + name)
                        try subject.expectNames([name], in: place)
                    }
                    try subject.remove(place + name)
                    try subject.expectNames([], in: place)
                }
                for _ in 0..<2 { try subject.createDirectory("\(name)/\(name)", parents: true) }
                try subject.expectNames([name], in: name)
                try subject.remove(name)
                try subject.expectNames([])
            }
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
                for text in [relative, relative + "/"] {
                    guard let url = URL(string: text, relativeTo: base) else { continue }
                    try subject.expectNames(["b"], at: url)
                    for listed in try subject.entries(at: url) { try subject.expectContent("below", at: listed) }
                }
            }
            try subject.expectNames(["c", "d"])
        },
        Check("a URL of the host localhost leads where its path does") { subject in
            guard let file = subject.url(escaped: "a%20b", prefix: "file://localhost"),
                let directory = subject.url(escaped: "d/", prefix: "file://localhost")
            else { return }
            try subject.createDirectory(at: directory, parents: false)
            try subject.expectNames([], at: directory)
            try subject.write(Data("content".utf8), to: file)
            try subject.expectContent("content", "a b")
            try subject.expectContent("content", at: file)
            try subject.remove(at: file)
            try subject.expectNames(["d"])
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
        Check("a file is the same with and without a final slash in its URL") { subject in
            let url = subject.url("a", isDirectory: true)
            try subject.write(Data("first".utf8), to: url)
            try subject.expectContent("first", "a")
            try subject.write("second", "a")
            try subject.expectContent("second", at: url)
            try subject.expectFailure("contentsOfDirectory(at: a/), a file") { try subject.entries(at: url) }
            try subject.remove(at: url)
            try subject.expectNames([])
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
