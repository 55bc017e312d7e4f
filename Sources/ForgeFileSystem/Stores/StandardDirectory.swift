import Foundation
import SystemPackage

/// A standard directory of the system for one kind of data.
public enum StandardDirectory: String, Hashable, Sendable, CaseIterable {
    /// Files that the user creates and sees: `Documents` on Apple platforms; on Linux `XDG_DOCUMENTS_DIR` from the
    /// environment or from `user-dirs.dirs`, or `~/Documents` if neither defines it.
    case documents

    /// Files of the app that the user does not see: `Application Support` on Apple platforms, `XDG_DATA_HOME` or
    /// `~/.local/share` on Linux.
    case applicationSupport

    /// Files that the app can recreate and the system may delete: `Caches` on Apple platforms, `XDG_CACHE_HOME` or
    /// `~/.cache` on Linux.
    case caches
}

#if canImport(Darwin)
extension StandardDirectory {
    /// The path of the directory for this process.
    package func path() throws(FileSystemError) -> POSIXPath {
        let kind: FileManager.SearchPathDirectory =
            switch self {
            case .documents: .documentDirectory
            case .applicationSupport: .applicationSupportDirectory
            case .caches: .cachesDirectory
            }
        guard let url = FileManager.default.urls(for: kind, in: .userDomainMask).first else {
            throw FileSystemError(.open, .noSuchFileOrDirectory)
        }
        return try POSIXPath(url)
    }
}
#else
extension StandardDirectory {
    /// The path of the directory for this process.
    package func path() throws(FileSystemError) -> POSIXPath {
        try path(
            environment: ProcessInfo.processInfo.environment,
            home: try POSIXPath(FileManager.default.homeDirectoryForCurrentUser), on: SystemFileSystem())
    }

    /// The path of the directory according to the XDG Base Directory Specification and the xdg-user-dirs tool.
    ///
    /// Paths in the environment that are empty or not absolute are ignored, as the specification requires.
    func path(
        environment: [String: String], home: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> POSIXPath {
        let home = environment.absolutePath("HOME") ?? home
        switch self {
        case .applicationSupport:
            return environment.absolutePath("XDG_DATA_HOME") ?? home.appending(".local/share")
        case .caches:
            return environment.absolutePath("XDG_CACHE_HOME") ?? home.appending(".cache")
        case .documents:
            if let path = environment.absolutePath("XDG_DOCUMENTS_DIR") { return path }
            let configuration = environment.absolutePath("XDG_CONFIG_HOME") ?? home.appending(".config")
            return try Self.documents(in: configuration.appending("user-dirs.dirs"), home: home, on: fileSystem)
                ?? home.appending("Documents")
        }
    }

    /// The path in the last line `XDG_DOCUMENTS_DIR="$HOME/…"` or `"/…"` of `user-dirs.dirs`; nil if there is none.
    private static func documents(
        in file: POSIXPath, home: POSIXPath, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> POSIXPath? {
        let content: [UInt8]
        do {
            content = try fileSystem.readFile(file, maximumSizeInBytes: 1 << 16)
        } catch  where [.noSuchFileOrDirectory, .notDirectory, .notSupported].contains(error.errno) {
            return nil  // It is missing, or disabled by a link to /dev/null.
        }
        var found: POSIXPath?
        for line in content.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
            let line = line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            let start = "XDG_DOCUMENTS_DIR=\"".utf8
            guard line.starts(with: start) else { continue }
            let value = line.dropFirst(start.count).prefix { $0 != UInt8(ascii: "\"") }
            if value.starts(with: "$HOME/".utf8) {
                found = home.appending(POSIXPath(value.dropFirst("$HOME/".utf8.count)))
            } else if value.first == UInt8(ascii: "/") {
                found = POSIXPath(value)
            }
        }
        return found
    }
}

extension [String: String] {
    fileprivate func absolutePath(_ name: String) -> POSIXPath? {
        guard let value = self[name], value.utf8.first == UInt8(ascii: "/") else { return nil }
        return POSIXPath(value)
    }
}
#endif
