import Foundation

/// A directory of this run's own, in which every store has one of its own.
struct Workspace: Sendable {
    let url: URL

    /// A directory that is not there yet, in `parent`, so that nobody else's files are ever removed.
    ///
    /// On Linux the process starts itself over once, under the same number, since only then does Foundation keep its files
    /// in the directory as well.
    init(in parent: URL) throws {
        url = parent.appendingPathComponent("forge-benchmark-\(ProcessInfo.processInfo.processIdentifier)")
        #if os(Linux)
        guard ProcessInfo.processInfo.environment[DefaultsStore.directoryVariable] != url.path else { return }
        #endif
        try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        #if os(Linux)
        setenv(DefaultsStore.directoryVariable, url.path, 1)
        execv("/proc/self/exe", CommandLine.unsafeArgv)
        throw PeerFailure(library: "UserDefaults", operation: "execv", code: errno)
        #endif
    }

    /// A place for a store of FileKVStore, which makes its directory itself.
    func place(_ name: String) -> URL { url.appendingPathComponent(name, isDirectory: true) }

    /// The path of an empty directory that is there.
    func directory(_ name: String) throws -> String {
        let place = place(name)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        return place.path
    }

    /// The path of a file that is not there yet.
    func file(_ name: String) -> String { url.appendingPathComponent(name).path }

    /// A suite of `UserDefaults` of this run's own.
    func suite(_ name: String) -> String { "\(url.lastPathComponent)-\(name)" }

    func remove() throws { try FileManager.default.removeItem(at: url) }
}
