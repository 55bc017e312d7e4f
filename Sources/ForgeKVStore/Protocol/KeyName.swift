/// A name compared by its bytes; `String` compares characters, so canonically equivalent strings are equal.
package struct KeyName: Sendable {
    package let string: String

    /// Computed once, because every look-up uses it.
    let hash: UInt64

    /// The number of bytes.
    package let count: Int

    /// The first, next and last eight bytes, which identify a name of up to ``wordsLength`` bytes; shorter ones are
    /// padded with zeros.
    ///
    /// For a longer name the second word is the address of its UTF-8, in immutable storage that `string` owns:
    /// comparing the bytes does not retain the string.
    private let words: (first: UInt64, second: UInt64, last: UInt64)

    /// The longest name, in bytes of UTF-8.
    package static let maximumLength = 1024

    private static let wordsLength = 24

    package init(_ string: String) {
        var string = string
        // From here on, the UTF-8 of all but small strings, which are stored inline, has a stable address.
        string.makeContiguousUTF8()
        (hash, count, words) = string.withUTF8 { buffer in
            let bytes = UnsafeRawBufferPointer(buffer)
            return (KeyHash.hash(bytes), bytes.count, Self.words(bytes))
        }
        self.string = string
    }

    private static func words(_ bytes: UnsafeRawBufferPointer) -> (first: UInt64, second: UInt64, last: UInt64) {
        guard bytes.count >= 8 else {
            return (bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }, 0, 0)
        }
        let second: UInt64 =
            switch bytes.count {
            case ...16: 0
            case ...wordsLength: bytes.integer(at: 8, as: UInt64.self)
            default: UInt64(UInt(bitPattern: bytes.baseAddress))
            }
        return (
            bytes.integer(at: 0, as: UInt64.self), second, bytes.integer(at: bytes.count - 8, as: UInt64.self)
        )
    }

    /// The bytes of a name longer than ``wordsLength``.
    @inline(__always)
    private var longBytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: UInt(words.second)), count: count)
    }

    /// Calls `body` with the bytes of the name.
    @inline(__always)
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if count > Self.wordsLength {
            defer { withExtendedLifetime(string) {} }
            return try body(longBytes)
        }
        var bytes: (UInt64, UInt64, UInt64) = (words.first.littleEndian, words.second.littleEndian, 0)
        return try withUnsafeMutableBytes(of: &bytes) { (bytes) throws(Failure) in
            // The last eight bytes, which may overlap the others.
            if count > 8 { bytes.storeBytes(of: words.last.littleEndian, toByteOffset: count - 8, as: UInt64.self) }
            return try body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    /// Whether the name equals `count` bytes, which zeros pad to a multiple of eight.
    @inline(__always)
    func isEqual(to other: UnsafeRawPointer, count otherCount: Int) -> Bool {
        guard count == otherCount else { return false }
        if count == 0 { return true }
        guard UInt64(littleEndian: other.load(as: UInt64.self)) == words.first else { return false }
        if count <= 8 { return true }
        let last = other.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
        guard UInt64(littleEndian: last) == words.last else { return false }
        if count <= 16 { return true }
        if count <= Self.wordsLength {
            return UInt64(littleEndian: other.load(fromByteOffset: 8, as: UInt64.self)) == words.second
        }
        defer { withExtendedLifetime(string) {} }
        return longBytes.isEqual(to: UnsafeRawBufferPointer(start: other, count: count))
    }
}

extension KeyName {
    /// Whether the name is valid for a stored value.
    @inline(__always)
    var isValid: Bool { count <= Self.maximumLength }

    /// Throws unless the name is valid for a stored value.
    func validate(_ operation: KVStoreError.Operation, in store: String?) throws(KVStoreError) {
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
    /// The name in quotes, truncated to 80 characters, with control characters as `\u{…}`.
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
