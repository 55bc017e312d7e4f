/// What stands in the payload of a batch: for each change its operation, a zero, the lengths of name and value, name and
/// value.
extension LogRecord {
    /// The operation, a zero, the length of the name in two bytes and that of the value in four.
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

    /// The changes in the content of a batch; nil if it is not one to the last byte.
    static func batch(_ content: UnsafeRawBufferPointer) -> Change? {
        var changes: [Change] = []
        var rest = content
        while !rest.isEmpty {
            guard rest.count >= batchPrefixSize, let code = Code(rawValue: rest[0]), rest[1] == 0 else { return nil }
            let nameSize = Int(rest.integer(at: 2, as: UInt16.self))
            let valueSize = Int(rest.integer(at: 4, as: UInt32.self))
            let size = batchPrefixSize + nameSize + valueSize
            guard size <= rest.count, nameSize <= KeyName.maximumLength else { return nil }
            let nameBytes = UnsafeRawBufferPointer(rebasing: rest[batchPrefixSize..<(batchPrefixSize + nameSize)])
            guard let name = String(validating: nameBytes, as: UTF8.self) else { return nil }
            switch code {
            case .set: changes.append(.set(KeyName(name), Array(rest[(batchPrefixSize + nameSize)..<size])))
            case .remove where valueSize == 0: changes.append(.remove(KeyName(name)))
            case .remove, .removeAll, .flushed, .batch: return nil
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[size...])
        }
        return changes.isEmpty ? nil : .batch(changes)
    }
}

extension LogRecord.Change {
    /// How many numbers its record takes.
    var count: UInt64 {
        guard case .batch(let changes) = self else { return 1 }
        return UInt64(changes.count)
    }
}
