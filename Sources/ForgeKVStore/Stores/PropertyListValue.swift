import ForgeCoding
import Foundation

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
