/// Which peers this build has, and where they keep their files.
enum Peers {
    /// The libraries that are built in and their versions.
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

    /// What marks figures that were measured elsewhere.
    static let elsewhere = "(reference machine, not this run)"
}
