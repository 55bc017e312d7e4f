public import ForgeKVStore

/// Values as earlier releases of an app stored them, to test that the current one still reads them.
///
/// The file is text, committed beside the tests. Each line contains the key's name, the version of its type and the
/// stored bytes in hexadecimal. Empty lines and lines that begin with `#` are ignored.
///
/// ```text
/// settings 1 1101a16569734461726bf5
/// settings 2 1102a1657468656d65646461726b
/// ```
///
/// Before a release that changes a type, add ``line(for:value:)`` of the current version; never change a line.
///
/// ```swift
/// let golden = try GoldenValues(text: String(contentsOf: url, encoding: .utf8))
/// try golden.check(settings, expecting: [1: Settings(theme: .dark), 2: Settings(theme: .dark)])
/// ```
public struct GoldenValues: Sendable {
    private var values: [(name: String, version: UInt32, bytes: [UInt8])] = []

    /// Parses the values in a text.
    ///
    /// - Throws: ``ConformanceViolation`` with the number of the invalid line.
    public init(text: String) throws {
        // By bytes, because a line feed and the next scalar may form one character.
        for (index, line) in text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            let line = line.last == 0x0D ? line.dropLast() : line
            guard let first = line.first, first != UInt8(ascii: "#") else { continue }
            let parts = line.split(separator: UInt8(ascii: " ")).map(Array.init)
            guard parts.count == 3, let name = Self.name(parts[0]),
                let version = UInt32(String(decoding: parts[1], as: UTF8.self)), let bytes = Self.bytes(parts[2])
            else { throw ConformanceViolation("line \(index + 1) does not contain a name, a version and bytes") }
            values.append((name, version, bytes))
        }
    }

    /// Checks that a key reads the values of all its versions.
    ///
    /// - Parameters:
    ///   - key: The key with its migrations.
    ///   - expected: The expected value of each readable version.
    /// - Throws: ``ConformanceViolation`` if a readable version has no line or no expected value, if a line decodes to
    ///   another value, or if the key writes the current version as other bytes than its line.
    public func check<Value: Equatable>(_ key: KVKey<Value>, expecting expected: [UInt32: Value]) throws {
        for version in key.migratedVersions + [key.schemaVersion] {
            guard let value = expected[version] else {
                throw ConformanceViolation("\(key): no value is expected of version \(version)")
            }
            let found = values.filter { $0.version == version && Array($0.name.utf8) == Array(key.name.utf8) }
            guard !found.isEmpty else { throw ConformanceViolation("\(key): there is no line of version \(version)") }
            for (_, _, bytes) in found { try check(key, version, bytes, value) }
        }
    }

    private func check<Value: Equatable>(
        _ key: KVKey<Value>, _ version: UInt32, _ bytes: [UInt8], _ expected: Value
    ) throws {
        let store = InMemoryKVStore()
        try store.setRawValue(bytes, named: key.name)
        let read: Value?
        do {
            read = try store.read(key)
        } catch {
            throw ConformanceViolation("\(key): version \(version) is not read: \(error)")
        }
        // Error messages must not contain values.
        guard read == expected else { throw ConformanceViolation("\(key): version \(version) reads as another value") }
        guard version == key.schemaVersion else { return }
        try store.set(key, value: expected)
        guard try store.rawValue(named: key.name) == bytes else {
            throw ConformanceViolation("\(key): version \(version) is written in other bytes now; is it a new version?")
        }
    }

    /// The line for a value as it is stored by this release.
    ///
    /// - Throws: `KVStoreError` if the value cannot be encoded.
    public static func line<Value>(for key: KVKey<Value>, value: Value) throws -> String {
        let store = InMemoryKVStore()
        try store.set(key, value: value)
        let bytes = try store.rawValue(named: key.name) ?? []
        let digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return "\(escaped(key.name)) \(key.schemaVersion) \(digits)"
    }

    // MARK: Text

    /// The name with blanks, line ends, `%` and `#` percent-encoded; `%` for the empty name.
    private static func escaped(_ name: String) -> String {
        guard !name.isEmpty else { return "%" }
        var bytes: [UInt8] = []
        for byte in name.utf8 {
            if byte > 0x20, byte != 0x7F, byte != UInt8(ascii: "%"), byte != UInt8(ascii: "#") {
                bytes.append(byte)
            } else {
                bytes += Array(((byte < 16 ? "%0" : "%") + String(byte, radix: 16)).utf8)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func name(_ text: [UInt8]) -> String? {
        guard text != [UInt8(ascii: "%")] else { return "" }
        var name: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                name.append(byte)
                continue
            }
            guard rest.count >= 2, let decoded = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
            else {
                return nil
            }
            name.append(decoded)
            rest = rest.dropFirst(2)
        }
        return String(validating: name, as: UTF8.self)
    }

    private static func bytes(_ digits: [UInt8]) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = digits[...]
        guard rest.count.isMultiple(of: 2) else { return nil }
        while !rest.isEmpty {
            guard let byte = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return nil }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}
