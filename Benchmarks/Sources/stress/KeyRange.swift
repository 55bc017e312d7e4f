import ForgeKVStore

/// The keys of one type, half of them written by each of two writers.
struct KeyRange<Value: Sample>: Sendable {
    static var count: Int { 8 }

    private let keys: [KVKey<Value>]

    init() { keys = (0..<Self.count).map { KVKey("\(Value.title).\($0)") } }

    /// Whether a writer changes a key; each key has one writer, so that the numbers under a key only increase.
    private static func isWritten(_ key: Int, by writer: Int) -> Bool { key % 2 == writer }

    /// Whether a key is removed occasionally.
    private static func isRemovable(_ key: Int) -> Bool { key % 4 >= 2 }

    /// Reads random keys; `seen` contains the highest number under each so far.
    @inline(never)
    func read(
        _ count: Int, from store: any KVStoring, _ seen: inout [Int], _ random: inout Random, _ tally: inout Tally
    ) {
        for _ in 0..<count {
            let key = random.next(below: Self.count)
            tally.reads += 1
            guard let value = store.get(keys[key]) else {
                if !Self.isRemovable(key) {
                    tally.missing += 1
                    tally.note("\(keys[key]) has no value")
                }
                continue
            }
            guard let number = value.number(key: key) else {
                tally.foreign += 1
                tally.note("\(keys[key]) has a foreign value")
                continue
            }
            if number < seen[key] {
                tally.stale += 1
                tally.note("\(keys[key]) went back from \(seen[key]) to \(number)")
            }
            seen[key] = number
        }
    }

    /// Writes the keys of a writer, each once, and removes one occasionally.
    func write(
        to store: any KVStoring, as writer: Int, _ numbers: inout [Int], _ random: inout Random, _ tally: inout Tally
    ) throws {
        for key in keys.indices where Self.isWritten(key, by: writer) {
            if Self.isRemovable(key), random.next(below: 8) == 0 { try store.remove(keys[key]) }
            numbers[key] += 1
            try store.set(keys[key], value: Value(key: key, number: numbers[key]))
            tally.writes += 1
        }
    }

    /// The number of the last write of each key; 0 for a key without a value.
    func numbers(in store: any KVStoring) -> [Int] {
        keys.indices.map { store.get(keys[$0])?.number(key: $0) ?? 0 }
    }

    /// Stores a value under every key of a writer that has none.
    func fill(_ store: any KVStoring, as writer: Int) throws {
        for key in keys.indices where Self.isWritten(key, by: writer) && !store.contains(keys[key]) {
            try store.set(keys[key], value: Value(key: key, number: 0))
        }
    }
}

/// Random numbers at negligible cost (xorshift64*).
struct Random {
    private var state: UInt64

    init(seed: Int) { state = UInt64(truncatingIfNeeded: seed) &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next(below limit: Int) -> Int {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return Int((state &* 0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}
