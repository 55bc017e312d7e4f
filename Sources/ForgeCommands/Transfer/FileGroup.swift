import ForgeStorage

/// Some files of one directory.
struct FileGroup: Sendable {
    /// Relative to the root; empty for the root itself.
    var directory: POSIXPath
    var names: [POSIXPath] = []

    func path(of name: POSIXPath) -> POSIXPath { directory.isEmpty ? name : directory.appending(name) }
}
