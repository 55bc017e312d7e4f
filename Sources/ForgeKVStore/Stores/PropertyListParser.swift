import ForgeCoding
import Foundation

// Memory safety: Two calls of Foundation take or return addresses: of nothing, and of a constant C string.

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
            Int(exactly: bytes[offset..<offset + size].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
        let trailer = bytes.count - 32
        let (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
        guard let count = integer(at: trailer + 8, size: 8), let root = integer(at: trailer + 16, size: 8),
            let table = integer(at: trailer + 24, size: 8), (1...8).contains(offsetSize),
            (1...8).contains(referenceSize),
            root < count, table <= trailer, count <= (trailer - table) / offsetSize
        else { return nil }
        // The table is within the data.
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
            guard bytes[start] >> 4 == 1, bytes[start] & 0xF <= 3 else { return nil }
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

/// A value as it is stored in the user defaults: natively if a property list keeps it exactly, else as coded bytes.
///
/// Foundation on Linux writes XML, which rounds dates to seconds, drops the sign of zero and a byte order mark at the
/// start of a text, and cannot properly hold control characters.
enum PropertyListValue {
    /// The prefix of coded bytes. Data with the same prefix is itself stored as coded bytes.
    static let marker = Array("ForgeKV\u{1}".utf8)

    /// The object for a value in its envelope.
    ///
    /// `isDictionary`: the value's type is a dictionary, so a map may become a property-list dictionary.
    static func object(for bytes: [UInt8], isDictionary: Bool) -> Any {
        do {
            let envelope = try ValueEnvelope(decoding: bytes)
            if envelope.schemaVersion == 1,
                let object = native(try CodedValue(decoding: envelope), isDictionary: isDictionary)
            {
                return object
            }
        } catch {
            // Not a valid envelope; the next read reports it.
        }
        return Data(marker + bytes)
    }

    /// The object for a raw value: a property-list object only if the same bytes are read back.
    static func exactObject(for bytes: [UInt8]) -> Any {
        let object = object(for: bytes, isDictionary: false)
        return self.bytes(of: object) == bytes ? object : Data(marker + bytes)
    }

    private static func native(_ tree: CodedValue, isDictionary: Bool) -> Any? {
        switch tree {
        case .bool(let value): return value
        case .integer(let value): return Int(exactly: value)
        case .float(let value): return native(Double(value))
        case .double(let value): return native(value)
        case .string(let value): return isSafe(value) ? value : nil
        case .bytes(let value): return value.starts(with: marker) ? nil : Data(value)
        case .date(let value): return native(value)
        case .array(let elements):
            var objects: [Any] = []
            for element in elements {
                guard let object = native(element, isDictionary: isDictionary) else { return nil }
                objects.append(object)
            }
            return objects
        case .map(let entries):
            guard isDictionary else { return nil }
            var objects: [String: Any] = [:]
            for entry in entries {
                guard case .string(let name) = entry.key, UserDefaultsName.isPlain(name),
                    let object = native(entry.value, isDictionary: isDictionary)
                else { return nil }
                objects[name] = object
            }
            return objects
        case .null, .unsigned, .tagged, .simple: return nil
        }
    }

    private static func native(_ value: Double) -> Any? {
        value.isFinite && !(value == 0 && value.sign == .minus) ? value : nil
    }

    private static func native(_ date: Date) -> Any? {
        let seconds = date.timeIntervalSince1970
        // The years 1600 to 9999, which every calendar and every date format agrees on.
        guard seconds == seconds.rounded(), (-11_676_096_000..<253_402_300_800).contains(seconds) else { return nil }
        return date
    }

    private static func isSafe(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0x09, 0x0A: true
            case ..<0x20, 0x7F...0x9F, 0xFEFF, 0xFFFE, 0xFFFF: false
            default: true
            }
        }
    }

    /// The value in its envelope for an object, whichever program stored it; nil if there is none.
    static func bytes(of object: Any) -> [UInt8]? {
        do {
            return try encoded(object)
        } catch {
            return nil
        }
    }

    /// The value in its envelope for an object, whichever program stored it.
    ///
    /// - Throws: ``CodingFailure`` for an object that nests too deep, or is of a type that property lists do not have.
    static func encoded(_ object: Any) throws(CodingFailure) -> [UInt8] {
        if let data = object as? Data, data.starts(with: marker) { return Array(data.dropFirst(marker.count)) }
        let tree = try tree(of: object, levels: CodedValue.maximumDepth)
        do {
            return ValueEnvelope(schemaVersion: 1, payload: try tree.encoded()).encoded
        } catch {
            throw tooDeep
        }
    }

    /// The value in its envelope that `bool(forKey:)` returns for a number, or `integer(forKey:)` for a Boolean; nil for
    /// another object.
    static func convertedNumber(_ object: Any) throws(CodingFailure) -> [UInt8]? {
        guard !(object is String), !(object is Data), !(object is Date), let number = object as? NSNumber else {
            return nil
        }
        let converted: CodedValue
        switch Self.number(number) {
        case .bool(let value): converted = .integer(value ? 1 : 0)
        case .integer(let value): converted = .bool(value != 0)
        case .unsigned(let value): converted = .bool(value != 0)
        default: converted = .bool(number.doubleValue != 0)
        }
        do {
            return ValueEnvelope(schemaVersion: 1, payload: try converted.encoded()).encoded
        } catch {
            throw tooDeep
        }
    }

    private static let tooDeep = CodingFailure(.decode, .tooDeep(limit: CodedValue.maximumDepth))

    private static func tree(of object: Any, levels: Int) throws(CodingFailure) -> CodedValue {
        switch object {
        case let value as String: return .string(value)
        case let value as Data: return .bytes(Array(value))
        case let value as Date: return .date(value)
        case let value as NSNumber: return number(value)
        case let value as [Any]:
            guard levels > 0 else { throw tooDeep }
            var elements: [CodedValue] = []
            for element in value { elements.append(try tree(of: element, levels: levels - 1)) }
            return .array(elements)
        case let value as [String: Any]:
            guard levels > 0 else { throw tooDeep }
            var entries: [CodedValue.Entry] = []
            // In a fixed order, so that equal dictionaries have equal bytes.
            for (name, element) in value.sorted(by: { $0.key < $1.key }) {
                entries.append(CodedValue.Entry(.string(name), try tree(of: element, levels: levels - 1)))
            }
            return .map(entries)
        default: throw CodingFailure(.decode, .corrupted("the property list contains an object of another type"))
        }
    }

    private static func number(_ number: NSNumber) -> CodedValue {
        switch number.typeCode {
        case UInt8(ascii: "c"), UInt8(ascii: "B"): .bool(number.boolValue)
        case UInt8(ascii: "d"), UInt8(ascii: "f"): .double(number.doubleValue)
        case UInt8(ascii: "Q"):
            UInt64(exactly: number).map { $0 > Int64.max ? .unsigned($0) : .integer(Int64($0)) }
                ?? .integer(number.int64Value)
        default: .integer(number.int64Value)
        }
    }

    // MARK: Size

    /// An upper bound of the size of a property list in binary form: no object is stored once for several uses, and
    /// lengths, references and offsets have their largest size.
    static func maximumSize(of object: Any) -> Int {
        let overhead = 9 + 8 + 8  // The marker with the length, the offset, and the reference.
        return switch object {
        case let text as String: overhead + text.utf16.count * 2
        case let data as Data: overhead + data.count
        case let elements as [Any]: elements.reduce(overhead) { $0 + maximumSize(of: $1) }
        case let entries as [String: Any]:
            entries.reduce(overhead) { $0 + maximumSize(of: $1.key) + maximumSize(of: $1.value) }
        default: overhead + 16
        }
    }
}

// MARK: Calls of Foundation that take or return pointers

extension PropertyListSerialization {
    /// The object that a property list contains.
    static func object(from data: Data) throws -> Any {
        try unsafe propertyList(from: data, options: [], format: nil)
    }
}

extension NSNumber {
    /// The character that stands for the type of the number (`objCType`).
    var typeCode: UInt8 { UInt8(bitPattern: unsafe objCType.pointee) }
}

/// What user defaults have under the name of a key.
enum StoredObject: Equatable, Sendable {
    case none

    /// An object that no type can be decoded from.
    case foreign
    case value([UInt8])

    init(_ object: Any?) {
        guard let object else {
            self = .none
            return
        }
        self = PropertyListValue.bytes(of: object).map { .value($0) } ?? .foreign
    }
}
