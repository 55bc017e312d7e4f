#if canImport(Darwin)
import ForgeFileSystem
import Foundation

extension UserDefaultsPlatform {
    /// CFPreferences rejects a change after which a domain has at least 4 MiB (`CFPreferences: attempting to store >=
    /// 4194304 bytes of data … on this platform is invalid`), 1 MiB on watchOS; on tvOS an app with more than 1 MB ends
    /// (`UserDefaults.sizeLimitExceededNotification`). The change stays visible in the process and is never stored.
    static var current: UserDefaultsPlatform {
        #if os(watchOS)
        return UserDefaultsPlatform(suiteLimit: 1 << 20, marker: markerFile)
        #elseif os(tvOS)
        return UserDefaultsPlatform(suiteLimit: 1_000_000, marker: nil)
        #elseif os(macOS)
        return UserDefaultsPlatform(suiteLimit: 4 << 20, marker: nil)
        #else
        return UserDefaultsPlatform(suiteLimit: 4 << 20, marker: markerFile)
        #endif
    }

    private static func markerFile(of suite: String) -> any UserDefaultsMarker {
        let directory: POSIXPath
        do throws(FileSystemError) {
            directory = try StandardDirectory.applicationSupport.path()
        } catch {
            return NoMarker()
        }
        return UserDefaultsMarkerFile(
            path: directory.appending(POSIXPath("forge-user-defaults-\(suite)")), fileSystem: SystemFileSystem()
        ) { path in
            let url = URL(path)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(UserDefaultsName.sentinel.utf8).write(to: url, options: [.atomic, .completeFileProtection])
        }
    }

    /// The marker of a process without a directory for it.
    private struct NoMarker: UserDefaultsMarker {
        var state: UserDefaultsMarkerState { .absent }

        func create() {}
    }
}

extension UserDefaults {
    /// The objects of a suite. Those that were just set are among them without `synchronize`, which may post a
    /// notification that they have changed.
    func content(ofSuite domain: String) -> [String: Any] { persistentDomain(forName: domain) ?? [:] }
}
#endif
