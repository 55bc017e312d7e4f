/// The peers in this build and the paths of their files.
enum Peers {
    /// The linked libraries and their versions.
    static var versions: String {
        var versions: [String] = []
        #if canImport(CLMDB)
        versions.append(LMDBStore.version)
        #else
        versions.append("LMDB not built in")
        #endif
        #if canImport(CSQLite) || canImport(SQLite3)
        versions.append(SQLiteStore.version)
        #else
        versions.append("SQLite not built in")
        #endif
        return versions.joined(separator: ", ")
    }

    /// The label of figures from another machine.
    static let elsewhere = "(reference machine, not this run)"
}
