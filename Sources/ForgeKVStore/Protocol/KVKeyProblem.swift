/// A mistake in the names of an app's keys.
public enum KVKeyProblem: Hashable, Sendable {
    /// The key is declared several times.
    case duplicate(name: String, count: Int)

    /// Keys of one name have different types: each type cannot decode the values of the others.
    case severalTypes(name: String, types: [String])

    /// Keys of one name have different schema versions: the older key rejects values of the newer one.
    case severalVersions(name: String, versions: [UInt32])

    /// Names that differ only in case or Unicode normalisation: distinct keys that look alike.
    case similar(names: [String])

    /// The name is longer than ``KVKey/maximumNameLength``.
    case tooLong(name: String)

    /// The affected name, or the first of several.
    public var name: String {
        switch self {
        case .duplicate(let name, _), .severalTypes(let name, _), .severalVersions(let name, _), .tooLong(let name):
            name
        case .similar(let names): names.first ?? ""
        }
    }
}

extension KVKeyProblem: CustomStringConvertible {
    /// A line such as `"theme" is declared 2 times`.
    public var description: String {
        let name = KeyName(name).description
        switch self {
        case .duplicate(_, let count): return "\(name) is declared \(count) times"
        case .severalTypes(_, let types): return "\(name) is declared with \(types.joined(separator: " and "))"
        case .severalVersions(_, let versions):
            return "\(name) is declared with versions \(versions.map(String.init).joined(separator: " and "))"
        case .similar(let names):
            return names.map { name in
                // Escaped, so that invisible differences show.
                "\"" + name.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() + "\""
            }
            .joined(separator: " and ") + " differ in case or normalisation only"
        case .tooLong: return "\(name) is longer than \(KeyName.maximumLength) bytes"
        }
    }
}
