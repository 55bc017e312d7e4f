import ArgumentParser
import Foundation

/// The encoding of the arguments of the process.
public enum ArgumentEncoding {
    /// Exits with the status for wrong usage if an argument is not valid UTF-8.
    ///
    /// `CommandLine.arguments` replaces invalid bytes by U+FFFD, so a path or key would refer to another file.
    public static func requireUTF8() {
        for number in 1..<max(Int(CommandLine.argc), 1) {
            guard let argument = CommandLine.unsafeArgv[number], String(validatingCString: argument) == nil else {
                continue
            }
            StandardError.write("Error: argument \(number) is not valid UTF-8\n")
            exit(ExitCode.validationFailure.rawValue)
        }
    }
}
