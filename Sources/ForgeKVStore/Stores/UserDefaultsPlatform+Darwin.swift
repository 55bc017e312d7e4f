#if canImport(Darwin)
import ForgeFileSystem
import Foundation
import Synchronization

// Memory safety: Key-value observing gets no context, so that no address is passed.

extension UserDefaultsPlatform {
    /// CFPreferences rejects a change after which a domain has at least 4 MiB (`CFPreferences: attempting to store >=
    /// 4194304 bytes of data … on this platform is invalid`), 1 MiB on watchOS; on tvOS an app with more than 1 MB ends
    /// (`UserDefaults.sizeLimitExceededNotification`). The change stays visible in the process and is never stored.
    static var current: UserDefaultsPlatform {
        #if os(watchOS)
        return UserDefaultsPlatform(suiteLimit: 1 << 20, marker: markerFile, observeKey: ObservedKey.observe)
        #elseif os(tvOS)
        return UserDefaultsPlatform(suiteLimit: 1_000_000, marker: nil, observeKey: ObservedKey.observe)
        #elseif os(macOS)
        return UserDefaultsPlatform(suiteLimit: 4 << 20, marker: nil, observeKey: ObservedKey.observe)
        #else
        return UserDefaultsPlatform(suiteLimit: 4 << 20, marker: markerFile, observeKey: ObservedKey.observe)
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

/// A key of a suite, whose changes by any process key-value observing announces. It is observed until the process ends:
/// key-value observing may call an observer while that is removed.
///
/// `@unchecked Sendable`: user defaults are thread-safe, and used by `begin` alone.
private final class ObservedKey: NSObject, @unchecked Sendable {
    private static let all = Mutex<[[UInt8]: ObservedKey]>([:])

    private let defaults: UserDefaults
    private let closures = Mutex(Closures())

    private struct Closures {
        var lastNumber = 0
        var ofNumber: [Int: @Sendable () -> Void] = [:]
    }

    /// Calls a closure after changes of the key, until it is released.
    private final class Observation: Sendable {
        private let key: ObservedKey
        private let number: Int

        init(_ key: ObservedKey, _ onChange: @escaping @Sendable () -> Void) {
            self.key = key
            number = key.closures.withLock { closures in
                closures.lastNumber += 1
                closures.ofNumber[closures.lastNumber] = onChange
                return closures.lastNumber
            }
        }

        deinit {
            // Returned, so that the closure is released outside the lock.
            _ = key.closures.withLock { $0.ofNumber.removeValue(forKey: number) }
        }
    }

    static func observe(
        _ name: String, in suite: String, _ onChange: @escaping @Sendable () -> Void
    ) -> (any Sendable)? {
        let id = Array("\(suite)\0\(name)".utf8)
        if let key = all.withLock({ $0[id] }) { return Observation(key, onChange) }
        let own = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        guard let defaults = suite == own ? UserDefaults.standard : UserDefaults(suiteName: suite) else { return nil }
        let new = ObservedKey(defaults)
        let key = all.withLock { all -> ObservedKey in
            if let key = all[id] { return key }
            all[id] = new
            return new
        }
        // Without the lock: Foundation may call observers, code of the app, that begin to observe another key.
        if key === new { new.begin(name) }
        return Observation(key, onChange)
    }

    private init(_ defaults: UserDefaults) {
        self.defaults = defaults
        super.init()
    }

    private func begin(_ name: String) {
        unsafe defaults.addObserver(self, forKeyPath: name, options: [], context: nil)
    }

    override func observeValue(
        forKeyPath name: String?, of object: Any?, change: [NSKeyValueChangeKey: Any]?,
        context: UnsafeMutableRawPointer?
    ) {
        for onChange in closures.withLock({ Array($0.ofNumber.values) }) { onChange() }
    }
}

extension UserDefaults {
    /// The objects of a suite. Those that were just set are among them without `synchronize`, which may post a
    /// notification that they have changed.
    func content(ofSuite domain: String) -> [String: Any] { persistentDomain(forName: domain) ?? [:] }
}
#endif
