import ForgeCoding
import Foundation

/// Parses property lists from any program.
enum PropertyListParser {
    /// The dictionary at the top of a property list.
    ///
    /// - Throws: ``CodingFailure`` for data that is not a property list, or has no dictionary at the top.
    static func dictionary(in data: Data) throws(CodingFailure) -> [String: Any] {
        try BinaryPropertyList.check(data)
        let list: Any
        do {
            list = try PropertyListSerialization.object(from: data)
        } catch {
            // Foundation has a limit of its own, without a specific error code.
            throw CodingFailure(
                .decode,
                .corrupted(
                    "the property list is malformed or nests deeper than \(BinaryPropertyList.maximumDepth) levels"))
        }
        guard let dictionary = list as? [String: Any] else {
            throw CodingFailure(.decode, .corrupted("no dictionary at the top of the property list"))
        }
        return dictionary
    }
}

/// Validates a binary property list before Foundation parses it, because Foundation crashes on some invalid lists and
/// takes exponential time for lists whose containers contain one another many times.
///
/// The format is described in `CFBinaryPList.c` of swift-corelibs-foundation: a header, objects that refer to one
/// another by number, a table of their offsets, and a trailer of 32 bytes.
struct BinaryPropertyList {
    private let bytes: [UInt8]
    private let offsets: [Int]
    private let referenceSize: Int
    private let root: Int

    static let maximumDepth = 512

    /// Checks that Foundation may parse the data: it is not a binary property list, or every container contains values
    /// of the documented types, none contains itself, and the expanded list is not much larger than the data, in
    /// objects and in bytes.
    static func check(_ data: Data) throws(CodingFailure) {
        guard data.starts(with: Array("bplist".utf8)) else { return }
        guard let list = BinaryPropertyList(Array(data)) else { throw malformed }
        try list.check()
    }

    static let malformed = CodingFailure(.decode, .corrupted("the property list is malformed"))

    /// Parses the trailer and the table of offsets; nil if they are not within the data.
    private init?(_ bytes: [UInt8]) {
        guard bytes.count >= 40 else { return nil }
        func integer(at offset: Int, size: Int) -> Int? {
            guard (1...8).contains(size), offset >= 0, offset <= bytes.count - size else { return nil }
            return Int(exactly: bytes[offset..<offset + size].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
        let trailer = bytes.count - 32
        let (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
        guard let count = integer(at: trailer + 8, size: 8), let root = integer(at: trailer + 16, size: 8),
            let table = integer(at: trailer + 24, size: 8), (1...8).contains(offsetSize),
            (1...8).contains(referenceSize),
            count <= bytes.count, root < count, table <= trailer, count <= (trailer - table) / offsetSize
        else { return nil }
        var offsets: [Int] = []
        for number in 0..<count {
            guard let offset = integer(at: table + number * offsetSize, size: offsetSize), offset < table else {
                return nil
            }
            offsets.append(offset)
        }
        self.bytes = bytes
        self.offsets = offsets
        self.referenceSize = referenceSize
        self.root = root
    }

    private func check() throws(CodingFailure) {
        var count = Count(sizes: [Size?](repeating: nil, count: offsets.count), unread: bytes.count)
        let size = try size(of: root, &count, depth: 0)
        guard size.values <= 4 * bytes.count, size.bytes <= Self.freeBytes + 16 * bytes.count else {
            throw CodingFailure(.decode, .corrupted("the property list repeats its objects too often"))
        }
    }

    /// The number of bytes of texts and data that any list may have, however short it is.
    private static let freeBytes = 64 << 20

    /// The size of an object expanded to a tree: an object in several containers counts once for each.
    private struct Size {
        var values: Int
        var bytes: Int

        mutating func add(_ other: Size) {
            values = min(values + other.values, Int.max / 2)
            bytes = min(bytes + other.bytes, Int.max / 2)
        }
    }

    private struct Count {
        /// The size of each object: nil before it is counted, zero values while it is, which reveals a cycle.
        var sizes: [Size?]

        /// The number of references that may still be read: each takes at least a byte, and containers do not share
        /// references.
        var unread: Int
    }

    /// The size of an object.
    ///
    /// - Throws: ``CodingFailure`` for an object that Foundation must not parse, such as one that contains itself.
    private func size(of object: Int, _ count: inout Count, depth: Int) throws(CodingFailure) -> Size {
        guard object < offsets.count, count.sizes[object]?.values != 0 else { throw Self.malformed }
        guard depth <= Self.maximumDepth else { throw CodingFailure(.decode, .tooDeep(limit: Self.maximumDepth)) }
        if let size = count.sizes[object] { return size }
        count.sizes[object] = Size(values: 0, bytes: 0)
        guard let length = length(of: object) else { throw Self.malformed }
        var sum = Size(values: 1, bytes: length)
        guard let references = references(of: object), references.count <= count.unread else { throw Self.malformed }
        count.unread -= references.count
        for reference in references {
            sum.add(try size(of: reference, &count, depth: depth + 1))
        }
        count.sizes[object] = sum
        return sum
    }

    /// The number of bytes of a text or data, 0 for any other type; nil if the list is shorter.
    private func length(of object: Int) -> Int? {
        let marker = bytes[offsets[object]]
        guard (0x4...0x6).contains(marker >> 4) else { return 0 }
        guard let count = count(at: offsets[object])?.count else { return nil }
        return marker >> 4 == 0x6 ? 2 * count : count
    }

    /// The objects in a container, none for any other type; nil for a type that property lists do not have.
    private func references(of object: Int) -> [Int]? {
        let offset = offsets[object]
        let marker = bytes[offset]
        switch marker >> 4 {
        // A keyed archive's reference to an object (0x8) fails as the value that contains it, not as the whole list.
        case 0x0 where [0x08, 0x09].contains(marker), 0x1...0x6, 0x8: return []
        case 0xA: return references(from: offset, perElement: 1)
        case 0xD: return references(from: offset, perElement: 2)
        default: return nil
        }
    }

    private func references(from offset: Int, perElement: Int) -> [Int]? {
        guard let (count, start) = count(at: offset) else { return nil }
        var references: [Int] = []
        for place in 0..<count * perElement {
            guard let reference = integer(at: start + place * referenceSize, referenceSize) else { return nil }
            references.append(reference)
        }
        return references
    }

    /// The number of elements, bytes or characters of the object at an offset, and their start; nil for more than the
    /// list has bytes.
    private func count(at offset: Int) -> (count: Int, start: Int)? {
        var count = Int(bytes[offset] & 0xF)
        var start = offset + 1
        if count == 0xF {
            // The count follows as an integer.
            guard start < bytes.count, bytes[start] >> 4 == 1, bytes[start] & 0xF <= 3 else { return nil }
            let size = 1 << Int(bytes[start] & 0xF)
            guard let long = integer(at: start + 1, size) else { return nil }
            count = long
            start += 1 + size
        }
        return count <= bytes.count ? (count, start) : nil
    }

    private func integer(at offset: Int, _ size: Int) -> Int? {
        guard offset <= bytes.count - size else { return nil }
        return Int(exactly: bytes[offset..<offset + size].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
}
