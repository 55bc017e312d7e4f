import ForgeStorage
import Foundation
import SystemPackage

extension CommandFailure {
    /// The failure of a command that needs an existing store.
    static func noStore(_ kind: String, at path: POSIXPath, hint: String = "") -> CommandFailure {
        CommandFailure("no store here: there is no \(kind) at \(path)\(hint)")
    }
}

/// Throws if there is nothing at `url`, so that a mistyped path does not create an empty store.
///
/// - Parameters:
///   - kind: What should be there, in words.
///   - url: Where it should be.
///   - isDirectory: Whether only a directory will do.
///   - hint: What the error says behind the path.
/// - Throws: ``CommandFailure`` if it is not there, or the error of looking it up.
func requireStore(_ kind: String, at url: URL, isDirectory: Bool = false, hint: String = "") throws {
    guard try !storeExists(at: url, isDirectory: isDirectory) else { return }
    throw CommandFailure.noStore(kind, at: try POSIXPath(url), hint: hint)
}

/// Whether there is something at `url`; a directory, if only that will do.
func storeExists(at url: URL, isDirectory: Bool = false) throws -> Bool {
    do throws(FileSystemError) {
        let status = try SystemFileSystem().status(try POSIXPath(url))
        return !isDirectory || status.type == .directory
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
        return false
    }
}
