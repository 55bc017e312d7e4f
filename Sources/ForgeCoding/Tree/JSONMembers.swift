/// The members of a JSON object in order; the nesting limit applies to each member separately.
package struct JSONMembers {
    package let members: [(name: String, value: Result<CodedValue, CodingFailure>)]

    /// Parses the text of an object.
    ///
    /// A member nested more deeply than `levels` becomes a failure; the others are parsed.
    ///
    /// - Throws: ``CodingFailure`` for text that is not a JSON object, and for two members with the same name.
    package init(_ text: String, levels: Int) throws {
        var text = text
        members = try text.withUTF8 { text in
            var parser = JSONParser(UnsafeRawBufferPointer(text))
            return try parser.parseMembers(levels)
        }
    }
}

extension JSONParser {
    fileprivate mutating func parseMembers(
        _ levels: Int
    ) throws(CodingFailure) -> [(name: String, value: Result<CodedValue, CodingFailure>)] {
        var members: [(name: String, value: Result<CodedValue, CodingFailure>)] = []
        // Canonically equivalent names are different keys.
        var names: Set<[UInt8]> = []
        skipSpace()
        guard next == UInt8(ascii: "{") else { throw expected("an object") }
        try forEachMember { (parser, name) throws(CodingFailure) in
            guard names.insert(Array(name.utf8)).inserted else { throw parser.failure("a duplicate key") }
            members.append((name, try parser.member(levels)))
        }
        try requireEnd()
        return members
    }

    private mutating func member(_ levels: Int) throws(CodingFailure) -> Result<CodedValue, CodingFailure> {
        let start = offset
        do throws(CodingFailure) {
            return .success(try value(levels))
        } catch {
            guard case .tooDeep = error.reason else { throw error }
            offset = start
            try skipBrackets()
            return .failure(error)
        }
    }

    /// Skips an array or object by its brackets, at any depth.
    private mutating func skipBrackets() throws(CodingFailure) {
        var depth = 0
        repeat {
            skipSpace()
            switch next {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "\""):
                _ = try string()
                continue
            case nil: throw CodingFailure(.decode, .truncated)
            default: break
            }
            offset += 1
        } while depth > 0
    }
}
