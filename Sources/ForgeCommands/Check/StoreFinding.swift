/// What a check found out about one file or store.
struct StoreFinding: Encodable, Equatable {
    enum State: String, Encodable {
        /// Everything that has a checksum has the right one.
        case intact
        /// Something cannot be read, or is not what was written.
        case damaged
        /// It can be read; there is no checksum, or the key to it was not given.
        case readable
        /// Neither a file nor a directory, so it was not opened.
        case skipped
    }

    /// The path relative to the directory that is checked.
    var path: String
    /// What it is.
    var kind: String
    var bytes: Int
    var state: State
    /// What is wrong, or worth knowing.
    var details: [String] = []
}
