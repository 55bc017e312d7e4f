public import ArgumentParser
import Foundation

// Memory safety: The arguments of the process are C strings that stay valid, and their number is `argc`.

/// The `forge` command: the demo, and commands that read, change, verify, copy, save and repair stores.
public struct ForgeCommand: AsyncParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "forge",
        abstract: "Settings, files, secrets, sessions and caches on disk.",
        discussion: """
            Start with `forge demo`, which stores a value of each kind and shows where.

            With --json every verb prints JSON, one object per line; long verbs also print their progress, at most four \
            times a second, and a summary, and an error is an object with its code on standard error. Otherwise an error is \
            one line. Progress on a terminal is a line on standard error.

            Exit status: \(ExitStatus.allCases.map { "\($0.rawValue) \($0.meaning)" }.joined(separator: "; ")).

            kv, file, copy and watch also take URLs of stores on servers, if this command was built with the \
            trait Etcd or S3 (swift build --traits Etcd,S3). etcd://host:2379/prefix is a key-value store in etcd, \
            etcds:// the same over TLS; several servers of a cluster are separated by commas, and the default prefix \
            is `forge/`. ETCDCTL_USER and ETCDCTL_PASSWORD contain the user and the password, ETCDCTL_CACERT, ETCDCTL_CERT and \
            ETCDCTL_KEY paths of certificates. s3://bucket/prefix is a file store in S3: AWS_REGION contains the region, \
            AWS_ENDPOINT_URL a server other than AWS, AWS_CA_BUNDLE the path of its certificates, FORGE_S3_ADDRESSING `path` \
            or `host`; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile in AWS_PROFILE, the \
            container or the instance. A URL with a user or password is refused. FORGE_DEADLINE is the time for a request with \
            its repetitions, in seconds: 5 by default for etcd, 60 for S3.

            `forge --generate-completion-script bash` prints completions for bash, and likewise for zsh and fish.
            """,
        version: "0.1.0-dev",
        subcommands: [
            DemoCommand.self, KVCommand.self, FileCommand.self, SecretCommand.self, CheckCommand.self,
            CopyCommand.self, BackupCommand.self, RestoreCommand.self,
            RepairCommand.self, WatchCommand.self, DiskUsageCommand.self,
            ServeCommand.self,
        ])

    public init() {}
}

extension ForgeCommand {
    /// Runs the command given by the arguments and ends the process with its exit status.
    public static func runAndExit() async -> Never {
        do {
            try refuseCombinedOptions(in: CommandLine.arguments.dropFirst())
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

    /// Throws for an argument of one hyphen and several letters, none of which is an option here. The parser would read
    /// `-height` as `-h` and others, and print the help.
    static func refuseCombinedOptions(in arguments: some Sequence<String>) throws(ValidationError) {
        for argument in arguments.prefix(while: { $0 != "--" }) {
            let bytes = Array(argument.utf8.prefix(3))
            guard bytes.count > 2, bytes[0] == UInt8(ascii: "-"), bytes[1] | 0x20 >= UInt8(ascii: "a"),
                bytes[1] | 0x20 <= UInt8(ascii: "z")
            else { continue }
            throw ValidationError("Unknown option \(argument). \(UsageMessage.hint)")
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
            ErrorMessage.write(text, code: code.rawValue, hasLines: isUsage && !(error is CommandFailure))
        }
        return code.rawValue
    }
}

/// The encoding of the arguments of the process.
public enum ArgumentEncoding {
    /// Exits with the status for wrong usage if an argument is not valid UTF-8.
    ///
    /// `CommandLine.arguments` replaces invalid bytes by U+FFFD, so a path or key would refer to another file.
    public static func requireUTF8() {
        for number in 1..<max(Int(CommandLine.argc), 1) {
            guard let argument = unsafe CommandLine.unsafeArgv[number],
                unsafe String(validatingCString: argument) == nil
            else {
                continue
            }
            StandardError.write("Error: argument \(number) is not valid UTF-8\n")
            exit(ExitCode.validationFailure.rawValue)
        }
    }
}
