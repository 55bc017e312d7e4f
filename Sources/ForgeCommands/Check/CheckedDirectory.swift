import ArgumentParser
import ForgeStorage
import Foundation

/// The directory whose stores `check` and `repair` verify.
struct CheckedDirectory: ParsableArguments {
    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("A file that holds the key of vaults; may be given several times.", valueName: "file"))
    var keyFile: [String] = []

    func validate() throws {
        try requirePath(directory, of: "directory")
        for path in keyFile { try requirePath(path, of: "key file") }
    }

    /// Checks every store below the directory.
    ///
    /// - Throws: ``CommandFailure`` with the status `notFound` if there are no files.
    func findings(json: Bool) throws -> [StoreFinding] {
        let root = URL(fileURLWithPath: directory)
        try requireStore("directory", at: root, isDirectory: true)
        let progress = Progress("files checked", .current(json: json))
        let keys = try keyFile.map { try loadKey(at: URL(fileURLWithPath: $0)) }
        guard let findings = try StoreChecker(keys: keys, progress: progress).check(root) else {
            throw CommandFailure("no store here: \(try POSIXPath(root)) contains no files", .notFound)
        }
        progress.finish()
        return findings
    }
}
