#if !os(Linux)
import ArgumentParser

extension ForgeLab {
    /// What only this platform can do.
    static let platformCommands: [any ParsableCommand.Type] = []
}
#endif
