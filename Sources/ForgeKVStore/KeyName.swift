/// The name of a value as the stores compare it: by its bytes, where `String` compares characters.
package struct KeyName: Sendable {
    package let string: String

    /// Computed once, because every look-up starts with it.
    let hash: UInt64

    /// The longest name, in bytes of UTF-8.
    package static let maximumLength = 1024

    package init(_ string: String) {
        var string = string
        // So that hashing and comparing always find the bytes in one place.
        string.makeContiguousUTF8()
        self.string = string
        hash = string.withUTF8 { KeyHash.hash(UnsafeRawBufferPointer($0)) }
    }

    /// How many bytes the name has.
    package var count: Int { string.utf8.count }

    /// Calls `body` with the bytes of the name.
    @inline(__always)
    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if let result = string.utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) {
            return result
        }
        var copy = string
        return copy.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }

    /// Whether a store may keep a value under this name.
    @inline(__always)
    var isValid: Bool { count <= Self.maximumLength }

    /// Throws unless a store may keep a value under this name.
    func check(_ operation: KVStoreError.Operation, in store: String?) throws(KVStoreError) {
        guard isValid else {
            throw KVStoreError(.invalidKey, operation, key: string, store: store)
        }
    }
}

extension KeyName: Hashable {
    package static func == (left: KeyName, right: KeyName) -> Bool {
        guard left.hash == right.hash else { return false }
        return left.withBytes { leftBytes in
            right.withBytes { rightBytes in leftBytes.isEqual(to: rightBytes) }
        }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(hash)
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
