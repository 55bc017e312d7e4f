import ForgeFileSystem

/// A log of records with lengths and checksums, and options for typical mistakes.
struct TestLog: Sendable {
    var checksSums = true
    var acceptsEmptyRecords = false
    /// Whether recovery truncates an invalid tail before it appends.
    var cutsTail = true
    /// Whether it appends after the last record, not at the end of the file.
    var appendsAtLastRecord = true
    var path = "/d/log"

    static let header = Array("LOG1".utf8)

    static func record(_ payload: [UInt8]) -> [UInt8] {
        bytes(UInt32(payload.count)) + bytes(sum(payload)) + payload
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private static func sum(_ payload: [UInt8]) -> UInt32 {
        payload.withUnsafeBufferPointer { bytes in
            var sum = 2_166_136_261 ^ UInt32(bytes.count)
            var index = 0
            // A loop over the indices of a pointer: debug builds do not inline iterators.
            while index < bytes.count {
                sum = (sum ^ UInt32(bytes[index])) &* 16_777_619
                index &+= 1
            }
            return sum
        }
    }

    /// The records of a log, and the end of the last one; nil without a header.
    func parse(_ content: [UInt8]) -> (records: [[UInt8]], end: Int)? {
        guard content.starts(with: Self.header) else { return nil }
        var records: [[UInt8]] = []
        var end = Self.header.count
        while content.count - end >= 8 {
            let length = Int(Self.number(content, at: end))
            guard length <= content.count - end - 8, length > 0 || acceptsEmptyRecords else { break }
            let payload = Array(content[(end + 8)..<(end + 8 + length)])
            let sum = Self.number(content, at: end + 4)
            if checksSums, sum != Self.sum(payload), !(acceptsEmptyRecords && length == 0) { break }
            records.append(payload)
            end += 8 + length
        }
        return (records, end)
    }

    private static func number(_ content: [UInt8], at offset: Int) -> UInt32 {
        (0..<4).reduce(0) { $0 | UInt32(content[offset + $1]) << (8 * $1) }
    }

    /// Reads the log, and prepares it for the next append.
    func open(_ fileSystem: InMemoryFileSystem) throws -> (records: [[UInt8]], end: Int)? {
        guard let content = try fileSystem.content(path), let found = parse(content) else { return nil }
        if cutsTail, found.end < content.count {
            try fileSystem.cut(path, to: found.end)
            try fileSystem.sync(path)
        }
        return appendsAtLastRecord ? found : (found.records, content.count)
    }

    func append(_ payloads: [UInt8]..., at end: Int? = nil, to fileSystem: InMemoryFileSystem) throws {
        try fileSystem.patch(path, payloads.flatMap(Self.record), at: end.map(Int64.init))
    }
}
