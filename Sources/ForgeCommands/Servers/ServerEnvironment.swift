import ForgeStorage
import Foundation
import Logging

/// What the environment says about servers: credentials, certificates and endpoints are never arguments.
///
/// An empty variable counts as none.
struct ServerEnvironment: Sendable {
    private let variables: [String: String]

    init(_ variables: [String: String] = ProcessInfo.processInfo.environment) {
        self.variables = variables
    }

    /// The value of the first of some variables that has one.
    subscript(_ names: String...) -> String? {
        names.lazy.compactMap { variables[$0] }.first { !$0.isEmpty }
    }

    /// The time for one request with its repetitions; nil for that of the store.
    ///
    /// - Throws: ``CommandFailure`` if the variable is not a number.
    func deadline() throws(CommandFailure) -> Duration? {
        guard let text = self["FORGE_DEADLINE"] else { return nil }
        guard let seconds = Double(text), seconds >= 0.1, seconds <= 86_400 else {
            throw CommandFailure("FORGE_DEADLINE is not a number of seconds between 0.1 and 86400", .usage)
        }
        return .milliseconds(Int64(seconds * 1000))
    }

    /// The user of etcd, as `etcdctl` takes it; nil if there is none.
    ///
    /// - Throws: ``CommandFailure`` if there is a user without a password.
    func etcdUser() throws(CommandFailure) -> (name: String, password: String)? {
        guard let user = self["ETCDCTL_USER"] else { return nil }
        if let password = self["ETCDCTL_PASSWORD"] { return (user, password) }
        let parts = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw CommandFailure("ETCDCTL_USER has a user, but ETCDCTL_PASSWORD has no password", .usage)
        }
        return (String(parts[0]), String(parts[1]))
    }

    /// Errors are one line of the command; a store logs nothing.
    static let logger = Logger(label: "forge") { _ in SwiftLogNoOpLogHandler() }
}
