/// A mistake in the names of an app's keys.
public enum KVKeyProblem: Hashable, Sendable {
    /// The same key is declared several times.
    case duplicate(name: String, count: Int)

    /// Keys of one name have different types: each finds the values of the others undecodable.
    case severalTypes(name: String, types: [String])

    /// Keys of one name know different versions of their type: one refuses what another writes.
    case severalVersions(name: String, versions: [UInt32])

    /// The names differ in case or in their Unicode normalisation alone, or look the same for these reasons: two keys to a
    /// store, and one to a reader.
    case similar(names: [String])

    /// The name is longer than ``KVKey/maximumNameLength``.
    case tooLong(name: String)

    /// The name that it is about, or the first of them.
    public var name: String {
        switch self {
        case .duplicate(let name, _), .severalTypes(let name, _), .severalVersions(let name, _), .tooLong(let name):
            name
        case .similar(let names): names.first ?? ""
        }
    }
}

extension KVKeyProblem: CustomStringConvertible {
    /// One line: `"theme" is declared 2 times`.
    public var description: String {
        let name = KeyName(name).description
        switch self {
        case .duplicate(_, let count): return "\(name) is declared \(count) times"
        case .severalTypes(_, let types): return "\(name) is declared with \(types.joined(separator: " and "))"
        case .severalVersions(_, let versions):
            return "\(name) is declared with versions \(versions.map(String.init).joined(separator: " and "))"
        case .similar(let names):
            return names.map { name in
                // Escaped, or the difference could not be seen.
                "\"" + name.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() + "\""
            }
            .joined(separator: " and ") + " differ in case or normalisation only"
        case .tooLong: return "\(name) is longer than \(KeyName.maximumLength) bytes"
        }
    }
}
