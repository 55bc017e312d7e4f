import Foundation

/// Detects processes that must not use the settings of an app.
enum TestProcess {
    /// Whether this process runs tests (XCTest or Swift Testing) or an Xcode preview.
    static let isCurrent = matches(
        executable: CommandLine.arguments.first ?? "", environment: ProcessInfo.processInfo.environment)

    /// Arguments are ignored: the path of a test bundle may be an argument of an app.
    static func matches(executable: String, environment: [String: String]) -> Bool {
        // Set by Xcode.
        let variables = ["XCTestConfigurationFilePath", "XCTestBundlePath", "XCTestSessionIdentifier"]
        if variables.contains(where: { environment[$0] != nil }) || environment["XCODE_RUNNING_FOR_PREVIEWS"] == "1" {
            return true
        }
        // `swift test` runs the test bundle itself (Linux), or a tool that loads it (macOS).
        let name = executable.split(separator: "/").last ?? ""
        return name.hasSuffix(".xctest") || name.hasSuffix("-test-runner")
            || ["xctest", "swiftpm-testing-helper", "swiftpm-xctest-helper"].contains(name)
    }
}
