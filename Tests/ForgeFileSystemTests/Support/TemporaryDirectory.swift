import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

/// A directory on the disk that no other test uses.
struct TemporaryDirectory {
    let url: URL

    init(in parent: URL = FileManager.default.temporaryDirectory) throws {
        url = parent.resolvingSymlinksInPath()
            .appending(path: "forge-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    var path: POSIXPath { POSIXPath(url.path(percentEncoded: false).trimmingSuffix("/")) }

    /// The umask of this process, derived from a new file: `umask(2)` would change it briefly.
    func umask() throws -> FilePermissions {
        let probe = path.appending("umask")
        let everything = FilePermissions(rawValue: 0o777)
        let fileSystem = SystemFileSystem()
        try fileSystem.close(try fileSystem.open(probe, .writeOnly, options: [.create], permissions: everything))
        let granted = try fileSystem.status(probe).permissions
        try fileSystem.unlink(probe)
        return everything.subtracting(granted)
    }

    func remove() {
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            Issue.record(error)
        }
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}

/// Expects an error of the file system with this number.
func expectErrno(_ errno: Errno, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Void) {
    let error = #expect(throws: FileSystemError.self, sourceLocation: sourceLocation) { try body() }
    #expect(error?.errno == errno, sourceLocation: sourceLocation)
}
