import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Prints the sizes of the stores below a directory.
struct DiskUsageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "du", abstract: "Print the sizes of the stores below a directory.",
        discussion: """
            Bytes are the lengths of the files, including those that only running processes need; space is what they \
            occupy on the device, where a file with several hard links counts once. A directory without a store counts \
            as part of the store above it, or of the given directory. Links are \
            not followed. Directories that cannot be read are listed, and the exit status is 2.
            """)

    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @OptionGroup var output: JSONOption

    private struct Summary: Encodable {
        var type = "summary"
        let files: Int
        let bytes: Int64
        let space: Int64
    }

    func validate() throws {
        try requirePath(directory, of: "directory")
    }

    func run() throws {
        let url = URL(POSIXPath(directory))
        try requireStore("directory", at: url, isDirectory: true)
        let (stores, failures) = try DiskUsage.stores(below: ConfinedDirectory(POSIXPath(url)))
        let total = Summary(
            files: stores.reduce(0) { $0 + $1.files }, bytes: stores.reduce(0) { $0 + $1.bytes },
            space: stores.reduce(0) { $0 + $1.space })
        guard !output.json else {
            for store in stores { try StandardOutput.print(line: store) }
            for failure in failures { try StandardOutput.print(line: failure) }
            try StandardOutput.print(line: total)
            return try Self.require(failures)
        }
        var table = TextTable([
            ("Path", .left), ("Kind", .left), ("Files", .right), ("Bytes", .right), ("Space", .right),
        ])
        for store in stores {
            table.add([
                store.path.isEmpty ? "." : store.path.shortenedInside(to: 200), store.kind, String(store.files),
                String(store.bytes), String(store.space),
            ])
        }
        let summary = "\(counted(total.files, "file")), \(readableSize(Int(total.bytes))), "
        let unread = failures.map { "fail  \($0.path)  (\($0.reason))" }
        try StandardOutput.print(table.lines + unread + [summary + "\(readableSize(Int(total.space))) on the device"])
        try Self.require(failures)
    }

    private static func require(_ failures: [DiskUsage.Failure]) throws {
        guard !failures.isEmpty else { return }
        throw CommandFailure(
            "\(failures.count == 1 ? "1 directory" : "\(failures.count) directories") could not be read", .partial)
    }
}

/// The size of a store, or of the files that belong to no store.
struct DiskUsage: Encodable {
    var type = "store"
    /// The path relative to the walked directory; empty for that directory.
    var path: String
    var kind: String
    /// The number of files.
    var files = 0
    /// The sum of the sizes of the files in bytes.
    var bytes: Int64 = 0
    /// The space in bytes that the files occupy on the device.
    var space: Int64 = 0

    /// A directory that cannot be read, or that was moved meanwhile; its files are not counted.
    struct Failure: Encodable {
        var type = "item"
        var action = "fail"
        let path: String
        let reason: String
    }

    /// The sizes of all stores below a directory, ordered by path, and the directories that cannot be read.
    ///
    /// - Throws: `FileSystemError` if the directory itself cannot be read.
    static func stores(below root: ConfinedDirectory) throws -> (stores: [DiskUsage], failures: [Failure]) {
        var failures: [Failure] = []
        var found = [DiskUsage(path: "", kind: "directory")]
        // The index in `found` of each root of a store.
        var indices: [POSIXPath: Int] = ["": 0]
        // The files with several links that have been counted.
        var linked: Set<DirectoryIdentity> = []
        var walk = StoreWalk(root)
        while let event = try walk.next() {
            switch event {
            case .other: continue
            case .failed(let error):
                let reason = error.errno.isDisappearance ? error.reasonLeftOut : error.errno.text
                failures.append(Failure(path: error.shownPath, reason: reason))
            case .entered(let directory):
                guard let kind = directory.scope.owner.text else { continue }
                if directory.path.isEmpty {
                    found[0].kind = kind
                } else {
                    indices[directory.path] = found.count
                    found.append(DiskUsage(path: directory.path.shown, kind: kind))
                }
            case .file(let file):
                guard file.status.type == .regular, let index = indices[file.root ?? ""] else { continue }
                found[index].files += 1
                found[index].bytes += file.status.sizeInBytes
                guard file.status.linkCount == 1 || linked.insert(DirectoryIdentity(file.status)).inserted else {
                    continue
                }
                found[index].space += file.status.allocatedSizeInBytes
            }
        }
        return (
            found.filter { $0.files > 0 }.sorted { $0.path.precedesInBytes($1.path) }, failures
        )
    }
}
