import ForgeKVStore

extension ConformanceChecks {
    static let keyValueConcurrency: [ConformanceCheck<any KVStoring>] = [
        ConformanceCheck("writers of different keys do not interfere") { store in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        for index in 0..<25 {
                            let key = KVKey<Int>("\(writer).\(index)")
                            try store.set(key, value: writer * 1000 + index)
                            try expectEqual(store.get(key), writer * 1000 + index, "get right after set")
                        }
                    }
                }
                try await group.waitForAll()
            }
            for writer in 0..<8 {
                for index in 0..<25 {
                    try expectEqual(
                        store.get(KVKey<Int>("\(writer).\(index)")), writer * 1000 + index, "\(writer).\(index)")
                }
            }
        },
        ConformanceCheck("of concurrent writers of one key one wins, and no reader sees a torn value") { store in
            let key = KVKey<[Int]>("a")
            try store.set(key, value: [Int](repeating: 0, count: 100))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 1...4 {
                    group.addTask {
                        for _ in 0..<25 { try store.set(key, value: [Int](repeating: writer, count: 100)) }
                    }
                    group.addTask {
                        for _ in 0..<50 {
                            let value = store.get(key) ?? []
                            try expect(
                                value.count == 100 && value.allSatisfy { $0 == value[0] }, "half a value was read")
                        }
                    }
                }
                try await group.waitForAll()
            }
            try expect((1...4).contains(store.get(key)?.first ?? 0), "no writer has won")
        },
        ConformanceCheck("concurrent removals and writes of one key leave it present or absent") { store in
            let key = KVKey<String>("a")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    group.addTask {
                        for index in 0..<25 {
                            if (writer + index).isMultiple(of: 2) {
                                try store.set(key, value: "value")
                            } else {
                                try store.remove(key)
                            }
                            let value = store.get(key)
                            try expect(value == nil || value == "value", "read \(value ?? "nil")")
                        }
                    }
                }
                try await group.waitForAll()
            }
            try expectEqual(store.contains(key), store.get(key) != nil, "contains")
        },
    ]
}
