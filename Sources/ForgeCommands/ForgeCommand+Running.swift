import ArgumentParser
import Foundation

extension ForgeCommand {
    /// Runs the command given by the arguments and ends the process with its exit status.
    public static func runAndExit() async -> Never {
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            Foundation.exit(EXIT_SUCCESS)
        } catch {
            Foundation.exit(report(error))
        }
    }

    /// Prints the message of an error and returns the exit status; help and version go to standard output.
    private static func report(_ error: any Error) -> Int32 {
        let code = exitCode(for: error)
        let message = fullMessage(for: error)
        if code.isSuccess {
            do {
                try StandardOutput.print(message, keeping: ["\n"])
            } catch {
                return report(error)
            }
        } else if !message.isEmpty {
            // Only the usage message has several lines.
            let isUsage = code == .validationFailure
            let text = isUsage ? UsageMessage(message, arguments: CommandLine.arguments.dropFirst()).text : message
            StandardError.write(text.escapingControls(except: isUsage ? ["\n"] : []) + "\n")
        }
        return code.rawValue
    }
}
