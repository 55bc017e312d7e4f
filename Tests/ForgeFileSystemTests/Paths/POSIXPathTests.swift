import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

struct POSIXPathTests {
    @Test(
        "a path splits into parent and last component",
        arguments: [
            ("a", "", "a"), ("a/b", "a", "b"), ("/a", "/", "a"), ("/a/b", "/a", "b"), ("/a//b//", "/a", "b"),
            ("a/", "", "a"), ("/", "/", ""), ("//", "//", ""), ("", "", ""), ("//a", "/", "a"), ("./a", ".", "a"),
        ])
    func splits(path: String, parent: String, name: String) {
        let split = POSIXPath(path).splitLast()
        #expect(String(split.parent) == parent)
        #expect(String(split.name) == name)
    }

    @Test("appending puts exactly one slash between the parts")
    func appends() {
        #expect(POSIXPath("a").appending("b") == "a/b")
        #expect(POSIXPath("/").appending("b") == "/b")
        #expect(POSIXPath("").appending("b") == "b")
    }

    @Test("bytes are kept unchanged, even if they are not UTF-8")
    func keepsBytes() {
        let path = POSIXPath([0x61, 0xFF, 0x2F, 0x2F])
        #expect(Array(path.bytes) == [0x61, 0xFF, 0x2F, 0x2F])
        #expect(path.count == 4)
        #expect(String(validating: path) == nil)
        #expect(String(path) == "a\u{FFFD}//")
        #expect(path.description == "a\\xff//")
        #expect(POSIXPath("a\n\u{7}é").description == "a\\x0a\\x07é")
        #expect(!path.isAbsolute)
        #expect(POSIXPath(FilePath("/x/y")) == "/x/y")
    }

    @Test("a NUL is kept and detected")
    func seesNUL() {
        #expect(POSIXPath("a\0b").containsNUL)
        #expect(!POSIXPath("ab").containsNUL)
        // Every place in paths of one and of several words, beside bytes that are almost zero.
        for count in 0...25 {
            let bytes = (0..<count).map { [0x01, 0x80, 0x81, 0xFF][$0 % 4] as UInt8 }
            #expect(!POSIXPath(bytes).containsNUL, "\(count) bytes")
            for place in bytes.indices {
                var changed = bytes
                changed[place] = 0
                #expect(POSIXPath(changed).containsNUL, "byte \(place) of \(count)")
            }
        }
        #expect(POSIXPath("ab").withUnsafeBytes { Array($0) } == [0x61, 0x62])
    }

    @Test("escapes are two hexadecimal digits of any case, and a refused character has none")
    func decodesEscapes() {
        for (text, decoded) in [
            ("", ""), ("a%41b", "aAb"), ("%6a%6A", "jj"), ("%", nil), ("%4", nil), ("%4g", nil), ("%g4", nil),
            ("%:0", nil), ("%@0", nil), ("%G0", nil), ("%`0", nil), ("%/0", nil),
            ("%%41", nil), ("%2F", nil), ("a%2fb", nil), ("a/b", "a/b"), ("%09%3a%5B%60", "\t:[`"),
        ] as [(String, String?)] {
            let found = POSIXPath.decodingPercentEscapes(text, refusing: "/")
            #expect(found == decoded.map { Array($0.utf8) }, "\(text)")
        }
        #expect(POSIXPath.decodingPercentEscapes("%2F") == Array("/".utf8))
    }

    @Test(
        "a file URL is decoded to its path",
        arguments: [
            ("file:///a/b", "/a/b"), ("file:///a%20b", "/a b"), ("file:///a%2525b", "/a%25b"), ("file:///~/b", "/~/b"),
            ("file:///%C3%A9", "/é"), ("file://localhost/x", "/x"), ("file:///a/", "/a"), ("file:///", "/"),
            ("file:///a%3Fb%23c", "/a?b#c"), ("file:///a?b#c", "/a"),
        ])
    func readsURL(text: String, path: String) throws {
        let url = try #require(URL(string: text))
        #expect(try POSIXPath(url) == POSIXPath(path))
    }

