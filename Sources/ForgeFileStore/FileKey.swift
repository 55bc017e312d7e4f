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
        try RelativeKey(component: String(decoding: EscapedName.escaping(Array(text.utf8)), as: UTF8.self)).string
    }

    /// The text of a component; nil for a string that is not the component of any text.
    ///
    /// - Complexity: O(bytes)
    public static func unescaping(_ component: String) -> String? {
        guard component.utf8.count <= RelativeKey.maximumComponentLength else { return nil }
        return EscapedName.unescaping(Array(component.utf8))
    }
}
