/// The failure of a command, printed as one line on standard error.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let status: ExitStatus

    init(_ description: String, _ status: ExitStatus = .failure) {
        self.description = description
        self.status = status
    }
}
