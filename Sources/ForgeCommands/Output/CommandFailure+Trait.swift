extension CommandFailure {
    /// The failure of a verb that needs a part of the package, which a trait adds.
    static func notBuilt(_ part: String, trait: String) -> CommandFailure {
        CommandFailure(
            "this forge was built without \(part); build it with: swift build --traits \(trait)", .notBuilt)
    }
}
