/// The content of a batch, behind the prefix of the payload: for each change its operation, a zero, the lengths of name
/// and value, the name and the value.
extension LogRecord {
    /// The operation, a zero, the length of the name (two bytes) and of the value (four bytes).
    static let batchPrefixSize = 8

    /// Appends a change to the content of a batch.
    static func appendToBatch(_ code: Code, _ name: KeyName, _ value: [UInt8], _ content: inout [UInt8]) {
        content.append(code.rawValue)
        content.append(0)
        content.append(integer: UInt16(name.count))
        content.append(integer: UInt32(value.count))
        name.withBytes { content.append(contentsOf: $0) }
        content += value
    }

    /// Calls `body` with each change in the content of a batch, in order; returns false if the content is not
    /// completely valid, after calling `body` for the changes before the first invalid one.
    @inline(__always)
    static func forEachChange(inBatch content: UnsafeRawBufferPointer, _ body: (PlainChange) -> Void) -> Bool {
        var rest = content
        while !rest.isEmpty {
            guard rest.count >= batchPrefixSize, let code = Code(rawValue: rest[0]), rest[1] == 0 else { return false }
            let nameEnd = batchPrefixSize + Int(rest.integer(at: 2, as: UInt16.self))
            let valueSize = Int(clamping: rest.integer(at: 4, as: UInt32.self))
            guard nameEnd <= rest.count, valueSize <= rest.count - nameEnd else { return false }
            let end = nameEnd + valueSize
            guard let change = PlainChange(code, rest[batchPrefixSize..<nameEnd], rest[nameEnd..<end]) else {
                return false
            }
            switch code {
            case .set, .remove: body(change)
            case .removeAll, .flushed, .batch: return false
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[end...])
        }
        return !content.isEmpty
    }

    /// The changes in the content of a batch; nil if the content is not completely valid.
    static func batch(_ content: UnsafeRawBufferPointer) -> Change? {
        var changes: [Change] = []
        let isBatch = forEachChange(inBatch: content) { change in
            let name = KeyName(String(decoding: change.name, as: UTF8.self))
            changes.append(change.code == .set ? .set(name, Array(change.value)) : .remove(name))
        }
        return isBatch ? .batch(changes) : nil
    }
}

extension LogRecord.Change {
    /// The number of sequence numbers that the record takes.
    var count: UInt64 {
        guard case .batch(let changes) = self else { return 1 }
        return UInt64(changes.count)
    }
}
