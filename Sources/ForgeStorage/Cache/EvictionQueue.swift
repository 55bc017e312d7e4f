/// The entries of a cache in the order of their eviction, with their sizes and payloads.
///
/// There are two queues, both first in, first out, so a hit only raises a counter (as in S3-FIFO; Yang et al., "FIFO
/// Queues Are All You Need for Cache Eviction", SOSP 2023). Eviction follows one of two policies.
package struct EvictionQueue<Key: Hashable & Sendable, Payload: Sendable>: Sendable {
    package typealias Entry = (key: Key, payload: Payload, sizeInBytes: Int)

    package let limits: CacheLimits
    package var policy: EvictionPolicy

    private var places: [Key: Int] = [:]
    private var nodes: [Node] = []
    private var firstFree = -1
    private var small = Queue()
    private var main = Queue()
    /// How often keys were used that have no entry.
    private var sketch = FrequencySketch()
    private var useCount = 0

    /// The small queue is a fiftieth of the cache.
    private static var smallDivisor: Int { 50 }
    /// The number of entries of the main queue that one of the small queue competes with.
    private static var competitorCount: Int { 8 }
    /// Counters are halved after this number of uses per entry.
    private static var usesPerPeriod: Int { 100 }

    package init(limits: CacheLimits, policy: EvictionPolicy = .frequency) {
        self.limits = limits
        self.policy = policy
    }

    /// The number of entries.
    package var count: Int { places.count }

    /// The sum of the sizes of all entries, in bytes.
    package var sizeInBytes: Int { small.sizeInBytes + main.sizeInBytes }

    package func contains(_ key: Key) -> Bool { places[key] != nil }

    /// The payload of a key; does not count as a use.
    package func peek(_ key: Key) -> Payload? { places[key].flatMap { nodes[$0].payload } }

    package var keys: [Key] { Array(places.keys) }

    /// The payload of a key and the key's hash; counts as a use.
    package mutating func hit(_ key: Key) -> (payload: Payload, hash: Int)? {
        guard let place = places[key] else { return nil }
        useCount &+= 1
        nodes[place].use()
        return nodes[place].payload.map { ($0, nodes[place].hash) }
    }

    /// Inserts an entry, or replaces the one of its key; counts as a use.
    ///
    /// - Returns: The evicted entries; the new one is among them if it exceeds the limits alone.
    package mutating func insert(_ key: Key, _ payload: Payload, sizeInBytes size: Int) -> [Entry] {
        var new = Node(key: key, payload: payload, sizeInBytes: size, hash: key.hashValue)
        if let old = places[key] {
            (new.useCount, new.isSmall) = (nodes[old].useCount, nodes[old].isSmall)
            new.isUsed = true
            remove(key)
        } else {
            (new.useCount, new.isSmall) = (sketch.estimate(new.hash), policy == .frequency)
        }
        guard limits.permit(size) else { return [(key, payload, size)] }
        useCount &+= 1
        new.useCount = min(new.useCount + 1, FrequencySketch.maximum)
        let evicted = trim(to: CacheLimits(sizeInBytes: limits.sizeInBytes - size, count: limits.count - 1))
        add(new)
        // While there is room, entries move to the main queue without a competition.
        while small.count > 1, small.exceeds(limits, dividedBy: Self.smallDivisor) { move(small.last) }
        halveCountersIfDue()
        return evicted
    }

    /// Removes an entry.
    @discardableResult
    package mutating func remove(_ key: Key) -> Entry? {
        places[key].flatMap { take($0) }
    }

    /// Evicts entries until these limits are kept, and returns them.
    package mutating func trim(to limits: CacheLimits) -> [Entry] {
        var evicted: [Entry] = []
        while sizeInBytes > limits.sizeInBytes || count > limits.count {
            let entry: Entry?
            switch policy {
            case .frequency: entry = evictLeastUsed()
            case .recency: entry = evictOldest()
            }
            if let entry { evicted.append(entry) }
        }
        return evicted
    }
}

// MARK: Eviction

extension EvictionQueue {
    /// Evicts the oldest entry, or makes it the newest one and returns nil.
    private mutating func evictOldest() -> Entry? {
        let oldest = small.count > 0 ? small.last : main.last
        guard nodes[oldest].isUsed else { return evict(oldest) }
        nodes[oldest].isUsed = false
        move(oldest)
        return nil
    }