    @Test("of a URL with a base keeps the dots, which a link before them gives a meaning")
    func readsURLWithBase() throws {
        let url = try #require(URL(string: "../c", relativeTo: URL(filePath: "/a/link/", directoryHint: .isDirectory)))
        #expect(try POSIXPath(url) == "/a/link/../c")
    }

    @Test("a URL with escapes that are not UTF-8 is decoded to those bytes")
    func readsBytesOfURL() throws {
        let path = POSIXPath([0x2F] + (UInt8(1)...255))
        #expect(try POSIXPath(URL(path)) == path)
        #expect(try POSIXPath(URL(path, isDirectory: true)) == path)
    }

    @Test(
        "a URL that is not a path is refused before any system call",
        arguments: ["http://host/x", "file://elsewhere/x", "file:///a%00b", "file:///a%2Fb"])
    func refusesURL(text: String) throws {
        let url = try #require(URL(string: text))
        let error = #expect(throws: FileSystemError.self) { try POSIXPath(url) }
        #expect(error?.errno == .invalidArgument)
        #expect(error?.operation == .resolve)
    }

    @Test("a tilde and a percent sign in a path are ordinary characters", arguments: ["/~", "/a%41", "/100%", "/%2F"])
    func keepsOddNames(path: String) throws {
        #expect(try POSIXPath(URL(POSIXPath(path))) == POSIXPath(path))
    }

    @Test("a relative path becomes a URL below the working directory, even with a leading tilde")
    func relativeURL() throws {
        let path = try POSIXPath(URL(POSIXPath("~x")))
        #expect(String(path).hasSuffix("/~x"))
        #expect(path.isAbsolute)
    }

    @Test(
        "a relative path is appended to the working directory, and nothing in it is resolved",
        arguments: [
            ("link/../x", "/link/../x"), ("~/x", "/~/x"), ("~root", "/~root"), ("./~", "/~"), (".", ""),
            ("././x", "/x"),
            ("../x", "/../x"), ("a//b", "/a//b"), (".x", "/.x"), ("x/.", "/x/."), ("\u{FEFF}x", "/\u{FEFF}x"),
        ])
    func relativePaths(text: String, below: String) throws {
        let directory = POSIXPath(FileManager.default.currentDirectoryPath)
        let expected = POSIXPath(directory.bytes + below.utf8)
        #expect(try POSIXPath(URL(POSIXPath(text))) == expected)
        #expect(try POSIXPath(URL(POSIXPath(text), isDirectory: true)) == expected)
    }

    @Test(
        "`..` in a relative URL is kept, as the component before it may be a link",
        arguments: [
            ("link/../x", "/link/../x"), ("./link/../x", "/link/../x"), (".", ""), ("x%y", "/x%y"), ("../x", "/../x"),
        ])
    func relativeURLs(text: String, below: String) throws {
        let directory = POSIXPath(FileManager.default.currentDirectoryPath)
        #expect(try POSIXPath(URL(fileURLWithPath: text)) == POSIXPath(directory.bytes + below.utf8))
        let base = URL(fileURLWithPath: text, relativeTo: URL(fileURLWithPath: "/base/", isDirectory: true))
        #expect(try POSIXPath(base) == POSIXPath("/base" + below))
    }

    @Test("a path of any ASCII characters has the URL that Foundation makes of an absolute path")
    func likeFoundation() {
        for byte in UInt8(0x20)...0x7E where byte != UInt8(ascii: ";") {
            let path = POSIXPath([UInt8(ascii: "/"), UInt8(ascii: "a"), byte])
            #expect(URL(path) == URL(filePath: String(path), directoryHint: .notDirectory) || byte == 0x2F, "\(path)")
        }
    }
}
