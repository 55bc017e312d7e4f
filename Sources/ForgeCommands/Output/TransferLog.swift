import ForgeFileSystem
import ForgeStorage
import Foundation
import Synchronization
import SystemPackage

/// Counts what was done with the items of a transfer, prints the ones that matter, and the summary.
final class TransferLog: Sendable {
    enum Action: String, Encodable {
        case copy, replace, equal, delete, skip, fail, verify
        /// The item was removed since it was listed.
        case removed
        /// The item has no copy, and had not been listed: it was created since, or moved there.
        case appeared

        /// Whether a line is printed: the item has no copy, or its copy does not exist any more.
        var isListed: Bool {
            switch self {
            case .copy, .replace, .equal, .verify: false
            case .delete, .skip, .fail, .removed, .appeared: true
            }
        }
    }

    private struct Item: Encodable {
        var type = "item"
        let action: Action
        let key: String
        let source: String
        let destination: String
        let bytes: Int64?
        let reason: String?
    }

    private struct Summary: Encodable {
        var type = "summary"
        var copied = 0
        var equal = 0
        var deleted = 0
        var skipped = 0
        var failed = 0
        var verified = 0
        var appeared = 0
        var bytes: Int64 = 0
        var seconds = 0.0
        var dryRun = false
    }

    let progress: Progress
    private let arguments: TransferArguments
    private let summary = Mutex(Summary())

    /// Whether each item has a copy, by the bytes of its key, if the copies are verified.
    private let outcomes = Mutex<[[UInt8]: Bool]>([:])

    /// Whether standard output is for the items themselves.
    private let isOutputTaken: Bool

    init(_ arguments: TransferArguments) {
        self.arguments = arguments
        let isOutputTaken = arguments.destination.isStandardStream
        self.isOutputTaken = isOutputTaken
        let json = arguments.output.json
        let noun = arguments.source.scheme.isKeyValue ? "keys" : "files"
        progress = Progress(noun, .current(json: json), usesStandardError: isOutputTaken)
    }

    /// Whether an item has failed.
    var hasFailed: Bool { summary.withLock { $0.failed > 0 } }

    /// Whether an item has failed or was skipped.
    var hasLeftOut: Bool { summary.withLock { $0.failed + $0.skipped > 0 } }

    /// Whether an item was copied or deleted.
    var hasChanges: Bool { summary.withLock { $0.copied + $0.deleted > 0 } }

    /// Whether an item was skipped, has failed or was removed meanwhile: it has no copy to be verified.
    func isLeftOut(_ key: String) -> Bool { outcome(of: key) == false }

    /// Whether an item was copied, or was equal already.
    func isCopied(_ key: String) -> Bool { outcome(of: key) == true }

    private func outcome(of key: String) -> Bool? { outcomes.withLock { $0[Array(key.utf8)] } }

    /// Throws if an item of the source failed: a file that seems to be missing may only have been unreadable.
    func requireCompleteSource() throws {
        let failed = summary.withLock { $0.failed }
        guard failed > 0 else { return }
        throw CommandFailure("nothing was deleted: \(counted(failed, "item")) failed", .partial)
    }

    /// Records what was done with an item; prints it if that is listed, or in a dry run.
    ///
    /// - Parameters:
    ///   - action: What was done.
    ///   - key: The key or path of the item.
    ///   - bytes: Its size.
    ///   - reason: Why it was skipped or failed.
    /// - Throws: ``CommandFailure`` if the output cannot be written.
    func record(_ action: Action, _ key: String, bytes: Int64? = nil, reason: String? = nil) throws {
        summary.withLock { summary in
            switch action {
            case .copy, .replace:
                summary.copied += 1
                summary.bytes += bytes ?? 0
            case .equal: summary.equal += 1
            case .delete: summary.deleted += 1
            case .skip: summary.skipped += 1
            case .fail: summary.failed += 1
            case .verify: summary.verified += 1
            case .appeared: summary.appeared += 1
            case .removed: break
            }
        }
        let isOfCopy = ![.delete, .verify, .appeared].contains(action)
        if arguments.verify, isOfCopy {
            outcomes.withLock { $0[Array(key.utf8)] = [.copy, .replace, .equal].contains(action) }
        }
        if isOfCopy { try progress.advance(bytes: bytes ?? 0) }
        guard arguments.dryRun || action.isListed else { return }
        let item = Item(
            action: action, key: key, source: arguments.source.text(of: key),
            destination: arguments.destination.text(of: key), bytes: bytes, reason: reason)
        guard !arguments.output.json else { return try write(JSONText.line(item)) }
        let place = action == .delete ? item.destination : "\(item.source) → \(item.destination)"
        let text = "\(action.rawValue)  \(place)" + (reason.map { "  (\($0))" } ?? "")
        try write(text.escapingControls() + "\n")
    }

    /// Prints the summary.
    ///
    /// - Throws: ``CommandFailure`` if an item failed.
    func finish() throws {
        progress.finish()
        try printSummary()
        let summary = summary.withLock { $0 }
        let others = summary.copied + summary.equal + summary.deleted
        guard summary.failed == 0 else {
            throw CommandFailure(
                "\(counted(summary.failed, "item")) failed, \(others) did not", others > 0 ? .partial : .failure)
        }
        // Everything that was not carried over counts, so that no script takes the copy for a complete one.
        guard summary.skipped == 0 else {
            throw CommandFailure("\(counted(summary.skipped, "item")) skipped: see the list", .partial)
        }
    }

