import Foundation

/// A suite of Foundation's `UserDefaults`. On Linux, where no daemon writes it, changes are lost with the process
/// unless `synchronize` is called.
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

    /// Replaces the content of the suite, before any other use.
    ///
    /// On Linux this writes the suite's file: `setPersistentDomain` takes hours for 100,000 names.
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

    /// The variable that sets Foundation's directory for suites on Linux; read when the process starts.
    static let directoryVariable = "XDG_CONFIG_HOME"

    /// Removes the suite, unless it is in the directory of this run.
    func discard() throws {
        #if !os(Linux)
        defaults.removePersistentDomain(forName: suite)
        try synchronize()
        #endif
    }
}
