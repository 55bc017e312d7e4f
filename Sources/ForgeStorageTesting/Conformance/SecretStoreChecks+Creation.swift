import ForgeCrypt
import Synchronization

extension ConformanceChecks {
    static let secretCreation: [ConformanceCheck<any CryptStoring>] = [
        ConformanceCheck("createIfAbsent stores a value once", needs: [.creationIfAbsent]) { store in
            try expect(try store.createIfAbsent("first", for: secretToken), "createIfAbsent of an absent secret")
            try expectEqual(try store.get(secretToken), "first", "get")
            try expect(try !store.createIfAbsent("second", for: secretToken), "createIfAbsent of a present secret")
            try expectEqual(try store.get(secretToken), "first", "get after the second call")
            try store.delete(secretToken)
            try expect(try store.createIfAbsent("third", for: secretToken), "createIfAbsent after delete")
            try expectEqual(try store.get(secretToken), "third", "get after delete")
        },
        ConformanceCheck(
            "createIfAbsent keeps a stored nil and a value of another type", needs: [.creationIfAbsent]
        ) { store in
            let optional = CryptKey<String?>(key: "optional")
            try store.set(nil, for: optional)
            try expect(try !store.createIfAbsent("value", for: optional), "createIfAbsent over a stored nil")
            guard let kept = try store.get(optional) else { throw ConformanceViolation("the stored nil is gone") }
            try expectEqual(kept, nil, "get of the stored nil")
            try store.set("text", for: secretToken)
            let number = CryptKey<Int>(key: secretToken.key)
            try expect(try !store.createIfAbsent(1, for: number), "createIfAbsent over another type")
            try expectEqual(try store.get(secretToken), "text", "get of the other type")
        },
        ConformanceCheck("createIfAbsent refuses what set refuses", needs: [.creationIfAbsent]) { store in
            try await expectSecretError(.invalidKey, "createIfAbsent without a name") {
                try store.createIfAbsent("value", for: CryptKey(key: ""))
            }
            let key = CryptKey<SecretSamples.Refusing>(key: "refusing")
            try await expectSecretError(.unencodable, "createIfAbsent") {
                try store.createIfAbsent(SecretSamples.Refusing(text: "s3cr3t-marker"), for: key)
            }
            try expect(try !store.contains(key), "contains after")
        },
        ConformanceCheck(
            "of concurrent createIfAbsent calls exactly one stores its value", needs: [.creationIfAbsent]
        ) { store in
            for round in 0..<4 {
                let key = CryptKey<Int>(key: "created.\(round)")
                let winners = Mutex<[Int]>([])
                let failures = inParallel(4) { thread in
                    guard try store.createIfAbsent(thread, for: key) else { return }
                    winners.withLock { $0.append(thread) }
                }
                try expectEqual(failures, [], "failures")
                let stored = winners.withLock { $0 }
                try expectEqual(stored.count, 1, "calls that stored a value")
                try expectEqual(try store.get(key), stored.first, "get")
            }
        },
    ]
}
