import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// The source or destination of a copy: `kv:DIR`, `file:DIR`, `tree:DIR`, `json:FILE` or `json:-`, or the URL of a
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
        /// A key-value store in etcd, without TLS.
        case etcd
        /// A key-value store in etcd, over TLS.
        case etcds
        /// A file store in S3.
        case s3

        /// Whether the items are keys with values, not files.
        var isKeyValue: Bool { [.keyValue, .json, .etcd, .etcds].contains(self) }

        /// Whether the scheme is that of a store on servers.
        var isServer: Bool { [.etcd, .etcds, .s3].contains(self) }
    }

    let scheme: Scheme
    /// The text after the colon.
    let path: String

    init?(argument: String) {
        guard let (word, path) = argument.splitAtBytes(":"), let scheme = Scheme(rawValue: word), !path.isEmpty
        else { return nil }
        self.scheme = scheme
        self.path = path
    }

    /// The directory of a local store, from an argument of a command that takes one kind of store: `DIR`, or `DIR`
    /// after the scheme of that kind and a colon.
    ///
    /// - Throws: `ValidationError` for an empty path, and for another scheme.
    static func directory(_ argument: String, _ scheme: Scheme) throws(ValidationError) -> URL {
        guard let home = Home(argument: argument), !home.scheme.isServer else {
            try requirePath(argument, of: "store")
            return URL(POSIXPath(argument))
        }
        guard home.scheme == scheme else {
            throw ValidationError(
                "\(argument) is no \(scheme.rawValue):DIR; write ./\(argument) if that is the name of a directory")
        }
        return home.url
    }

    /// The URL of a store on servers; nil for a local source or destination.
    ///
    /// - Throws: `ValidationError` if the URL is not valid.
    func server() throws(ValidationError) -> StoreURL? {
        scheme.isServer ? try StoreURL("\(scheme.rawValue):\(path)") : nil
    }

    /// Whether this is standard input or standard output.
    var isStandardStream: Bool { scheme == .json && path == "-" }

    /// The URL of the local file or directory.
    var url: URL { URL(POSIXPath(path)) }

    /// The argument, as it was written.
    var text: String { "\(scheme.rawValue):\(path)" }

    /// The text of an item of this source or destination, for messages.
    func text(of item: String) -> String {
        switch scheme {
        case .keyValue, .json: "\(text)#\(item)"
        case .files, .tree, .etcd, .etcds, .s3: path.hasByteSuffix("/") ? text + item : "\(text)/\(item)"
        }
    }
}

/// The URL of a store on servers: `etcd://host:2379/prefix`, `etcds://…` for TLS, or `s3://bucket/prefix`.
///
/// The prefix is everything after the slash that ends the host or bucket. Percent-encoding is not decoded, as in other
/// tools for S3.
struct StoreURL: Hashable, Sendable {
    enum Scheme: String, CaseIterable, Sendable {
        /// A key-value store in etcd, without TLS.
        case etcd
        /// A key-value store in etcd, over TLS.
        case etcds
        /// A file store in S3.
        case s3
    }

    /// The prefix of the keys in etcd if the URL has no path: the default prefix of the store.
    static let defaultPrefix = "forge/"
    private static let defaultPort = 2379

    let scheme: Scheme

    /// The servers of etcd as `host:port`, or the name of the bucket.
    let places: [String]

    /// The prefix of all keys, with a slash at its end; empty for a whole bucket.
    let prefix: String

    var isKeyValue: Bool { scheme != .s3 }

    /// The URL for messages, without a slash at its end.
    var text: String { "\(scheme.rawValue)://\(places.joined(separator: ","))/\(prefix)".withoutSlashAtEnd }

