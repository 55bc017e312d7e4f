import ForgeStorage
import Foundation
import SystemPackage

/// The demo's directory, identified by a marker file.
struct DemoDirectory {
    static let markerName = "forge-demo.txt"
    private static let marker = "The demo of forge made this directory. You may delete it.\n"

    let url: URL

    /// Whether an earlier demo used the directory.
    let isUsed: Bool

    /// Creates the directory and its marker, or finds both.
    ///
    /// - Throws: ``CommandFailure`` for a directory that holds files but no marker.
    init(at url: URL) throws {
        self.url = url
        let path = try POSIXPath(url)
        let fileSystem = SystemFileSystem()
        let marker = path.appending(POSIXPath(Self.markerName))
        if try fileSystem.exists(marker, followsSymbolicLinks: false) {
            isUsed = true
            return
        }
        if try fileSystem.exists(path), try !fileSystem.contentsOfDirectory(at: url).isEmpty {
            throw CommandFailure("\(path) contains other files; choose another directory")
        }
        isUsed = false
        try fileSystem.createDirectory(at: url, withIntermediateDirectories: true)
        try fileSystem.write(Data(Self.marker.utf8), to: URL(marker))
    }

    /// The files of the empty stores: logs, locks, the vault and its key.
    func remainingFiles() throws -> [String] {
        let fileSystem = SystemFileSystem()
        var found: [String] = []
        var pending = [""]
        while let below = pending.popLast() {
            for entry in try fileSystem.contentsOfDirectory(at: url.appendingPathComponent(below)) {
                let name = below.isEmpty ? entry.lastPathComponent : "\(below)/\(entry.lastPathComponent)"
                if entry.hasDirectoryPath { pending.append(name) } else { found.append(name) }
            }
        }
        return found.sorted()
    }
}
