package import ForgeStorageTesting

/// A call on a store of named values, in a program that is crashed.
package enum StoreCall: Hashable, Sendable {
    case set(String, StoreValue)
    /// A set that fails if there is a value.
    case create(String, StoreValue)
    case remove(String)
    /// Removes every value whose name begins with this and a slash.
    case removeTree(String)
    case removeAll
    /// Sets and removals (without a value) made atomically.
    case batch([StoreChange])
    /// For a store whose single writes are not durable.
    case synchronize
    case compact
    /// Releases the store and opens another one at the same path.
    case reopen
    /// Not a call: marks that the store was opened after a crash, with the found content.
    case recovered(RecoveredContents)

    package static func set(_ name: String, _ letter: Character, count: Int = 40) -> StoreCall {
        .set(name, StoreValue(letter, count: count))
    }

    /// The content of a store after this call.
    package func apply(to contents: inout [String: StoreValue]) {
        switch self {
        case .set(let name, let value): contents[name] = value
        case .create(let name, let value): if contents[name] == nil { contents[name] = value }
        case .remove(let name): contents[name] = nil
        case .removeTree(let name): contents = contents.filter { !$0.key.hasPrefix(name + "/") }
        case .removeAll: contents = [:]
        case .batch(let changes): for change in changes { contents[change.name] = change.value }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }
}

extension StoreCall: CustomStringConvertible {
    package var description: String {
        switch self {
        case .set(let name, let value): "set \(name) to \(value)"
        case .create(let name, let value): "create \(name) as \(value)"
        case .remove(let name): "remove \(name)"
        case .removeTree(let name): "remove the tree \(name)"
        case .removeAll: "remove all"
        case .batch(let changes): "batch of " + changes.map(\.description).joined(separator: ", ")
        case .synchronize: "synchronize"
        case .compact: "compact"
        case .reopen: "reopen"
        case .recovered(let recovered): "crash \(recovered.depth)"
        }
    }
}

/// A change in a batch.
package struct StoreChange: Hashable, Sendable, CustomStringConvertible {
    package let name: String

    /// The new value; nil for a removal.
    package let value: StoreValue?

    package init(_ name: String, _ value: StoreValue?) {
        self.name = name
        self.value = value
    }

    /// The call that makes this change individually.
    package var call: StoreCall { value.map { .set(name, $0) } ?? .remove(name) }

    package var description: String { call.description }
}

/// A repeated ASCII letter, so that torn, truncated or mixed values are invalid.
package struct StoreValue: Hashable, Sendable {
    package let letter: UInt8
    package let count: Int

    package init(_ letter: Character, count: Int) {
        self.init(letter: letter.asciiValue ?? 0x3F, count: count)
    }

    package init(letter: UInt8, count: Int) {
        self.letter = count > 0 ? letter : 0
        self.count = count
    }

    /// Parses a value.
    ///
    /// - Throws: ``ConformanceViolation`` for bytes that no call has stored.
    package init(_ bytes: some Collection<UInt8>, named name: String) throws(ConformanceViolation) {
        let bytes = [UInt8](bytes)
        let letter = bytes.first ?? 0
        // A loop over a pointer: debug builds do not inline iterators.
        let equalCount = bytes.withUnsafeBufferPointer { bytes in
            var index = 0
            while index < bytes.count, bytes[index] == letter { index &+= 1 }
            return index
        }
        guard equalCount == bytes.count else {
            throw ConformanceViolation("\(name) holds \(bytes.count) bytes of different values")
        }
        self.init(letter: letter, count: bytes.count)
    }

    package var bytes: [UInt8] { Array(repeating: letter, count: count) }
    package var text: String { String(decoding: bytes, as: UTF8.self) }
}

extension StoreValue: CustomStringConvertible {
    package var description: String { count > 0 ? "\(count) × \(Character(Unicode.Scalar(letter)))" : "nothing" }
}
