import ArgumentParser

/// Requires a non-empty path: Foundation treats an empty path as the current directory.
///
/// - Parameters:
///   - path: The argument; nil if it was not given.
///   - name: The kind of file at the path.
/// - Throws: `ValidationError`.
func requirePath(_ path: String?, of name: String) throws {
    // `UsageMessage` passes on messages with this prefix; they repeat no argument.
    guard path?.isEmpty != true else { throw ValidationError("Missing path: the path of the \(name) is empty") }
    guard path.map(StoreURL.isURL) != true else {
        throw ValidationError("Missing path: the \(name) must be on this machine; kv, file, copy and watch take URLs")
    }
}
