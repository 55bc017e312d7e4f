import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// A place that items are copied from or to: `kv:DIR`, `file:DIR`, `tree:DIR`, `json:FILE` or `json:-`, or the URL of a
/// store on servers.
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
        /// A key-value store in etcd.
        case etcd
        case etcds
        /// A file store in S3.
        case s3

        /// Whether the items are keys and values, not files.
        var isKeyValue: Bool { [.keyValue, .json, .etcd, .etcds].contains(self) }

        /// Whether the place is a store of this toolkit.
        var isStore: Bool { self != .json && self != .tree }

        /// Whether the place is a store on servers.
        var isServer: Bool { [.etcd, .etcds, .s3].contains(self) }
    }

    let scheme: Scheme
    /// What comes after the colon.
    let path: String

    init?(argument: String) {
        guard let colon = argument.firstIndex(of: ":") else { return nil }
        // Another word for a file store on this machine.
        let word = argument[..<colon] == "disk" ? Scheme.files.rawValue : String(argument[..<colon])
        guard let scheme = Scheme(rawValue: word) else { return nil }
        self.scheme = scheme
        path = String(argument[argument.index(after: colon)...])
        guard !path.isEmpty else { return nil }
    }

    /// The URL of a store on servers; nil for a place on this machine.
    ///
    /// - Throws: `ValidationError` if it is not valid.
    func server() throws(ValidationError) -> StoreURL? {
        scheme.isServer ? try StoreURL("\(scheme.rawValue):\(path)") : nil
    }

    /// Whether this is standard input or standard output.
    var isStandardStream: Bool { scheme == .json && path == "-" }

    /// The place on this machine.
    var url: URL { URL(fileURLWithPath: path) }

    /// The place as it is written in an argument.
    var text: String { "\(scheme.rawValue):\(path)" }

    /// An item at this place, for people.
    func text(of item: String) -> String {
        switch scheme {
        case .keyValue, .json: "\(text)#\(item)"
        case .files, .tree, .etcd, .etcds, .s3: path.hasSuffix("/") ? text + item : "\(text)/\(item)"
        }
    }
}
