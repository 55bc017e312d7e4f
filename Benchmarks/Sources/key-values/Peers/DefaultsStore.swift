import Foundation

/// A suite of `UserDefaults` as Foundation has it. Where nothing else writes for it, as on Linux, what was set is lost
/// with the process unless `synchronize` is called.
final class DefaultsStore: Peer {
    private let defaults: UserDefaults
    private let suite: String

    init(suite: String) throws {
        guard let defaults = UserDefaults(suiteName: suite) else {
            throw PeerFailure(library: "UserDefaults", operation: "init", code: 0)
        }
        self.defaults = defaults
        self.suite = suite
    }

    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value? {
        guard let object = defaults.object(forKey: name) else { return nil }
        guard Value.columnKind == .blob else { return object as? Value }
        return try (object as? Data)?.withUnsafeBytes { try Value(bytes: $0) }
    }

    func set<Value: Sample>(_ name: String, _ value: Value) throws {
        defaults.set(try Self.object(value), forKey: name)
    }

    /// Takes the place of everything else in the suite, before anything else is done with it.
    ///
    /// On Linux as a file, which is then read: `setPersistentDomain` takes hours there for 100,000 names.
    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) throws {
        var contents: [String: Any] = [:]
        for (name, value) in zip(names, values) { contents[name] = try Self.object(value) }
        #if os(Linux)
        let file = URL(fileURLWithPath: ProcessInfo.processInfo.environment[Self.directoryVariable] ?? "")
            .appendingPathComponent("\(suite).plist")
        try PropertyListSerialization.data(fromPropertyList: contents, format: .binary, options: 0).write(to: file)
        #else
        defaults.setPersistentDomain(contents, forName: suite)
        #endif
    }

    func synchronize() throws {
        guard defaults.synchronize() else {
            throw PeerFailure(library: "UserDefaults", operation: "synchronize", code: 0)
        }
    }

    private static func object<Value: Sample>(_ value: Value) throws -> Any {
        guard Value.columnKind == .blob else { return value }
        return try value.withBytes { Data($0) }
    }

    /// The variable by which Foundation is told on Linux where suites are; it looks when the process starts.
    static let directoryVariable = "XDG_CONFIG_HOME"

    /// Removes the suite, where it is not in a directory of this run's own.
    func discard() throws {
        #if !os(Linux)
        defaults.removePersistentDomain(forName: suite)
        try synchronize()
        #endif
    }
}
