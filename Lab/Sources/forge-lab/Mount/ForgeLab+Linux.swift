#if os(Linux)
import ArgumentParser

extension ForgeLab {
    /// Commands available on this platform only.
    static let platformCommands: [any ParsableCommand.Type] = [MountCommand.self, UnmountCommand.self]
}
#endif
