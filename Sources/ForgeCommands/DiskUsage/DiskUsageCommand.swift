import ArgumentParser
import ForgeStorage
import Foundation

/// Prints the sizes of the stores below a directory.
struct DiskUsageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "du", abstract: "Print the sizes of the stores below a directory.",
        discussion: """
            Bytes are the lengths of the files, including those that only running processes need; space is what they \
            occupy on the device. A directory without a store counts to the store above it, or to the whole. Links are \
            not followed.
            """)

    @Argument(help: ArgumentHelp("The directory that contains the stores.", valueName: "dir"))
    var directory: String

    @OptionGroup var output: JSONOption

    private struct Summary: Encodable {
        let type = "summary"
        let files: Int
        let bytes: Int64
        let space: Int64
    }

    func validate() throws {
        try requirePath(directory, of: "directory")
    }

    func run() throws {
        let url = URL(fileURLWithPath: directory)
        try requireStore("directory", at: url, isDirectory: true)
        let stores = try DiskUsage.stores(below: POSIXPath(url))
        let total = Summary(
            files: stores.reduce(0) { $0 + $1.files }, bytes: stores.reduce(0) { $0 + $1.bytes },
            space: stores.reduce(0) { $0 + $1.space })
        guard !output.json else {
            for store in stores { try StandardOutput.print(line: store) }
            return try StandardOutput.print(line: total)
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
        try StandardOutput.print(table.lines + [summary + "\(readableSize(Int(total.space))) on the device"])
    }
}