    private mutating func evictLeastUsed() -> Entry? {
        guard main.count > 0 else { return evict(small.last) }
        guard small.reaches(limits, dividedBy: Self.smallDivisor) else { return evict(leastUsedOfMain()) }
        let candidate = small.last
        let victim = leastUsedOfMain()
        guard nodes[candidate].useCount > nodes[victim].useCount else { return evict(candidate) }
        move(candidate)
        return evict(victim)
    }

    /// The least used of the oldest entries of the main queue, all of which become the newest.
    private mutating func leastUsedOfMain() -> Int {
        var least = main.last
        for _ in 1..<Self.competitorCount {
            let next = main.last
            if nodes[next].useCount < nodes[least].useCount { least = next }
            move(next)
        }
        return least
    }

    private mutating func evict(_ place: Int) -> Entry? {
        sketch.raise(nodes[place].hash, to: nodes[place].useCount)
        return take(place)
    }

    private mutating func halveCountersIfDue() {
        sketch.reserve(count)
        guard useCount > Self.usesPerPeriod * max(count, 16) else { return }
        useCount /= 2
        sketch.halve()
        for place in nodes.indices { nodes[place].useCount /= 2 }
    }
}

// MARK: Queues

extension EvictionQueue {
    /// An entry in one of two doubly linked lists, or a free place in a singly linked one.
    private struct Node {
        var key: Key?
        var payload: Payload?
        var sizeInBytes = 0
        var hash = 0
        var useCount: UInt8 = 0
        var isUsed = false
        var isSmall = false
        /// The places of the neighbours; -1 at the ends.
        var newer = -1
        var older = -1

        mutating func use() {
            isUsed = true
            if useCount < FrequencySketch.maximum { useCount &+= 1 }
        }
    }

    private struct Queue {
        /// The places of the newest and the oldest entry; -1 if there is none.
        var first = -1
        var last = -1
        var count = 0
        var sizeInBytes = 0

        func exceeds(_ limits: CacheLimits, dividedBy divisor: Int) -> Bool {
            sizeInBytes > limits.sizeInBytes / divisor || count > max(1, limits.count / divisor)
        }

        func reaches(_ limits: CacheLimits, dividedBy divisor: Int) -> Bool {
            count > 0 && (sizeInBytes >= limits.sizeInBytes / divisor || count >= max(1, limits.count / divisor))
        }

        mutating func insert(_ place: Int, in nodes: inout [Node]) {
            nodes[place].newer = -1
            nodes[place].older = first
            if first >= 0 { nodes[first].newer = place } else { last = place }
            first = place
            count += 1
            sizeInBytes += nodes[place].sizeInBytes
        }

        mutating func remove(_ place: Int, in nodes: inout [Node]) {
            let (newer, older) = (nodes[place].newer, nodes[place].older)
            if newer >= 0 { nodes[newer].older = older } else { first = older }
            if older >= 0 { nodes[older].newer = newer } else { last = newer }
            count -= 1
            sizeInBytes -= nodes[place].sizeInBytes
        }
    }

    private mutating func add(_ node: Node) {
        guard let key = node.key else { return }
        var place = firstFree
        if place < 0 {
            place = nodes.count
            nodes.append(node)
        } else {
            firstFree = nodes[place].older
            nodes[place] = node
        }
        places[key] = place
        if node.isSmall { small.insert(place, in: &nodes) } else { main.insert(place, in: &nodes) }
    }

    private mutating func take(_ place: Int) -> Entry? {
        unlink(place)
        let node = nodes[place]
        nodes[place] = Node()
        nodes[place].older = firstFree
        firstFree = place
        guard let key = node.key, let payload = node.payload else { return nil }
        places[key] = nil
        return (key, payload, node.sizeInBytes)
    }

    /// Makes an entry the newest one of the main queue.
    private mutating func move(_ place: Int) {
        unlink(place)
        nodes[place].isSmall = false
        main.insert(place, in: &nodes)
    }

    private mutating func unlink(_ place: Int) {
        if nodes[place].isSmall { small.remove(place, in: &nodes) } else { main.remove(place, in: &nodes) }
    }
}

/// The decision about the entry that a full cache evicts.
package enum EvictionPolicy: Sendable {
    /// New entries go to a small queue. If the cache is full, its oldest entry competes with the oldest ones of the
    /// main queue, and the one whose key was used least is evicted (W-TinyLFU; Einziger, Friedman and Manes, "TinyLFU:
    /// A Highly Efficient Cache Admission Policy", ACM Transactions on Storage, 2017).
    case frequency

    /// The oldest entry is evicted, unless it was used since it became the newest; then it becomes the newest again
    /// (CLOCK, an approximation of the least recently used).
    case recency
}
