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
    }

    @Test(
        "a file URL is decoded to its path",
        arguments: [
            ("file:///a/b", "/a/b"), ("file:///a%20b", "/a b"), ("file:///a%2525b", "/a%25b"), ("file:///~/b", "/~/b"),
            ("file:///%C3%A9", "/é"), ("file://localhost/x", "/x"), ("file:///a/", "/a"), ("file:///", "/"),
            ("file:///a%3Fb%23c", "/a?b#c"),
        ])
    func readsURL(text: String, path: String) throws {
        let url = try #require(URL(string: text))
        #expect(try POSIXPath(url) == POSIXPath(path))
    }

    @Test("a URL with escapes that are not UTF-8 is decoded to those bytes")
    func readsBytesOfURL() throws {
        let path = POSIXPath([0x2F, 0x61, 0xFF, 0x01])
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
}
