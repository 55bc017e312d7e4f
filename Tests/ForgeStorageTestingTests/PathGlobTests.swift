import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("Patterns for paths")
struct PathGlobTests {
    @Test(
        "a pattern matches whole paths",
        arguments: [
            ("/a/b.log", "/a/b.log", true), ("/a/b.log", "/a/b.logs", false), ("/a/b.log", "a/b.log", false),
            ("*.log", "b.log", true), ("*.log", ".log", true), ("*.log", "a/b.log", false),
            ("**/*.log", "b.log", true), ("**/*.log", "/b.log", true), ("**/*.log", "/a/b/c.log", true),
            ("**/*.log", "/a/b.log/c", false), ("**/b", "/ab", false), ("**/b", "/a/b", true), ("**/b", "b", true),
            ("/a/**", "/a/b/c", true), ("/a/**", "/a/", true), ("/a/**", "/a", false), ("/a/**", "/ab/c", false),
            ("/a/**/z", "/a/z", true), ("/a/**/z", "/a/b/c/z", true), ("/a/**/z", "/a/bz", false),
            ("a**z", "abc/xyz", true), ("a**/z", "ab/c/z", true), ("**", "", true), ("**", "/x/y", true),
            ("?", "é", true), ("?", "ab", false), ("a?c", "a/c", false), ("a?c", "aéc", true), ("?", "", false),
            ("*", "", true), ("", "", true), ("", "a", false), ("**/**/x", "/q/x", true),
            ("*a*b*c", "xxaxxbxxc", true), ("*a*b*c", "xxaxxcxxb", false),
        ] as [(PathGlob, POSIXPath, Bool)])
    func matches(_ glob: PathGlob, _ path: POSIXPath, _ expected: Bool) {
        #expect(glob.matches(path) == expected)
    }

    @Test("a pattern with exponential backtracking elsewhere is matched quickly")
    func staysLinear() {
        let glob = PathGlob(String(repeating: "**/*a", count: 30) + "b")
        #expect(!glob.matches(POSIXPath(String(repeating: "a/", count: 500))))
        #expect(glob.description.hasPrefix("**/*a"))
    }
}
