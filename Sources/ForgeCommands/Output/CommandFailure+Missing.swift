import ForgeStorage
import Foundation

extension CommandFailure {
    /// The failure of a command that needs an existing store.
    static func noStore(_ kind: String, at path: POSIXPath) -> CommandFailure {
        CommandFailure("no store here: there is no \(kind) at \(path)")
    }
}

/// Throws if there is nothing at `url`, so that a mistyped path does not create an empty store.
func requireStore(_ kind: String, at url: URL) throws {
    let path = try POSIXPath(url)
    guard try SystemFileSystem().exists(path) else { throw CommandFailure.noStore(kind, at: path) }
}
