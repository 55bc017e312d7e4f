import Foundation

/// Runs this program again in a new process, for measurements that must not see the memory of earlier ones.
enum Child {
    /// The line that the process printed.
    static func run(_ arguments: [String]) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = Bundle.main.executableURL
        process.arguments = arguments
        process.standardOutput = output
        try process.run()
        let line = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw PeerFailure(library: "key-values", operation: arguments[0], code: process.terminationStatus)
        }
        return line.trimmingCharacters(in: .newlines)
    }
}
