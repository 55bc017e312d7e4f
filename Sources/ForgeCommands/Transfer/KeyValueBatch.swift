import ForgeStorage

/// Some keys and values on their way to a store: they are compared together, and those that differ are stored together.
struct KeyValueBatch {
    private static let largestCount = 1024
    private static let largestSize = 1 << 20

    private let limit: Int
    private(set) var items: [(key: String, bytes: [UInt8])] = []
    private var names: Set<KeyName> = []
    private var size = 0

    /// - Parameter limit: The most changes that the store takes at once.
    init(limit: Int) {
        self.limit = min(limit, Self.largestCount)
    }

    /// The changes that store the items.
    var changes: KVBatch {
        var batch = KVBatch()
        for (key, bytes) in items { batch.append(.set(name: key, bytes: bytes)) }
        return batch
    }

    /// Whether an item must not be added, because the batch is full or has the key already: the last value of a key
    /// wins.
    func refuses(_ key: String, _ bytes: [UInt8]) -> Bool {
        // With the names, so that a request does not exceed the limits of servers.
        !items.isEmpty
            && (items.count >= limit || size + key.utf8.count + bytes.count > Self.largestSize
                || names.contains(KeyName(key)))
    }

    mutating func append(_ key: String, _ bytes: [UInt8]) {
        items.append((key, bytes))
        names.insert(KeyName(key))
        size += key.utf8.count + bytes.count
    }

    mutating func removeAll() {
        items = []
        names = []
        size = 0
    }
}
