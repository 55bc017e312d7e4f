import ArgumentParser

/// Requires that a path is not empty: Foundation takes an empty path for the current directory.
///
/// - Parameters:
///   - path: The argument; nil if it was not given.
///   - name: What it is the path of.
/// - Throws: `ValidationError`.
func requirePath(_ path: String?, of name: String) throws {
    // `UsageMessage` passes on messages that begin like this; they repeat no argument.
    guard path?.isEmpty != true else { throw ValidationError("Missing path: the path of the \(name) is empty") }
}
