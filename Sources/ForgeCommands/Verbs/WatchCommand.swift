import ArgumentParser
import ForgeStorage
import Foundation

/// Prints the changes of a store as they happen, until control-C.
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Print the changes of a store as they happen, until control-C.",
        discussion: """
            A file store is watched by the system. `resync` means that anything may have changed: it comes first, and when \
            changes came faster than they could be printed. Of a key-value store, what was appended to its log is \
            read at every interval, without a lock; after its log was rewritten, several changes of a key are one. etcd \
            reports every change, also after a short interruption of the connection; servers before 3.4.36 and 3.5.18 report \
            `resync` then. S3 reports no changes.
            """)

    @Argument(help: ArgumentHelp("kv:DIR, file:DIR or etcd://host:2379/prefix.", valueName: "store"))
    var store: Home

    @Option(help: ArgumentHelp("The interval between two reads of a key-value store.", valueName: "seconds"))
    var interval = 0.5

    @Option(help: ArgumentHelp("End after this many lines.", valueName: "number"))
    var count: Int?

    @OptionGroup var output: JSONOption

    private struct Line: Encodable {
        var type = "change"
        let action: String
        let key: String?
    }

    func validate() throws {
        guard [.keyValue, .files, .etcd, .etcds].contains(store.scheme) else {
            throw ValidationError("watch needs kv:DIR, file:DIR or etcd://host:2379/prefix")
        }
        _ = try store.server()
        guard interval >= 0.01, interval <= 86_400 else { throw ValidationError("--interval is out of range") }
        guard count ?? 1 > 0 else { throw ValidationError("--count must be positive") }
    }

    func run() async throws {
        var left = count ?? .max
        func show(_ action: String, _ key: String?) throws -> Bool {
            if output.json {
                try StandardOutput.print(line: Line(action: action, key: key))
            } else {
                try StandardOutput.print(key.map { "\(action)  \(POSIXPath($0))" } ?? action)
            }
            left -= 1
            return left > 0
        }
        if let server = try store.server() {
            try await watch(server, show)
        } else if store.scheme == .files {
            try await watchFiles(show)
        } else {
            try await watchKeys(show)
        }
    }

    private func watch(_ server: StoreURL, _ show: (String, String?) throws -> Bool) async throws {
        for try await change in try server.openKeyValueStore().changes() {
            let goesOn =
                switch change {
                case .changed(let name, let entry, _): try show(entry == nil ? "removed" : "changed", name)
                case .resync: try show("resync", nil)
                }
            if !goesOn { return }
        }
    }

    private func watchFiles(_ show: (String, String?) throws -> Bool) async throws {
        try requireStore("file store", at: store.url, isDirectory: true)
        for try await change in DiskFileStore(root: store.url).changes() {
            let goesOn =
                switch change {
                case .changed(let key): try show("changed", key)
                case .removed(let key): try show("removed", key)
                case .resync: try show("resync", nil)
                }
            if !goesOn { return }
        }
    }

    private func watchKeys(_ show: (String, String?) throws -> Bool) async throws {
        // Opened as by other verbs, so that errors are the same.
        _ = try KVStoreArgument.open(store.url, .readOnly)
        var index = KVLogIndex(of: ".", in: try ConfinedDirectory(POSIXPath(store.url)))
        _ = try changes(&index)
        guard try show("resync", nil) else { return }
        while true {
            try await Task.sleep(for: .milliseconds(Int64(interval * 1000)))
            for change in try changes(&index) {
                let goesOn =
                    switch change.operation {
                    case .set: try show("changed", change.name)
                    case .remove: try show("removed", change.name)
                    case .removeAll: try show("resync", nil)
                    }
                if !goesOn { return }
            }
        }
    }

    private func changes(_ index: inout KVLogIndex) throws -> [KVLogIndex.Change] {
        let path = try POSIXPath(store.url)
        do throws(KVStoreError) {
            return try index.refresh()
        } catch {
            guard error.code != .noStore else { throw CommandFailure.noStore("key-value store", at: path) }
            // The index knows the store only as the directory that it reads.
            var error = error
            error.store = path.shown
            throw error
        }
    }
}
