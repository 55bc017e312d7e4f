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
        let parsed = exitCode(for: error)
        // The parser gives every error but its own the status for a failure.
        let code = parsed == .failure && !(error is ExitCode) ? ExitCode(ExitStatus(of: error).rawValue) : parsed
        let message = fullMessage(for: error)
        if code.isSuccess {
            do {
                try StandardOutput.print(message, keeping: ["\n"])
            } catch {
                return report(error)
            }
        } else if !message.isEmpty {
            let isUsage = code == .validationFailure
            let text = isUsage ? UsageMessage(message, arguments: CommandLine.arguments.dropFirst()).text : message
            ErrorMessage.write(text, code: code.rawValue)
        }
        return code.rawValue
    }
}
