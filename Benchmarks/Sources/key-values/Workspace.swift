import Foundation

/// The directory of a run, with a subdirectory for each store.
struct Workspace: Sendable {
    let url: URL

    /// Creates a new directory in `parent`, so that no existing files are ever removed.
    ///
    /// On Linux the process re-executes itself once, keeping its process number, so that Foundation also places its
    /// files in the directory.
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

    /// A directory for a FileKVStore, which creates it itself.
    func place(_ name: String) -> URL { url.appendingPathComponent(name, isDirectory: true) }

    /// The path of a new, empty directory.
    func directory(_ name: String) throws -> String {
        let place = place(name)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        return place.path
    }

    /// The path of a file that does not exist.
    func file(_ name: String) -> String { url.appendingPathComponent(name).path }

    /// The name of a `UserDefaults` suite for this run.
    func suite(_ name: String) -> String { "\(url.lastPathComponent)-\(name)" }

    func remove() throws { try FileManager.default.removeItem(at: url) }
}
