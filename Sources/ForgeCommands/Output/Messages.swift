import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// The form of an error on standard error: a line of text, or a JSON object if the arguments contain `--json`.
enum ErrorMessage {
    private struct Object: Encodable {
        let code: Int32
        let kind: String
        let message: String
    }

    /// Whether the arguments of this process ask for JSON; known even if the arguments cannot be parsed.
    static let isJSON = CommandLine.arguments.dropFirst().prefix { $0 != "--" }.contains("--json")

    /// Writes the message of an error.
    ///
    /// - Parameters:
    ///   - message: The text, which may begin with `Error: `.
    ///   - code: The exit status.
    ///   - hasLines: Whether the text has several lines, as those of the parser have.
    static func write(_ message: String, code: Int32, hasLines: Bool) {
        StandardError.write(isJSON ? json(message, code: code) : text(message, hasLines: hasLines))
    }

    static func text(_ message: String, hasLines: Bool = false) -> String {
        message.escapingControls(except: hasLines ? ["\n"] : []) + "\n"
    }

    static func json(_ message: String, code: Int32) -> String {
        let kind = ExitStatus(rawValue: code)?.word ?? "failure"
        let prefix = "Error: "
        let text = message.hasPrefix(prefix) ? String(message.dropFirst(prefix.count)) : message
        do {
            return try JSONText.line(Object(code: code, kind: kind, message: text))
        } catch {
            return "{\"code\":\(code),\"kind\":\"\(kind)\"}\n"
        }
    }
}

/// The usage error message, without the arguments of commands that may contain a secret.
struct UsageMessage {
    /// How an argument is given that begins with a hyphen.
    static let hint = "Write -- before an argument that begins with a hyphen and is no option."

    let text: String

    /// - Parameters:
    ///   - message: The message of the parser, which may quote arguments.
    ///   - arguments: The arguments of the process.
    init(_ message: String, arguments: some Sequence<String>) {
        let words = arguments.filter { !$0.hasPrefix("-") }
        let verbs = ForgeCommand.configuration.subcommands
        let verb = verbs.first { $0.configuration.commandName == words.first }
        let isHarmless = verb != nil && verb != SecretCommand.self || words.first == "help" || words.isEmpty
        // The parser takes an argument with a hyphen for an option, and finds that another argument is missing.
        let hasHyphen = arguments.prefix(while: { $0 != "--" }).contains { $0.utf8.first == UInt8(ascii: "-") }
        let isAboutHyphens =
            !message.contains(Self.hint)
            && (message.hasPrefix("Error: Unknown option")
                || hasHyphen && message.hasPrefix("Error: Missing expected argument"))
        // These messages contain only declared names.
        guard !isHarmless, !message.hasPrefix("Error: Missing ") else {
            text = Self.withoutCredentials(isAboutHyphens ? "\(message)\n\(Self.hint)" : message)
            return
        }
        let subcommands = verb?.configuration.subcommands ?? []
        let command = subcommands.first { $0._commandName == words.dropFirst().first } ?? verb ?? ForgeCommand.self
        text = """
            Error: Wrong usage. The arguments are not repeated here, since one may be a secret; a secret is read from \
            standard input.
            Usage: \(ForgeCommand.usageString(for: command))
            """
    }

