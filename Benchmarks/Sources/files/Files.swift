import ForgeFileStore
import ForgeFileSystem
import Foundation
import Measuring

typealias Measurement = Measuring.Measurement

/// Measures DiskFileStore beside the system calls that it cannot avoid, and Foundation.
@main
enum Files {
    private static let groups: [(name: String, run: @Sendable (Setting) async throws -> [GoalLine])] = [
        ("save", saves), ("durable", durableSaves), ("load", loads), ("info", infos), ("list", listings),
        ("cache", caches),
        ("stream", streams), ("million", million),
    ]

    static func main() async throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        var directory = ".build/files"
        if let first = arguments.first, !first.hasPrefix("-") { directory = arguments.removeFirst() }
        let only = arguments.first == "--only" ? Set(arguments.dropFirst()) : Set(groups.map(\.name))
        guard only.isSubset(of: groups.map(\.name)), arguments.isEmpty || arguments.first == "--only" else {
            let names = groups.map(\.name).joined(separator: ", ")
            FileHandle.standardError.write(
                Data("usage: files [DIRECTORY] [--only NAME...]\n\n  some groups only: \(names)\n".utf8))
            exit(EX_USAGE)
        }
        keepFreedMemory()
        print(GoalTable.header)
        var lines: [GoalLine] = []
        for group in groups where only.contains(group.name) {
            let setting = try Setting(in: directory)
            let found: [GoalLine]
            do {
                found = try await group.run(setting)
            } catch {
                try setting.remove()
                throw error
            }
            try setting.remove()
            for line in found {
                print(GoalTable.text(line))
                lines.append(line)
            }
            fflush(nil)
        }
        print("\n\(GoalTable.summary(lines))")
    }
}

/// The files of one group.
struct Setting {
    let url: URL
    let raw: Raw
    private let container: URL

    init(in directory: String) throws {
        container = URL(fileURLWithPath: directory, isDirectory: true)
            .appendingPathComponent("forge-benchmark-\(ProcessInfo.processInfo.processIdentifier)")
        url = container.appendingPathComponent("store", isDirectory: true)
        raw = try Raw(container.appendingPathComponent("raw").path)
    }

    func store(_ durability: Durability) -> DiskFileStore {
        DiskFileStore(root: url, options: FileStoreOptions(durability: durability))
    }

    func remove() throws {
        try FileManager.default.removeItem(at: container)
    }
}
