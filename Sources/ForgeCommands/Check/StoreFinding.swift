import ForgeStorage

/// The result of a check of one file or store.
struct StoreFinding: Encodable, Equatable {
    enum State: String, Encodable {
        /// All checksums are correct.
        case intact
        /// Part of it cannot be read, or differs from what was written.
        case damaged
        /// It can be read, but there is no checksum, or no key was given.
        case readable
        /// None of the given keys opens the vault, so changes to it would not be detected.
        case unverified
        /// A link, a special file, or a directory that is being deleted; it was not opened.
        case skipped
    }

    let type = "finding"
    /// The path relative to the directory that is checked.
    var path: String
    /// The kind of file or store.
    var kind: String
    var bytes: Int
    var state: State
    /// Damage, counts, and the origin of the file.
    var details: [String] = []
    /// The role of the file; that of a directory is `content`.
    var role = FileRole.content
    /// Whether its directory is the root of a store.
    var isMarked = false
    /// Whether the content itself is wrong or unreadable; not if the file is of a later version or another program's,
    /// or if this process may not read it.
    var hasWrongContent = false

    private enum CodingKeys: CodingKey {
        case type, path, kind, bytes, state, details
    }
}
