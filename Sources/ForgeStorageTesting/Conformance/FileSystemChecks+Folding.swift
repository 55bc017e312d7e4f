import ForgeFileSystem
import SystemPackage

extension ConformanceChecks {
    /// Promises of a case-insensitive file system.
    public static let fileSystemCaseInsensitive: [ConformanceCheck<FileSystemUnderTest>] = caseInsensitive.map {
        $0.needing(.caseInsensitivity)
    }

    private static let caseInsensitive: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file is found in any case and listed with its original name") { tree in
            try tree.create("e/Name", "x")
            try expectEqual(try tree.content("e/nAME"), "x", "the content")
            try tree.create("e/NAME", "y")
            try expectEqual(try tree.list("e"), ["Name"], "the listing")
            try expectEqual(try tree.content("e/Name"), "y", "the new content")
            try tree.expectErrno(.fileExists, "an exclusive creation") {
                try tree.open("e/name", .writeOnly, [.create, .exclusiveCreate])
            }
            try tree.fileSystem.unlink(tree("e/name"))
            try expectEqual(try tree.list("e"), [], "the listing after the removal")
        },
        holds("a rename to another case changes how the name is shown, and nothing else") { tree in
            try tree.create("e/name", "x")
            try tree.fileSystem.rename(tree("e/name"), to: tree("e/NAME"))
            try expectEqual(try tree.list("e"), ["NAME"], "the listing")
            try tree.fileSystem.rename(tree("e/NAME"), to: tree("e/Name"), .exclusive)
            try expectEqual(try tree.list("e"), ["Name"], "the listing after an exclusive rename")
            try expectEqual(try tree.content("e/name"), "x", "the content")
        },
        holds("case is folded in full: ß is ss") { tree in
            try tree.create("e/stra\u{DF}e")
            try expect(try tree.exists("e/STRASSE"), "found as STRASSE")
            try expect(try tree.exists("e/stra\u{1E9E}e"), "found with a capital ß")
        },
        holds("letters of other scripts have case too") { tree in
            try tree.create("e/ΑΣ")
            try expect(try tree.exists("e/ας") && tree.exists("e/ασ"), "Greek")
            try tree.create("e/Ж")
            try expect(try tree.exists("e/ж"), "Cyrillic")
            try expect(try !tree.exists("e/з"), "another letter")
        },
        holds("many names in one directory are found in any case") { tree in
            for number in 0..<100 { try tree.create("e/Name\(number)") }
            for number in 0..<100 where number % 3 != 0 { try tree.fileSystem.unlink(tree("e/nAME\(number)")) }
            for number in 0..<100 {
                try expectEqual(try tree.exists("e/NAME\(number)"), number % 3 == 0, "name \(number)")
            }
        },
    ]

    /// Promises of a normalisation-insensitive file system.
    public static let fileSystemNormalisationInsensitive: [ConformanceCheck<FileSystemUnderTest>] =
        normalisationInsensitive.map { $0.needing(.normalisationInsensitivity) }

    private static let normalisationInsensitive: [ConformanceCheck<FileSystemUnderTest>] = [
        holds("a file is found in any normalisation and listed with its original bytes") { tree in
            try tree.create("e/\u{E9}", "x")
            try expectEqual(try tree.content("e/e\u{301}"), "x", "the content")
            try tree.create("e/e\u{301}", "y")
            try expectEqual(try tree.list("e").map { Array($0.utf8) }, [[0xC3, 0xA9]], "the bytes listed")
            try tree.fileSystem.rename(tree("e/e\u{301}"), to: tree("e/e\u{301}"))
            try expectEqual(try tree.content("e/\u{E9}"), "y", "the new content")
        },
        holds("compatibility variants are different names") { tree in
            try tree.create("e/x\u{B2}")
            try expect(try !tree.exists("e/x2"), "a superscript is not its digit")
        },
    ]
}
