public import ForgeStorage
import Foundation

extension ConformanceChecks {
    /// The promises of a byte storage with the four required calls.
    public static let storage: [ConformanceCheck<any Storage>] = [
        ConformanceCheck("a key without a value is not found") { storage in
            try await expectNotFound("missing", in: storage)
        },
        ConformanceCheck("a saved value can be fetched") { storage in
            try saveNow(hello, for: "greeting", in: storage)
            try expectEqual(try fetchNow("greeting", from: storage), hello, "the value")
        },
        ConformanceCheck("saving replaces the value, even a longer one") { storage in
            try saveNow(Data(repeating: 7, count: 10_000), for: "greeting", in: storage)
            try saveNow(hello, for: "greeting", in: storage)
            try expectEqual(try fetchNow("greeting", from: storage), hello, "the value after the second save")
        },
        ConformanceCheck("an empty value is a value") { storage in
            try saveNow(Data(), for: "empty", in: storage)
            try expectEqual(try fetchNow("empty", from: storage), Data(), "the empty value")
        },
        ConformanceCheck("values of any size and any bytes round-trip") { storage in
            for size in [1, 511, 512, 513, 4095, 4096, 4097, 1 << 20] {
                let value = Data.patterned(count: size)
                try saveNow(value, for: "sized", in: storage)
                try expect(try fetchNow("sized", from: storage) == value, "a value of \(size) bytes was changed")
            }
        },
        ConformanceCheck("a slice of data is saved as the slice's bytes") { storage in
            let slice = Data("0123456789".utf8)[3..<7]
            try saveNow(slice, for: "slice", in: storage)
            try expectEqual(try fetchNow("slice", from: storage), Data("3456".utf8), "the value")
        },
        ConformanceCheck("keys do not share values") { storage in
            let keys = [
                "a", "b", "a.b", "a-b", "a_b", "a b", "ä", "日本", "%61", "~", "~root", "=", "x.cache", "dir/a", "dir/b",
            ]
            for key in keys { try saveNow(Data(key.utf8), for: key, in: storage) }
            for key in keys { try expectEqual(try fetchNow(key, from: storage), Data(key.utf8), "the value of \(key)") }
        },
        ConformanceCheck("handlers receive the saved and the fetched value") { storage in
            let saved = try await outcome { storage.save(value: hello, for: "greeting", handler: $0) }.get()
            try expectEqual(saved, hello, "the value passed to the save's handler")
            let fetched = try await outcome { storage.fetchValue(for: "greeting", handler: $0) }.get()
            try expectEqual(fetched, hello, "the value passed to the fetch's handler")
        },
        ConformanceCheck("a handler receives the error for a key without a value") { storage in
            let fetched = await outcome { storage.fetchValue(for: "missing", handler: $0) }
            let error = try await expectError(StorageError.self, "fetching a missing key") { try fetched.get() }
            try expect(error.isNotFound, "fetching a missing key: expected notFound, got \(error)")
        },
        ConformanceCheck("the async and the blocking calls save and fetch the same values") { storage in
            try await storage.saveInBackground(value: hello, for: "greeting")
            try expectEqual(try fetchNow("greeting", from: storage), hello, "the value saved by the async call")
            let fetched = try await storage.fetchValueInBackground(for: "greeting")
            try expectEqual(fetched, hello, "the value fetched by the async call")
            let error = try await expectError(StorageError.self, "fetching a missing key") {
                try await storage.fetchValueInBackground(for: "missing")
            }
            try expect(error.isNotFound, "fetching a missing key: expected notFound, got \(error)")
        },
        ConformanceCheck("concurrent saves of one key leave one of the values, whole") { storage in
            let size = 50_000
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        for _ in 0..<5 {
                            try saveNow(Data(repeating: UInt8(writer), count: size), for: "shared", in: storage)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let value = try fetchNow("shared", from: storage)
            try expect(value == Data(repeating: value.first ?? 0, count: size), "the value is a mixture")
        },
    ]

    /// The promises of a storage that supports removal.
    public static let storageRemoval: [ConformanceCheck<any Storage>] = [
        ConformanceCheck("a removed value is not found", needs: [.removal]) { storage in
            try saveNow(hello, for: "greeting", in: storage)
            try storage.removeValue(for: "greeting")
            try await expectNotFound("greeting", in: storage)
        },
        ConformanceCheck("removing removes only one value", needs: [.removal]) { storage in
            try saveNow(hello, for: "dir/a", in: storage)
            let others = ["dir/b", "dir/a2", "dir/a.b", "dir2/a", "a"]
            for key in others { try saveNow(Data(key.utf8), for: key, in: storage) }
            try storage.removeValue(for: "dir/a")
            try await expectNotFound("dir/a", in: storage)
            for key in others {
                try expectEqual(
                    try fetchNow(key, from: storage), Data(key.utf8), "fetchValue(for: \(key)) after removing dir/a")
            }
        },
        ConformanceCheck("removing a missing value succeeds", needs: [.removal]) { storage in
            try storage.removeValue(for: "missing")
            try storage.removeValue(for: "missing/below")
        },
        ConformanceCheck("a value can be saved after it was removed", needs: [.removal]) { storage in
            try saveNow(hello, for: "greeting", in: storage)
            try storage.removeValue(for: "greeting")
            try saveNow(hello, for: "greeting", in: storage)
            try expectEqual(try fetchNow("greeting", from: storage), hello, "the value")
        },
    ]
}

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
                let saved = await outcome { storage.save(value: hello, for: key, handler: $0) }
                let savingLater = try await expectError(
                    StorageError.self, "saving for \(key.debugDescription) with a handler"
                ) { try saved.get() }
                try expect(
                    savingLater.isCantWrite, "saving for \(key.debugDescription) with a handler: got \(savingLater)")
                let fetched = await outcome { storage.fetchValue(for: key, handler: $0) }
                let fetchingLater = try await expectError(
                    StorageError.self, "fetching \(key.debugDescription) with a handler"
                ) { try fetched.get() }
                try expect(
                    fetchingLater.isCantRead, "fetching \(key.debugDescription) with a handler: got \(fetchingLater)")
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