    /// Prints the summary. Apart from `finish()`, because a copy that an error ends prints it too.
    ///
    /// - Throws: ``CommandFailure`` if the output cannot be written.
    func printSummary() throws {
        var summary = summary.withLock { $0 }
        summary.seconds = progress.elapsed.seconds
        summary.dryRun = arguments.dryRun
        try write(arguments.output.json ? JSONText.line(summary) : summaryText + "\n")
    }

    /// The summary in words.
    var summaryText: String {
        let summary = summary.withLock { $0 }
        var parts = [
            "\(summary.copied) \(arguments.dryRun ? "to copy" : "copied") (\(readableSize(Int(summary.bytes))))",
            "\(summary.equal) equal",
        ]
        if arguments.delete { parts.append("\(summary.deleted) \(arguments.dryRun ? "to delete" : "deleted")") }
        if summary.skipped > 0 { parts.append("\(summary.skipped) skipped") }
        if summary.failed > 0 { parts.append("\(summary.failed) failed") }
        if arguments.verify { parts.append("\(summary.verified) verified") }
        if summary.appeared > 0 { parts.append("\(summary.appeared) appeared since") }
        return parts.joined(separator: ", ")
    }

    private func write(_ text: String) throws {
        guard !isOutputTaken else { return StandardError.write(text) }
        try StandardOutput.write(Data(text.utf8))
    }
}

/// Counts the files of a backup or a restoration, lists those that are not in it, and prints the summary.
final class BackupReport {
    private struct Item: Encodable {
        var type = "item"
        let action: String
        let path: String
        let reason: String
    }

    private struct Summary: Encodable {
        var type = "summary"
        let action: String
        let files: Int
        let bytes: Int64
        let skipped: Int
        let failed: Int
        let seconds: Double
        let destination: String
    }

    let progress: Progress
    private let action: String
    private let json: Bool
    private var skipped = 0
    private var failed = 0

    /// - Parameters:
    ///   - action: What is done, in the past tense.
    ///   - json: Whether JSON is printed.
    init(_ action: String, json: Bool) {
        self.action = action
        self.json = json
        progress = Progress("files", .current(json: json))
    }

    /// Whether there was no file so far.
    var isEmpty: Bool { progress.done.items + skipped + failed == 0 }

    func count(bytes: Int64) throws {
        try progress.advance(bytes: bytes)
    }

    func skip(_ path: String, _ reason: String) throws {
        skipped += 1
        try list("skip", path, reason)
    }

    func fail(_ path: String, _ reason: String) throws {
        failed += 1
        try list("fail", path, reason)
    }

    private func list(_ action: String, _ path: String, _ reason: String) throws {
        if json {
            try StandardOutput.print(line: Item(action: action, path: path, reason: reason))
        } else {
            try StandardOutput.print("\(action)  \(path)  (\(reason))")
        }
    }

    /// Prints the summary.
    ///
    /// - Throws: ``CommandFailure`` with the status `partial` if a file failed or was left out.
    func finish(_ destination: String) throws {
        progress.finish()
        let done = progress.done
        if json {
            try StandardOutput.print(
                line: Summary(
                    action: action, files: done.items, bytes: done.bytes, skipped: skipped, failed: failed,
                    seconds: progress.elapsed.seconds, destination: destination))
        } else {
            var text = "\(counted(done.items, "file")) \(action) (\(readableSize(Int(done.bytes))))"
            if skipped > 0 { text += ", \(skipped) skipped" }
            if failed > 0 { text += ", \(failed) failed" }
            try StandardOutput.print(text)
        }
        guard failed + skipped > 0 else { return }
        throw CommandFailure("\(failed) failed, \(skipped) left out: see the list", .partial)
    }
}

extension CommandFailure {
    /// The failure of `--delete` if something was created or moved in the source since it was copied.
    static func sourceChanged(_ path: String) -> CommandFailure {
        CommandFailure(
            "nothing was deleted: the source has changed during the copy, and \(path) was not copied; copy again",
            .partial)
    }
}

extension Error {
    /// Whether an error of a copy of files concerns one file or directory, so that it is recorded and the others are
    /// copied; other errors end the copy.
    var concernsOneFile: Bool {
        switch self {
        case is SourceFailure, is CopyDamage, is PresentStore, is RefusedFile: true
        case let error as FileStoreError:
            switch error.code {
            case .notFound, .conflict, .alreadyExists, .invalidKey, .invalidAttribute, .invalidSource, .unsafe,
                .isDirectory, .notDirectory, .tooLarge, .undecodable, .unsupported:
                true
            case .notPermitted: (error.underlying as? FileSystemError)?.concernsOneFile ?? false
            case .unavailable(.inputOutput):
                if let cause = error.underlying as? FileSystemError {
                    // A file system is mounted on the file.
                    cause.errno == .resourceBusy && [.rename, .unlink].contains(cause.operation)
                } else {
                    // The content of a file in S3 does not have its checksum.
                    true
                }
            default: false
            }
        case let error as FileSystemError:
            FileTarget.isTaken(error) || error.errno.isRefusal
                || [.isDirectory, .fileNameTooLong, .fileTooLarge, .tooManyLinks, .resourceBusy, .improperLink]
                    .contains(error.errno)
                // A pipe, socket or device has the name of a file that is opened, such as a lock.
                || error.operation == .open && [.notSupported, .noSuchAddressOrDevice].contains(error.errno)
        default: false
        }
    }
}
