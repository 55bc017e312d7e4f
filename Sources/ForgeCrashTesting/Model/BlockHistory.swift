import ForgeFileSystem

// Memory safety: Words are read only as far as whole ones lie in a buffer, from memory that is aligned or a copy of
// it. Debug builds, which explore crashes too, are fast only through addresses.

/// The possible contents of one 4096-byte block of a file: the durable ones and all later ones.
struct BlockHistory: Sendable {
    static let size = 4096

    /// How bytes reached the block.
    enum Origin: Sendable {
        case write
        /// A write that starts at or beyond the previous end of the file.
        case append
        /// A store through a mapping.
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

        /// Whether a synchronisation of the file covers the change on every system.
        fileprivate var isKnown: Bool {
            guard case .store(isWrittenBack: false) = origin else { return true }
            return false
        }

        /// The parts of the change that another change has not overwritten.
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

    /// A change, with the indices of the contents before and after it.
    struct Step: Sendable {
        var write: Int
        var older: Int
        var newer: Int
    }

    /// The contents that may be durable; more than one only after a failed synchronisation.
    private(set) var durable: [[UInt8]]
    private(set) var writes: [Write] = []
    /// Whether the last change may be in progress.
    var isStoring = false

    init(_ content: [UInt8]) {
        durable = [content]
    }

    /// Whether the content is fully determined.
    var isSettled: Bool { durable.count == 1 && writes.isEmpty }

    mutating func add(_ write: Write) {
        writes.append(write)
    }

    /// Marks stores through mappings as written back: the next synchronisation covers them.
    mutating func writeBack() {
        for place in writes.indices where writes[place].isStore {
            writes[place].origin = .store(isWrittenBack: true)
        }
    }

    /// Makes all writes durable, and stores that were not written back only if `coversStores`. Other stores may still
    /// reach the device at any time, except where they were overwritten.
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

    /// Makes all writes permanently undetermined.
    mutating func unsettle() {
        durable = history.contents
        writes = []
    }

    /// The possible contents without duplicates, a durable one first, and the changes between them.
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
        content.overwrite(write.range, with: write.bytes[...])
    }

    /// The contents without duplicates, and the index of each given content among them. Contents with equal hashes
    /// count as equal, as in ``BlockChoices``.
    private static func distinct(_ contents: [[UInt8]]) -> (contents: [[UInt8]], places: [Int]) {
        var seen: [UInt64: Int] = [:]
        var kept: [[UInt8]] = []
        var places: [Int] = []
        for content in contents {
            let hash = StableHash.ofContent(content[...])
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
    /// Replaces a range in one copy; `replaceSubrange` assigns byte by byte in debug builds.
    mutating func overwrite(_ range: Range<Int>, with bytes: ArraySlice<UInt8>) {
        precondition(range.count == bytes.count)
        unsafe withUnsafeMutableBytes { target in
            unsafe bytes.withUnsafeBytes {
                unsafe UnsafeMutableRawBufferPointer(rebasing: target[range]).copyMemory(from: $0)
            }
        }
    }

    /// A range of whole words outside which two arrays of equal length, a multiple of 8, are equal.
    func difference(from other: [UInt8]) -> Range<Int> {
        precondition(count == other.count)
        return unsafe withUnsafeBytes { bytes in unsafe other.withUnsafeBytes { unsafe bytes.difference(from: $0) } }
    }
}

/// Loops over the words of blocks that are fast in debug builds too.
///
/// Debug builds inline the subscript of a typed pointer, but not the generic loads of a raw buffer, and the crash
/// explorer spends most of its time on the content of blocks.
extension UnsafeRawBufferPointer {
    /// Calls `body` with the whole words of the buffer, copied if they are not aligned.
    func withWords<Result>(_ body: (UnsafePointer<UInt64>) -> Result) -> Result {
        let wordCount = count / 8
        if let baseAddress, UInt(bitPattern: baseAddress) % 8 == 0 {
            return unsafe baseAddress.withMemoryRebound(to: UInt64.self, capacity: wordCount, body)
        }
        return unsafe withUnsafeTemporaryAllocation(of: UInt64.self, capacity: wordCount + 1) { copy in
            unsafe UnsafeMutableRawBufferPointer(copy)
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: self[..<(8 * wordCount)]))
            return unsafe body(UnsafePointer(copy.baseAddress.unsafelyUnwrapped))
        }
    }

    /// A range of whole words outside which two buffers of equal length, a multiple of 8, are equal.
    func difference(from other: UnsafeRawBufferPointer) -> Range<Int> {
        unsafe withWords { words in
            unsafe other.withWords { otherWords in
                var start = 0
                var end = count / 8
                while start < end, unsafe words[start] == otherWords[start] { start = start &+ 1 }
                while end > start, unsafe words[end &- 1] == otherWords[end &- 1] { end = end &- 1 }
                return 8 * start..<8 * end
            }
        }
    }
}

/// A 64-bit hash that is the same in every run and on every platform.
struct StableHash: Hashable, Sendable {
    private(set) var value: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func mix(_ word: UInt64) {
        value = (value ^ word) &* 0xD6E8_FEB8_6659_FD93
        value ^= value &>> 32
        value = value &* 0xD6E8_FEB8_6659_FD93
        value ^= value &>> 29
    }

    mutating func mix(_ bytes: ArraySlice<UInt8>) {
        unsafe bytes.withUnsafeBytes { unsafe mix($0) }
    }

    private mutating func mix(_ bytes: UnsafeRawBufferPointer) {
        let wordCount = bytes.count / 8
        unsafe bytes.withWords { words in
            var index = 0
            while index < wordCount {
                unsafe mix(UInt64(littleEndian: words[index]))
                index &+= 1
            }
        }
        var offset = 8 * wordCount
        var tail = UInt64(truncatingIfNeeded: bytes.count)
        while offset < bytes.count {
            tail = unsafe tail << 8 | UInt64(bytes[offset])
            offset += 1
        }
        mix(tail)
    }

    /// The hash of a few words.
    static func of(_ words: UInt64...) -> UInt64 {
        var hash = StableHash()
        for word in words { hash.mix(word) }
        return hash.value
    }

    /// The hash of bytes without trailing zeros, so that bytes beyond the end of a file do not count; 0 if there are
    /// only zeros.
    static func ofContent(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        unsafe bytes.withUnsafeBytes { unsafe ofContent($0) }
    }

    private static func ofContent(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var count = bytes.count
        while count % 8 != 0, unsafe bytes[count - 1] == 0 { count -= 1 }
        if count % 8 == 0 {
            count = unsafe bytes.withWords { words in
                var left = count / 8
                while left > 0, unsafe words[left &- 1] == 0 { left = left &- 1 }
                return 8 * left
            }
            while count > 0, unsafe bytes[count - 1] == 0 { count -= 1 }
        }
        guard count > 0 else { return 0 }
        var hash = StableHash()
        unsafe hash.mix(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        return hash.value
    }
}

extension ExtendedAttributes {
    /// A hash of all names and values that is the same in every run.
    var stableHash: UInt64 {
        var hash = StableHash()
        for name in names {
            hash.mix(name[...])
            if let value = self[name] { hash.mix(value[...]) }
        }
        return hash.value
    }
}
