package import ForgeFileStore
import ForgeFileSystem
import Foundation

extension ConformanceChecks {
    /// The promises of a streaming file store about the attributes of files; part of ``streamingFileStore``.
    package static let fileAttributes: [ConformanceCheck<any StreamingFileStoring>] = attributes.map {
        $0.needing(.fileAttributes)
    }

    private typealias Check = ConformanceCheck<any StreamingFileStoring>

    private static let attributes: [Check] = [
        Check("attributes are stored with a file and read back") { store in
            let attributes = [
                "content-type": "text/plain; charset=utf-8", "e": "", "0": "Größe e\u{301} \u{E9} 🗂\n\0",
                String(repeating: "x", count: 64): "a=b", "a.b_c-d": "1",
            ]
            let saved = try await store.save(
                text("content"), to: "d/f", if: .always, durability: nil, attributes: attributes)
            try expectAttributes(try await store.attributes(of: "d/f"), attributes, "attributes")
            let reader = try await store.reader(for: "d/f")
            try expectAttributes(try await reader.attributes(), attributes, "attributes of a reader")
            try expectEqual(try await store.load("d/f"), text("content"), "content")
            try expectEqual(try await store.info("d/f"), saved, "info")
            try await expectCode(.notFound, "a missing file") { try await store.attributes(of: "d/x") }
        },
        Check("every save replaces the attributes: one without them leaves none") { store in
            for kind in ["save", "conditional save", "update", "batch", "writer"] {
                try await store.save(text("old"), to: "f", attributes: ["a": "1", "b": "2"])
                try await store.save(text("old"), to: "f", attributes: ["b": "3"])
                try expectAttributes(try await store.attributes(of: "f"), ["b": "3"], "after a second save")
                switch kind {
                case "save": try await store.save(text("new"), to: "f")
                case "conditional save": try await store.save(text("new"), to: "f", if: .always)
                case "update": try await store.update("f") { _ in text("new") }
                case "batch": try await store.batch { $0.save(text("new"), to: "f") }
                default: try await store.write(to: "f") { try await $0.write(text("new")) }
                }
                try expectAttributes(try await store.attributes(of: "f"), [:], "after a \(kind)")
            }
        },
        Check("attributes up to the limits are stored, others are refused before any change") { store in
            let kept = ["a": "kept"]
            try await store.save(text("old"), to: "f", attributes: kept)
            for (attributes, problem) in refused {
                try await expectCode(.invalidAttribute(problem), "save with \(problem)") {
                    try await store.save(text("new"), to: "f", attributes: attributes)
                }
                try await expectCode(.invalidAttribute(problem), "writer with \(problem)") {
                    try await store.writer(for: "f", if: .always, durability: nil, attributes: attributes)
                }
                let error = try await expectCode(.invalidAttribute(problem), "batch with \(problem)") {
                    try await store.batch { batch in
                        batch.save(text("new"), to: "f")
                        batch.save(text("new"), to: "g", attributes: attributes)
                    }
                }
                try expectEqual(error.key, "g", "key")
                try expect(!"\(error)".contains("secret"), "the error has the value of an attribute")
            }
            try expectEqual(try await store.load("f"), text("old"), "content")
            try expectAttributes(try await store.attributes(of: "f"), kept, "attributes")
            try expectEqual(try await store.list(recursive: true).map(\.key), ["f"], "entries")
            let largest = ["a": String(repeating: "x", count: 2_000), "b": String(repeating: "y", count: 46)]
            try await store.save(text("new"), to: "f", attributes: largest)
            try expectAttributes(try await store.attributes(of: "f"), largest, "the largest attributes")
        },
        Check("a save whose condition is not met keeps content and attributes") { store in
            let first = try await store.save(text("a"), to: "f", attributes: ["a": "1"])
            let second = try await store.save(text("b"), to: "f", attributes: ["a": "2"])
            for condition in [SaveCondition.absent, first.revision.map(SaveCondition.unchanged) ?? .absent] {
                _ = try await expectError(FileStoreError.self, "\(condition)") {
                    try await store.save(text("c"), to: "f", if: condition, durability: nil, attributes: ["a": "3"])
                }
                try expectEqual(try await store.load("f"), text("b"), "content")
                try expectAttributes(try await store.attributes(of: "f"), ["a": "2"], "attributes")
            }
            guard let revision = second.revision else { throw ConformanceViolation("no revision") }
            try await store.save(text("c"), to: "f", if: .unchanged(revision), durability: nil, attributes: ["a": "3"])
            try expectAttributes(try await store.attributes(of: "f"), ["a": "3"], "attributes of the next revision")
        },
        Check("a batch stores the attributes of each of its files") { store in
            try await store.batch { batch in
                for number in 0..<70 { batch.save(text("x"), to: "d/\(number)", attributes: ["n": "\(number)"]) }
                batch.save(text("x"), to: "none")
            }
            for number in 0..<70 {
                try expectAttributes(try await store.attributes(of: "d/\(number)"), ["n": "\(number)"], "\(number)")
            }
            try expectAttributes(try await store.attributes(of: "none"), [:], "a file without attributes")
        },
        Check("a writer stores its attributes when it is committed") { store in
            try await store.save(text("old"), to: "f", attributes: ["a": "old"])
            let writer = try await store.writer(for: "f", if: .always, durability: nil, attributes: ["b": "new"])
            try await writer.write(text("new"))
            try expectAttributes(try await store.attributes(of: "f"), ["a": "old"], "before the commit")
            try await writer.commit()
            try expectAttributes(try await store.attributes(of: "f"), ["b": "new"], "after the commit")
            try await store.write(to: "g", attributes: ["c": "1"]) { try await $0.write(text("x")) }
            try expectAttributes(try await store.attributes(of: "g"), ["c": "1"], "of a closure")
        },
        Check("a reader has the attributes of the file that it opened") { store in
            for durability in Durability.allCases {
                try await store.save(text("x"), to: "f", if: .always, durability: durability, attributes: ["a": "1"])
                let reader = try await store.reader(for: "f")
                try await store.save(text("y"), to: "f", if: .always, durability: durability, attributes: ["b": "2"])
                try expectAttributes(try await reader.attributes(), ["a": "1"], "after it was replaced")
                try await store.delete("f")
                try expectAttributes(try await reader.attributes(), ["a": "1"], "after it was deleted")
                try await store.save(text("z"), to: "f")
                try expectAttributes(try await store.attributes(of: "f"), [:], "of a new file")
            }
        },
    ]

    /// Invalid attributes, and why.
    private static let refused: [([String: String], FileStoreError.AttributeProblem)] = {
        let names: [String] = ["", "A", "a b", "ä", "a/b", ".a", "-a", "_a", "a\0", String(repeating: "x", count: 65)]
        var refused: [([String: String], FileStoreError.AttributeProblem)] = []
        for name in names { refused.append(([name: "secret", "z": "secret"], .name(name))) }
        let long = String(repeating: "x", count: 2_040)
        refused.append((["a": "secret ..." + long], .tooLarge("a")))
        refused.append((["a": "secret", "b": long, "c": ""], .tooLarge("b")))
        return refused
    }()

    /// Compares bytes: canonically equivalent strings are equal.
    private static func expectAttributes(
        _ actual: [String: String], _ expected: [String: String], _ what: String, file: StaticString = #fileID,
        line: UInt = #line
    ) throws {
        let isEqual = actual.mapValues { Array($0.utf8) } == expected.mapValues { Array($0.utf8) }
        try expect(isEqual, "\(what): expected \(expected), got \(actual)", file: file, line: line)
    }

    private static func text(_ text: String) -> Data { Data(text.utf8) }
}
