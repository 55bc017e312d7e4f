import Foundation

/// The JSON format: Foundation's coders with settings under which values come back as they were.
struct JSONPayload {
    let maximumDepth: Int
    let maximumSize: Int

    func encode<T: Encodable>(_ value: T) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .deferredToDate
        encoder.dataEncodingStrategy = .base64
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: JSONNumber.infinity, negativeInfinity: JSONNumber.negativeInfinity, nan: JSONNumber.nan)
        let payload = [UInt8](try encoder.encode(value))
        try payload.withUnsafeBytes { try checkLimits($0, .encode) }
        return payload
    }

    func decode<T: Decodable>(_ type: T.Type, from payload: UnsafeRawBufferPointer) throws -> T {
        try checkLimits(payload, .decode)
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .deferredToDate
        decoder.dataDecodingStrategy = .base64
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: JSONNumber.infinity, negativeInfinity: JSONNumber.negativeInfinity, nan: JSONNumber.nan)
        return try decoder.decode(type, from: Data(payload))
    }

    /// Looks at the brackets before a parser that recurses does.
    private func checkLimits(
        _ bytes: UnsafeRawBufferPointer, _ operation: CodingFailure.Operation
    ) throws(CodingFailure) {
        guard bytes.count <= maximumSize else { throw CodingFailure(operation, .tooLarge(limit: maximumSize)) }
        var depth = 0
        var isInString = false
        var isEscaped = false
        for byte in bytes {
            // Foundation would also read UTF-16 and UTF-32, in which brackets could hide from this scan behind a zero.
            if byte == 0 { throw CodingFailure(operation, .corrupted("a zero byte in JSON text")) }
            if isEscaped {
                isEscaped = false
            } else if isInString {
                if byte == UInt8(ascii: "\\") { isEscaped = true }
                if byte == UInt8(ascii: "\"") { isInString = false }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "["), UInt8(ascii: "{"):
                    depth += 1
                    guard depth <= maximumDepth else { throw CodingFailure(operation, .tooDeep(limit: maximumDepth)) }
                case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
                default: break
                }
            }
        }
    }
}

/// How JSON texts of this module spell the numbers that JSON has no form for.
enum JSONNumber {
    static let infinity = "Infinity"
    static let negativeInfinity = "-Infinity"
    static let nan = "NaN"
}
