import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// A place that items are copied from or to: `kv:DIR`, `file:DIR`, `tree:DIR`, `json:FILE` or `json:-`.
///
/// The word before the colon is a scheme, as in a URL, so that places on other machines can be added.
struct Home: Hashable, Sendable, ExpressibleByArgument {
    enum Scheme: String, CaseIterable, Sendable {
        /// A key-value store.
        case keyValue = "kv"
        /// A file store.
        case files = "file"
        /// An ordinary directory.
        case tree
        /// Keys and values as JSON, one object per line.
        case json

        /// Whether the items are keys and values, not files.
        var isKeyValue: Bool { self == .keyValue || self == .json }

        /// Whether the place is a store of this toolkit.
        var isStore: Bool { self == .keyValue || self == .files }
    }

    let scheme: Scheme
    let path: String

    init?(argument: String) {
        guard let colon = argument.firstIndex(of: ":"), let scheme = Scheme(rawValue: String(argument[..<colon]))
        else { return nil }
        self.scheme = scheme
        path = String(argument[argument.index(after: colon)...])
        guard !path.isEmpty else { return nil }
    }

    /// Whether this is standard input or standard output.
    var isStandardStream: Bool { scheme == .json && path == "-" }

    var url: URL { URL(fileURLWithPath: path) }

    /// The place as it is written in an argument.
    var text: String { "\(scheme.rawValue):\(path)" }

    /// An item at this place, for people.
    func text(of item: String) -> String {
        switch scheme {
        case .keyValue, .json: "\(text)#\(item)"
        case .files, .tree: path.hasSuffix("/") ? text + item : "\(text)/\(item)"
        }
    }
}
