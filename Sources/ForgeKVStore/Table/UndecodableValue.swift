/// A value that could not be decoded, and whether this is the first report of it.
struct UndecodableValue: Error {
    var cause: any Error
    var isFirstReport: Bool
}
