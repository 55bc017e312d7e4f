import ForgeStorage
import Foundation
import SystemPackage

extension CommandFailure {
    /// The failure of a command that needs an existing store.
    static func noStore(_ kind: String, at path: POSIXPath) -> CommandFailure {
        CommandFailure("no store here: there is no \(kind) at \(path)")
    }
}

/// Throws if there is nothing at `url`, so that a mistyped path does not create an empty store.
///
/// - Parameters:
///   - kind: What should be there, in words.
///   - url: Where it should be.
///   - isDirectory: Whether only a directory will do.
/// - Throws: ``CommandFailure`` if it is not there, or the error of looking it up.
func requireStore(_ kind: String, at url: URL, isDirectory: Bool = false) throws {
    let path = try POSIXPath(url)
    do {
        let status = try SystemFileSystem().status(path)
        guard isDirectory, status.type != .directory else { return }
    } catch  where [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) {}
    throw CommandFailure.noStore(kind, at: path)
}
