public import ForgeFileSystem

/// Any text as one component of a file key, for names that users or servers choose.
///
/// ```swift
/// let title = "Übersicht 1/2: CON"
/// try await store.saveJSON(note, to: "notes/" + FileKey.escaping(title))
/// let titles = try await store.list(in: "notes").map { FileKey.unescaping($0.name) ?? $0.name }
/// ```
///
/// A component keeps `a`–`z`, `0`–`9`, `-`, `_` and `.`. Any other byte of the text's UTF-8, a dot at either end, and
/// the first letter of a name that Windows reserves for devices become `=` and two lower-case hexadecimal digits; the
/// empty text is `=` alone. So every component is lower-case ASCII, which no file system folds or normalises, and is
/// neither hidden, reserved nor a dot component; texts that differ in any byte have different components.
public enum FileKey {
    /// The component of a text.
    ///
    /// A component has at most 255 bytes: a character that is kept takes one, any other byte of the text's UTF-8 three.
    ///
    /// - Throws: `InvalidKey` with the component, if that is longer; the reason is `.componentTooLong`, or `.tooLong`
    ///   above 1,024 bytes.
    /// - Complexity: O(bytes)
    public static func escaping(_ text: String) throws(InvalidKey) -> String {
        guard !text.isEmpty else { return "=" }
        return try RelativeKey(component: String(decoding: escaped(Array(text.utf8)), as: UTF8.self)).string
    }

    /// The text of a component; nil for a string that is not the component of any text.
    ///
    /// - Complexity: O(bytes)
    public static func unescaping(_ component: String) -> String? {
        let bytes = Array(component.utf8)
        guard !bytes.isEmpty, bytes.count <= RelativeKey.maximumComponentLength else { return nil }
        if bytes == [mark] { return "" }
        var text: [UInt8] = []
        var rest = bytes[...]
        while let byte = rest.popFirst() {
            guard byte == mark else {
                text.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(value(ofDigit:)),
                let low = rest.popFirst().flatMap(value(ofDigit:))
            else { return nil }
            text.append(high << 4 | low)
        }
        // A text has one component: any other spelling was not made by `escaping`.
        guard escaped(text) == bytes else { return nil }
        return String(validating: text, as: UTF8.self)
    }

    // MARK: Bytes

    private static let mark = UInt8(ascii: "=")
    private static let dot = UInt8(ascii: ".")
    private static let digits = Array("0123456789abcdef".utf8)

    private static func escaped(_ text: [UInt8]) -> [UInt8] {
        let isDevice = isDeviceName(text.prefix { $0 != dot })
        var component: [UInt8] = []
        for (index, byte) in text.enumerated() {
            let isAtEnd = index == 0 || index == text.count - 1
            if isPlain(byte), !(byte == dot && isAtEnd), !(isDevice && index == 0) {
                component.append(byte)
            } else {
                component += [mark, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return component
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
            UInt8(ascii: "_"), dot:
            true
        default:
            false
        }
    }

    private static func value(ofDigit byte: UInt8) -> UInt8? {
        digits.firstIndex(of: byte).map(UInt8.init)
    }

    /// Whether Windows reserves a lower-case name for a device, whatever follows its first dot. Upper-case letters are
    /// escaped in any case.
    private static func isDeviceName(_ stem: ArraySlice<UInt8>) -> Bool {
        switch stem.count {
        case 3:
            ["con", "prn", "aux", "nul"].contains { stem.elementsEqual($0.utf8) }
        case 4:
            ["com", "lpt"].contains { stem.dropLast().elementsEqual($0.utf8) }
                && (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(stem[stem.endIndex - 1])
        default:
            false
        }
    }
}
