import Foundation

/// Detects processes in which settings must not be those of an app.
enum TestProcess {
    /// Whether this process runs tests (XCTest or Swift Testing) or an Xcode preview.
    static let isCurrent = matches(
        arguments: CommandLine.arguments, environment: ProcessInfo.processInfo.environment)

    static func matches(arguments: [String], environment: [String: String]) -> Bool {
        // Xcode sets the first three; `swift test` runs a file with the suffix, or a helper that gets its path.
        let variables = ["XCTestConfigurationFilePath", "XCTestBundlePath", "XCTestSessionIdentifier"]
        return variables.contains { environment[$0] != nil } || environment["XCODE_RUNNING_FOR_PREVIEWS"] == "1"
            || arguments.contains("--testing-library")
            || arguments.contains { $0.contains(".xctest") && !$0.hasPrefix("-") }
    }
}
