/// The name of a value as the stores compare it: by its bytes, where `String` compares characters.
package struct KeyName: Sendable {
    package let string: String

    /// The longest name, in bytes of UTF-8.
    package static let maximumLength = 1024

    package init(_ string: String) {
        var string = string
        // So that hashing and comparing always find the bytes in one place.
        string.makeContiguousUTF8()
        self.string = string
    }

    /// How many bytes the name has.
    package var count: Int { string.utf8.count }

    /// Calls `body` with the bytes of the name.
    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        var copy = string
        return copy.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }

    /// Throws unless a store may keep a value under this name.
    func check(_ operation: KVStoreError.Operation, in store: String?) throws(KVStoreError) {
        guard count <= Self.maximumLength else {
            throw KVStoreError(.invalidKey, operation, key: string, store: store)
        }
    }
}

extension KeyName: Hashable {
    package static func == (left: KeyName, right: KeyName) -> Bool {
        let count = left.count
        guard count == right.count else { return false }
        return left.withBytes { leftBytes in
            right.withBytes { rightBytes in leftBytes.elementsEqual(rightBytes) }
        }
    }

    package func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: $0) }
    }
}

extension KeyName: CustomStringConvertible {
    /// The name in quotes, cut at 80 characters, control characters shown as `\u{…}`.
    package var description: String {
        var text = "\""
        for scalar in string.prefix(80).unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned:
                text += "\\u{\(String(scalar.value, radix: 16))}"
            default:
                text.unicodeScalars.append(scalar)
            }
        }
        return text + (string.count > 80 ? "…\"" : "\"")
    }
}
