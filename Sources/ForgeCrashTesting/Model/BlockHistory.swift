/// What one block of 4096 bytes of a file may hold: its contents that are durable, and every one since.
struct BlockHistory: Sendable {
    static let size = 4096

    /// How bytes came into the block.
    enum Origin: Sendable {
        case write
        /// A write whose first byte lies behind everything that the file held before.
        case append
        /// Through a mapping.
        case store(isWrittenBack: Bool)
    }

    /// A change of a part of the block.
    struct Write: Sendable {
        var offset: Int
        var bytes: [UInt8]
        var origin = Origin.write

        var range: Range<Int> { offset..<offset + bytes.count }

        var isStore: Bool {
            guard case .store = origin else { return false }
            return true
        }

        /// Whether a synchronisation of the file covers it whatever system it is.
        fileprivate var isKnown: Bool {
            guard case .store(isWrittenBack: false) = origin else { return true }
            return false
        }

        /// What is left of it where another change has come over it.
        fileprivate func without(_ other: Range<Int>) -> [Write] {
            guard range.overlaps(other) else { return [self] }
            let parts = [
                range.lowerBound..<max(range.lowerBound, other.lowerBound),
                min(range.upperBound, other.upperBound)..<range.upperBound,
            ]
            return parts.filter { !$0.isEmpty }
                .map {
                    Write(
                        offset: $0.lowerBound, bytes: Array(bytes[$0.lowerBound - offset..<$0.upperBound - offset]),
                        origin: origin)
                }
        }
    }

    /// The contents before and after a change, as places among the contents that the block may have had.
    struct Step: Sendable {
        var write: Int
        var older: Int
        var newer: Int
    }

    /// The contents that may be durable; more than one only after a synchronisation failed.
    private(set) var durable: [[UInt8]]
    private(set) var writes: [Write] = []
    /// Whether the last change may still be going on.
    var isStoring = false

    init(_ content: [UInt8]) {
        durable = [content]
    }

    /// Whether everything about the block is decided.
    var isSettled: Bool { durable.count == 1 && writes.isEmpty }

    mutating func add(_ write: Write) {
        writes.append(write)
    }

    /// What was stored through mappings was handed to the file system: the next synchronisation covers it.
    mutating func writeBack() {
        for place in writes.indices where writes[place].isStore {
            writes[place].origin = .store(isWrittenBack: true)
        }
    }

    /// Everything written is durable, but, unless `coversStores`, for what was stored and not written back. That may
    /// still reach the device at any time, except where it was written over.
    mutating func settle(coversStores: Bool) {
        var settled: [Write] = []
        var left: [Write] = []
        for write in writes {
            if coversStores || write.isKnown {
                settled.append(write)
                if !left.isEmpty { left = left.flatMap { $0.without(write.range) } }
            } else {
                left.append(write)
            }
        }
        durable =
            Self.distinct(
                durable.map { content in
                    var content = content
                    for write in settled { Self.apply(write, to: &content) }
                    return content
                }
            ).contents
        writes = left
    }

    /// Everything written is undecided for ever.
    mutating func unsettle() {
        durable = history.contents
        writes = []
    }

    /// The contents that the block may have had, without repetition, one that is durable first, and how each change led
    /// from one to another.
    var history: (contents: [[UInt8]], steps: [Step]) {
        var contents: [[UInt8]] = []
        var steps: [Step] = []
        for content in durable {
            var content = content
            contents.append(content)
            for write in writes.indices {
                Self.apply(writes[write], to: &content)
                steps.append(Step(write: write, older: contents.count - 1, newer: contents.count))
                contents.append(content)
            }
        }
        let (kept, places) = Self.distinct(contents)
        steps = steps.map { Step(write: $0.write, older: places[$0.older], newer: places[$0.newer]) }
        return (kept, steps)
    }

    /// The content after all writes.
    var last: [UInt8] {
        var content = durable.last ?? []
        for write in writes { Self.apply(write, to: &content) }
        return content
    }

    private static func apply(_ write: Write, to content: inout [UInt8]) {
        write.bytes.withUnsafeBytes { content.overwrite(write.range, with: $0) }
    }

    /// The contents without repetition, and where each of those given stands among them. Contents with equal hashes
    /// count as equal, as among ``BlockChoices``.
    private static func distinct(_ contents: [[UInt8]]) -> (contents: [[UInt8]], places: [Int]) {
        var seen: [UInt64: Int] = [:]
        var kept: [[UInt8]] = []
        var places: [Int] = []
        for content in contents {
            let hash = content.withUnsafeBytes { StableHash.ofContent($0) }
            if let place = seen[hash] {
                places.append(place)
                continue
            }
            seen[hash] = kept.count
            places.append(kept.count)
            kept.append(content)
        }
        return (kept, places)
    }
}

extension [UInt8] {
    /// Replaces a range by as many bytes, as one copy; `replaceSubrange` assigns byte by byte in debug builds.
    mutating func overwrite(_ range: Range<Int>, with bytes: UnsafeRawBufferPointer) {
        withUnsafeMutableBytes { UnsafeMutableRawBufferPointer(rebasing: $0[range]).copyMemory(from: bytes) }
    }
}
