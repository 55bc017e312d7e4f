import ForgeFileSystem
import Foundation

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
            for name in ["b", "self", "self/a"] { try subject.expectNothing(at: name) }
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
                }
                for link in links { try subject.remove(link) }
                try subject.expectContent("new", "a")
            }
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
