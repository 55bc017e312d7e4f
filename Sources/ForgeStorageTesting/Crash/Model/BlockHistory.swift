/// What one block of 4096 bytes of a file may hold: its contents that are durable, and every one since.
struct BlockHistory: Sendable {
    static let size = 4096

    /// A change of a part of the block.
    struct Write: Sendable {
        var offset: Int
        var bytes: [UInt8]
        /// Whether the first byte lies behind everything that the file held before.
        var isAppend = false
    }

    /// The contents that may be durable; more than one only after a synchronisation failed.
    private(set) var durable: [[UInt8]]
    private(set) var writes: [Write] = []

    init(_ content: [UInt8]) {
        durable = [content]
    }

    /// Whether everything about the block is decided.
    var isSettled: Bool { durable.count == 1 && writes.isEmpty }

    mutating func add(_ write: Write) {
        writes.append(write)
    }

    /// Everything written is durable.
    mutating func settle() {
        durable = Self.distinct(
            durable.map { content in
                var content = content
                for write in writes { Self.apply(write, to: &content) }
                return content
            })
        writes = []
    }

    /// Everything written is undecided for ever.
    mutating func unsettle() {
        durable = wholes
        writes = []
    }

    /// The contents that the block may have had, without repetition, one that is durable first.
    var wholes: [[UInt8]] {
        var contents: [[UInt8]] = []
        for content in durable {
            var content = content
            contents.append(content)
            for write in writes {
                Self.apply(write, to: &content)
                contents.append(content)
            }
        }
        return Self.distinct(contents)
    }

    /// The content after all writes.
    var last: [UInt8] {
        var content = durable.last ?? []
        for write in writes { Self.apply(write, to: &content) }
        return content
    }

    private static func apply(_ write: Write, to content: inout [UInt8]) {
        content.replaceSubrange(write.offset..<write.offset + write.bytes.count, with: write.bytes)
    }

    private static func distinct(_ contents: [[UInt8]]) -> [[UInt8]] {
        var seen: [UInt64: [Int]] = [:]
        var kept: [[UInt8]] = []
        for content in contents {
            let hash = content.withUnsafeBytes { StableHash.ofContent($0) }
            if seen[hash, default: []].contains(where: { kept[$0] == content }) { continue }
            seen[hash, default: []].append(kept.count)
            kept.append(content)
        }
        return kept
    }
}
