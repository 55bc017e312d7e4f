import Foundation

/// Counts the files of a backup or a restoration, lists those that are not in it, and prints the summary.
final class BackupReport {
    private struct Item: Encodable {
        let type = "item"
        let action: String
        let path: String
        let reason: String
    }

    private struct Summary: Encodable {
        let type = "summary"
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
    /// - Throws: ``CommandFailure`` with the status `partial` if a file failed.
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
        if failed > 0 { throw CommandFailure("\(counted(failed, "problem")): see the list", .partial) }
    }
}
