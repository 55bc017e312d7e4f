import ForgeKVStore

/// The work of one thread with the keys of all types.
struct Worker {
    private let integers = KeyRange<Int>()
    private let texts = KeyRange<String>()
    private let arrays = KeyRange<[String]>()
    private let records = KeyRange<Record>()
    private let objects = KeyRange<Box>()

    private var numbers: (Int: [Int], String: [Int], array: [Int], record: [Int], object: [Int])
    private var random: Random
    private(set) var tally = Tally()

    /// Creates a worker that treats the values in the store as the last ones written.
    init(_ store: any KVStoring, seed: Int) {
        numbers = (
            integers.numbers(in: store), texts.numbers(in: store), arrays.numbers(in: store),
            records.numbers(in: store), objects.numbers(in: store)
        )
        random = Random(seed: seed)
    }

    /// Stores values under the keys of a writer that have none.
    static func fill(_ store: any KVStoring, as writer: Int) throws {
        try KeyRange<Int>().fill(store, as: writer)
        try KeyRange<String>().fill(store, as: writer)
        try KeyRange<[String]>().fill(store, as: writer)
        try KeyRange<Record>().fill(store, as: writer)
        try KeyRange<Box>().fill(store, as: writer)
    }

    /// Reads for about a millisecond, mostly texts, whose memory is freed as soon as they are replaced.
    mutating func read(_ store: any KVStoring) {
        switch random.next(below: 16) {
        case 0: integers.read(1000, from: store, &numbers.Int, &random, &tally)
        case 1: arrays.read(500, from: store, &numbers.array, &random, &tally)
        case 2: records.read(500, from: store, &numbers.record, &random, &tally)
        case 3: objects.read(100, from: store, &numbers.object, &random, &tally)
        default: texts.read(4000, from: store, &numbers.String, &random, &tally)
        }
    }

    /// Writes every key of a writer, texts many times, and adds and removes one key, so that entries and slots change
    /// too.
    mutating func write(_ store: any KVStoring, as writer: Int) throws {
        for _ in 0..<256 { try texts.write(to: store, as: writer, &numbers.String, &random, &tally) }
        try integers.write(to: store, as: writer, &numbers.Int, &random, &tally)
        try arrays.write(to: store, as: writer, &numbers.array, &random, &tally)
        try records.write(to: store, as: writer, &numbers.record, &random, &tally)
        try objects.write(to: store, as: writer, &numbers.object, &random, &tally)
        let passing = KVKey<Int>("passing.\(writer).\(random.next(below: 1000))")
        try store.set(passing, value: 1)
        try store.remove(passing)
        tally.writes += 2
    }
}