    /// The message without what comes before an `@` in its URLs: it may be a user and a password.
    private static func withoutCredentials(_ message: String) -> String {
        message.replacing(/(etcds?|s3):\/\/[^\s'"]*@/) { "\($0.1)://…@" }
    }
}

/// Requires a non-empty path on this machine: an empty one would mean the working directory.
///
/// - Parameters:
///   - path: The argument; nil if it was not given.
///   - name: The kind of file at the path.
/// - Throws: `ValidationError`.
func requirePath(_ path: String?, of name: String) throws(ValidationError) {
    // `UsageMessage` passes on messages with this prefix; they repeat no argument.
    guard path?.isEmpty != true else { throw ValidationError("Missing path: the path of the \(name) is empty") }
    guard path.map(StoreURL.isURL) != true else {
        throw ValidationError("Missing path: the \(name) must be on this machine; kv, file, copy and watch take URLs")
    }
    // One word means the same place for every verb; here it would be part of a name.
    if let path, let home = Home(argument: path), !home.scheme.isServer {
        throw ValidationError(
            "Missing path: the \(name) is a path without \(home.scheme.rawValue):; write ./ before a name like that")
    }
}

/// Throws if an output would be written into the directory of a store, also as a new file, or over a file of one.
///
/// - Parameters:
///   - path: The file or directory that is written or replaced; links on its path are followed.
///   - name: What was given as the output, in an error.
/// - Throws: ``CommandFailure`` with the status for wrong usage, or the error of looking at the directory.
func requireNoStore(at path: POSIXPath, _ name: String) throws {
    let fileSystem = SystemFileSystem()
    let place = try withNearestDirectory(above: path) { (directory) throws(FileSystemError) -> String? in
        let scope = try StoreScope(of: directory, on: fileSystem)
        if let text = scope.store.text { return "a store: \(text)" }
        if BackupManifest.contains(directory, on: fileSystem) { return "a backup" }
        // Of the stores without a marker, one with a log is known at once.
        return try fileSystem.kindByContent(of: FileKVStore.logName, at: directory).map { "a store: \($0.text)" }
    }
    if let place {
        throw CommandFailure("\(name) is in the directory of \(place); choose another output", .usage)
    }
    if try fileSystem.followingFinalLinks(path).splitLast().name.isStoreMarker {
        throw CommandFailure("\(name) has a name that only stores use; choose another output", .usage)
    }
    try requireNoStoreFile(at: path, name)
}

/// Throws if a change would be made in a backup, whose manifest would not fit any more.
///
/// - Parameters:
///   - path: The file or directory that is written, which need not exist; links on its path are followed. It may be a
///     backup itself.
///   - name: What was given as the place, in an error.
///   - status: The status of the error.
/// - Throws: ``CommandFailure``, or the error of looking at the directory.
func requireOutsideBackups(_ path: POSIXPath, _ name: String, _ status: ExitStatus = .usage) throws {
    let isInside = try withNearestDirectory(above: path) { BackupManifest.contains($0, on: SystemFileSystem()) }
    guard !isInside else { throw CommandFailure("\(name) is in the directory of a backup, which would change", status) }
}

extension FileTarget {
    /// Throws if a new file store in a directory would take files of other stores, which are not known or have not marked
    /// their directories, or of backups for its own: it may remove them.
    static func requireNoUnmarkedStores(in directory: POSIXPath, _ status: ExitStatus) throws {
        try requireKnownDirectory(directory, status)
        let files = try unmarkedStoreFiles(in: directory, isRecursive: true).map { file in
            file.kind == nil ? "\(file.path.isEmpty ? directory.shown : file.path.shown) (a backup)" : file.path.shown
        }
        guard let first = files.first else { return }
        let shown = files.count > 20 ? "\(first) and \(files.count - 1) others" : files.joined(separator: ", ")
        throw CommandFailure(
            "nothing was changed: a file store in \(directory.shown) would take files of others for its own: \(shown)",
            status)
    }
}

/// Throws if files would be stored in a directory of a store that is not known, or below one. One with journals or locks
/// alone is left to the file store: its creation may be in progress.
///
/// - Parameters:
///   - path: The root of the file store, which need not exist; links on its path are followed.
///   - status: The status of the error.
/// - Throws: ``CommandFailure``, or the error of looking at the directory.
func requireKnownDirectory(_ path: POSIXPath, _ status: ExitStatus) throws {
    let fileSystem = SystemFileSystem()
    // No file has this name.
    let file = path.appending(POSIXPath(StoreMarker.prefix))
    let reason = try withNearestDirectory(above: file) { (directory) throws(FileSystemError) -> String? in
        let entries = try fileSystem.entries(of: directory)
        let scope = try StoreScope(of: directory, entries: entries, on: fileSystem)
        guard scope.isUnknown else { return nil }
        let mayBeNew = scope.isRoot && entries.allSatisfy { $0.name.isReservedName && !$0.name.isMarkerOfKind }
        return try mayBeNew ? nil : placeInUnknownStore(directory)
    }
    if let reason { throw CommandFailure("nothing was changed: \(path.shown) is \(reason)", status) }
}

/// Calls `body` with the nearest directory above a path that exists: a missing one is created below it, or the write
/// reports it. Links on the path are followed.
private func withNearestDirectory<Result>(
    above path: POSIXPath, _ body: (Descriptor) throws(FileSystemError) -> Result
) throws(FileSystemError) -> Result {
    let fileSystem = SystemFileSystem()
    var parent = try fileSystem.followingFinalLinks(path).splitLast().parent
    while true {
        do throws(FileSystemError) {
            return try fileSystem.withDirectory(parent, body)
        } catch {
            guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno), !parent.isEmpty else { throw error }
            parent = parent.splitLast().parent
        }
    }
}

/// Throws if a change would be made to a file that another store, or the bookkeeping of one, has in a directory.
///
/// - Parameters:
///   - path: The file that is written or removed; links on its path are followed.
///   - name: What was given as the output, in an error.
/// - Throws: ``CommandFailure`` with the status for wrong usage, or the error of looking at the directory.
func requireNoStoreFile(at path: POSIXPath, _ name: String) throws {
    let fileSystem = SystemFileSystem()
    let path = try fileSystem.followingFinalLinks(path)
    let (parent, file) = path.splitLast()
    let reason: String?
    do throws(FileSystemError) {
        let directory = try fileSystem.openDirectory(parent)
        defer { fileSystem.discard(directory) }
        let scope = try StoreScope(of: directory, on: fileSystem)
        if scope.isUnknown {
            reason = try "\(name) is \(placeInUnknownStore(directory))"
        } else {
            let isStoreFile = try scope.isStoreFile(file, at: directory, on: fileSystem)
            reason = isStoreFile ? "\(name) is a file of a store; choose another output" : nil
        }
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
        return  // The write reports it.
    }
    if let reason { throw CommandFailure(reason, .usage) }
}

/// The words for a place in a directory of a store that is not known, with what can be done about it.
func placeInUnknownStore(_ directory: Descriptor) throws(FileSystemError) -> String {
    let fileSystem = SystemFileSystem()
    for entry in try fileSystem.entries(of: directory) where entry.type == .regular {
        guard let kind = StoreMarker.kind(named: entry.name),
            StoreMarker.isDamaged(try fileSystem.start(of: entry.name, at: directory), of: kind)
        else { continue }
        return "in a store whose marker \(entry.name) is damaged; `forge repair` writes it anew"
    }
    return "in a store that this version does not know"
}

/// Throws if a file is in a directory that belongs to a store of a kind or version that is not known; a lock of vaults
/// alone is what a creation that was interrupted has left.
func requireKnownStore(at path: POSIXPath, _ name: String) throws {
    let fileSystem = SystemFileSystem()
    let parent = try fileSystem.followingFinalLinks(path).splitLast().parent
    var reason: String?
    do throws(FileSystemError) {
        let directory = try fileSystem.openDirectory(parent)
        defer { fileSystem.discard(directory) }
        guard try StoreScope(of: directory, on: fileSystem).isUnknown else { return }
        let names = try fileSystem.entries(of: directory).map(\.name).filter(\.isStoreMarker)
        if names.isEmpty || names.contains(where: { !VaultCrypt.isLock($0) }) {
            reason = try placeInUnknownStore(directory)
        }
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
    }
    if let reason { throw CommandFailure("\(name) is \(reason)") }
}

/// The option `--json` of every verb.
struct JSONOption: ParsableArguments {
    @Flag(help: "Print JSON, one object per line; errors too.")
    var json = false
}

/// The JSON output of a verb that changes an item.
struct ActionLine: Encodable {
    var action: String
    var key: String
    var bytes: Int?
    var destination: String?
}