    /// Parses a URL.
    ///
    /// - Throws: `ValidationError`, whose message contains no part of the URL: the URL may contain a password.
    init(_ text: String) throws(ValidationError) {
        guard let (word, rest) = text.splitAtBytes("://"), let scheme = Scheme(rawValue: word) else {
            throw ValidationError("The URL of a store begins with etcd://, etcds:// or s3://")
        }
        let (authority, path) = rest.splitAtBytes("/") ?? (rest, "")
        guard !authority.utf8.contains(UInt8(ascii: "@")) else { throw Self.credentials(scheme) }
        guard !rest.utf8.contains(where: { [UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }) else {
            throw ValidationError("The URL of a store has no query (?) and no fragment (#)")
        }
        self.scheme = scheme
        places = try scheme == .s3 ? [Self.bucket(authority)] : Self.servers(authority)
        guard !path.isEmpty else {
            prefix = scheme == .s3 ? "" : Self.defaultPrefix
            return
        }
        prefix = path.hasByteSuffix("/") ? path : path + "/"
    }

    /// The URL in an argument; nil if the argument is a path.
    ///
    /// - Throws: `ValidationError` for a URL that is not that of a store.
    static func parsed(_ argument: String) throws(ValidationError) -> StoreURL? {
        guard let scheme = self.scheme(of: argument), scheme != "file" else { return nil }
        return try StoreURL(argument)
    }

    /// Whether an argument has the scheme of a store on servers.
    static func isURL(_ argument: String) -> Bool {
        scheme(of: argument).map { Scheme(rawValue: $0) != nil } ?? false
    }

    /// The scheme before `://`, in lower case; nil if the argument has no valid scheme.
    private static func scheme(of argument: String) -> String? {
        guard let (word, _) = argument.splitAtBytes("://"), let first = word.utf8.first, first.isLetter,
            word.utf8.allSatisfy({ $0.isLetter || $0.isDigit || [43, 45, 46].contains($0) })
        else { return nil }
        return word.lowercased()
    }

    /// Whether this store has the keys of another: both are on a common server or in the same bucket, and this prefix
    /// is a prefix of the other.
    func contains(_ other: StoreURL) -> Bool {
        // No bucket has the name of a server, which has a colon.
        places.contains(where: other.places.contains) && mayContain(other)
    }

    /// Whether this store would have the keys of another if the servers of both belonged to one cluster.
    func mayContain(_ other: StoreURL) -> Bool { other.prefix.utf8.starts(with: prefix.utf8) }

    // MARK: Parts

    private static func credentials(_ scheme: Scheme) -> ValidationError {
        let place =
            scheme == .s3
            ? "set them with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or with a profile"
            : "set them with ETCDCTL_USER and ETCDCTL_PASSWORD"
        return ValidationError(
            "A URL must not contain a user or password, which other processes could read: \(place)")
    }

    private static func bucket(_ name: String) throws(ValidationError) -> String {
        guard !name.utf8.contains(UInt8(ascii: ":")) else {
            throw ValidationError("s3:// is followed by a bucket: AWS_ENDPOINT_URL has the server and its port")
        }
        guard isName(name) else {
            throw ValidationError("s3:// is followed by a bucket, of letters, digits, dots, hyphens and underscores")
        }
        return name
    }

    private static func servers(_ list: String) throws(ValidationError) -> [String] {
        var servers: [String] = []
        for server in list.split(separator: ",", omittingEmptySubsequences: false) {
            // An IPv6 address, which contains colons, is in brackets.
            let end = server.firstIndex(of: "]").map(server.index(after:)) ?? server.startIndex
            let colon = server[end...].firstIndex(of: ":")
            let host = server[..<(colon ?? server.endIndex)].lowercased()
            let isAddress = host.hasPrefix("[") && host.hasSuffix("]")
            guard isAddress ? isIPv6(host.dropFirst().dropLast()) : isName(host) else {
                throw ValidationError("The URL of etcd has no valid host: etcd://host:2379/prefix")
            }
            guard let colon else {
                servers.append("\(host):\(defaultPort)")
                continue
            }
            guard let port = UInt16(server[server.index(after: colon)...]), port > 0 else {
                throw ValidationError("The URL of etcd has no valid port: etcd://host:2379/prefix")
            }
            servers.append("\(host):\(port)")
        }
        return servers
    }

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0.isLetter || $0.isDigit || [45, 46, 95].contains($0) }
    }

    private static func isIPv6(_ text: Substring) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                $0 == 58 || $0 == 46 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0
                    || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0 | 0x20
            }
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { UInt8(ascii: "a")...UInt8(ascii: "z") ~= self | 0x20 }
    fileprivate var isDigit: Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= self }
}

extension String {
    /// The text without the last character if that is a slash.
    var withoutSlashAtEnd: String { droppingByteSuffix("/") ?? self }
}

/// A directory and its ancestors, identified by device and inode, so that links and bind mounts do not hide them.
struct Ancestry {
    /// The directory; nil if it does not exist.
    private let directory: DirectoryIdentity?
    /// The directory or its nearest existing ancestor, followed by all ancestors up to the root.
    private let chain: [DirectoryIdentity]

    /// - Parameter path: An absolute path.
    init(of path: POSIXPath) {
        directory = Self.identity(of: path)
        var current = path
        var chain: [DirectoryIdentity] = []
        while Self.identity(of: current) == nil, !current.isEmpty { current = current.splitLast().parent }
        while let identity = Self.identity(of: current), identity != chain.last {
            chain.append(identity)
            current = current.appending("..")
        }
        self.chain = chain
    }

    /// The directory, or its nearest existing ancestor.
    ///
    /// A walk compares it with the directories that it enters, because paths do not show bind mounts.
    var nearest: DirectoryIdentity? { chain.first }

    /// Whether another directory is this directory or below it; false if this directory does not exist.
    func contains(_ other: Ancestry) -> Bool { directory.map(other.chain.contains) ?? false }

    /// The identity of a file or directory; nil if its status cannot be read.
    static func identity(of path: POSIXPath) -> DirectoryIdentity? {
        do throws(FileSystemError) {
            return DirectoryIdentity(try SystemFileSystem().status(path))
        } catch {
            return nil
        }
    }
}
