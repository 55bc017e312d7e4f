/// The result of a check of one file or store.
struct StoreFinding: Encodable, Equatable {
    enum State: String, Encodable {
        /// Everything that has a checksum has the right one.
        case intact
        /// Something cannot be read, or is not what was written.
        case damaged
        /// It can be read; there is no checksum, or no key was given.
        case readable
        /// None of the given keys opens the vault, so that a change of it would not be noticed.
        case unverified
        /// A link, a special file, or a directory that is being deleted; it was not opened.
        case skipped
    }

    /// The path relative to the directory that is checked.
    var path: String
    /// What it is.
    var kind: String
    var bytes: Int
    var state: State
    /// Damage, counts, and where the file comes from.
    var details: [String] = []
}
