/// The names of a namespace in a store.
struct KVNamespace: Sendable {
    /// The namespace, unencoded.
    let namespace: String

    /// The prefix of every name: the namespace with `%` and `/` encoded, and a slash.
    let prefix: String

    init(_ namespace: String) {
        self.namespace = namespace
        var bytes: [UInt8] = []
        for byte in namespace.utf8 {
            switch byte {
            case UInt8(ascii: "%"): bytes += "%25".utf8
            case UInt8(ascii: "/"): bytes += "%2F".utf8
            default: bytes.append(byte)
            }
        }
        prefix = String(decoding: bytes + [UInt8(ascii: "/")], as: UTF8.self)
    }

    /// The name in the namespace; nil for a name that is not in it.
    func outer(_ name: String) -> String? {
        guard name.utf8.starts(with: prefix.utf8) else { return nil }
        return String(decoding: name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
    }
}
