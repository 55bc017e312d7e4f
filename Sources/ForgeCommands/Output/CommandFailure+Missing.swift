import ForgeStorage
import Foundation
import SystemPackage

extension CommandFailure {
    /// The failure of a command that needs an existing store.
    static func noStore(_ kind: String, at path: POSIXPath, hint: String = "") -> CommandFailure {
        CommandFailure("no store here: there is no \(kind) at \(path)\(hint)", .notFound)
    }
}

/// Throws if nothing exists at `url`, so that a mistyped path does not create an empty store.
///
/// - Parameters:
///   - kind: The expected kind of store, in words.
///   - url: The expected location.
///   - isDirectory: Whether it must be a directory.
///   - hint: Text that the error appends to the path.
/// - Throws: ``CommandFailure`` if it does not exist, or the error of the lookup.
func requireStore(_ kind: String, at url: URL, isDirectory: Bool = false, hint: String = "") throws {
    guard try !storeExists(at: url, isDirectory: isDirectory) else { return }
    throw CommandFailure.noStore(kind, at: try POSIXPath(url), hint: hint)
}

/// Whether a file, or if required a directory, exists at `url`.
func storeExists(at url: URL, isDirectory: Bool = false) throws -> Bool {
    do throws(FileSystemError) {
        let status = try SystemFileSystem().status(try POSIXPath(url))
        return !isDirectory || status.type == .directory
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
        return false
    }
}
