public import ForgeStorage
import Foundation

extension ConformanceChecks {
    /// The promises of a storage whose keys are paths below a root and whose handlers run in order.
    public static let storageOfPaths: [ConformanceCheck<any Storage>] = [
        ConformanceCheck("keys may be many directories deep", needs: [.keysArePaths]) { storage in
            let key = (1...32).map { "d\($0)" }.joined(separator: "/")
            try saveNow(hello, for: key, in: storage)
            try expectEqual(try fetchNow(key, from: storage), hello, "the value of a key with 32 components")
        },
        ConformanceCheck("nothing can be stored below a key with a value", needs: [.keysArePaths]) { storage in
            try saveNow(hello, for: "foo", in: storage)
            let saving = try await expectError(StorageError.self, "saving below a value") {
                try saveNow(hello, for: "foo/bar", in: storage)
            }
            try expect(saving.isCantWrite, "saving below a value: expected cantWrite, got \(saving)")
            let fetching = try await expectError(StorageError.self, "fetching below a value") {
                try fetchNow("foo/bar", from: storage)
            }
            try expect(fetching.isCantRead, "fetching below a value: expected cantRead, got \(fetching)")
            try expectEqual(try fetchNow("foo", from: storage), hello, "the value")
        },
        ConformanceCheck("nothing can be stored for a key with keys below it", needs: [.keysArePaths]) { storage in
            try saveNow(hello, for: "foo/bar", in: storage)
            let saving = try await expectError(StorageError.self, "saving over a directory") {
                try saveNow(hello, for: "foo", in: storage)
            }
            try expect(saving.isCantWrite, "saving over a directory: expected cantWrite, got \(saving)")
            let fetching = try await expectError(StorageError.self, "fetching a directory") {
                try fetchNow("foo", from: storage)
            }
            try expect(fetching.isCantRead, "fetching a directory: expected cantRead, got \(fetching)")
            let removing = try await expectError(StorageError.self, "removing a directory") {
                try storage.removeValue(for: "foo")
            }
            try expect(removing.isCantRemove, "removing a directory: expected cantRemove, got \(removing)")
            try expectEqual(try fetchNow("foo/bar", from: storage), hello, "the value")
        },
        ConformanceCheck("a key that could lead out of the storage is refused by every call", needs: [.keysArePaths]) {
            storage in
            for key in [
                "", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a/.", "a\0b", "a\\b", "#lock", "#tmp-x",
            ] {
                let saving = try await expectError(StorageError.self, "saving for \(key.debugDescription)") {
                    try saveNow(hello, for: key, in: storage)
                }
                try expect(saving.isCantWrite, "saving for \(key.debugDescription): got \(saving)")
                let fetching = try await expectError(StorageError.self, "fetching \(key.debugDescription)") {
                    try fetchNow(key, from: storage)
                }
                try expect(fetching.isCantRead, "fetching \(key.debugDescription): got \(fetching)")
                let removing = try await expectError(StorageError.self, "removing \(key.debugDescription)") {
                    try storage.removeValue(for: key)
                }
                try expect(removing.isCantRemove, "removing \(key.debugDescription): got \(removing)")
            }
        },
        ConformanceCheck(
            "calls with a handler take effect in the order in which they were made", needs: [.orderedHandlers]
        ) { storage in
            for number in 0..<50 { storage.save(value: Data("\(number)".utf8), for: "counter") { _ in } }
            let fetched = try await outcome { storage.fetchValue(for: "counter", handler: $0) }.get()
            try expectEqual(fetched, Data("49".utf8), "the value after fifty saves")
        },
    ]
}
