import ForgeStorage
import Foundation

/// A stored item, as shown in tables and `--json`.
struct StoredItem: Encodable, Equatable {
    /// The name of the item in its store.
    var name: String
    /// The kind of store.
    var store: String
    /// The size in bytes as stored, encoded or encrypted.
    var bytes: Int
    /// The path of its file, relative to the directory of the demo.
    var path: String
}

extension DemoStores {
    /// All stored items, read from disk.
    func inventory() async throws -> [StoredItem] {
        var items: [StoredItem] = []
        for key in try settings.keys().sorted() {
            let bytes = try settings.rawValue(named: key)?.count ?? 0
            items.append(StoredItem(name: key, store: "FileKVStore", bytes: bytes, path: "settings"))
        }
        for key in try secrets.keys().sorted() {
            items.append(
                StoredItem(name: key, store: "VaultCrypt", bytes: try size(of: "secrets/vault"), path: "secrets/vault"))
        }
        for file in try await files.list(recursive: true) where !file.isDirectory {
            items.append(
                StoredItem(
                    name: file.key, store: "DiskFileStore", bytes: Int(file.sizeInBytes), path: "files/\(file.key)"))
        }
        items += try plainFiles(in: "images", store: "ImageCacheManager")
        items += try plainFiles(in: "values", store: "CodableStorage")
        return items
    }

    private func plainFiles(in name: String, store: String) throws -> [StoredItem] {
        let fileSystem = SystemFileSystem()
        var items: [StoredItem] = []
        var pending = [name]
        while let path = pending.popLast() {
            for url in try fileSystem.contentsOfDirectory(at: directory.appendingPathComponent(path)) {
                let below = "\(path)/\(url.lastPathComponent)"
                if url.hasDirectoryPath {
                    pending.append(below)
                } else if !url.lastPathComponent.hasPrefix("#") {
                    let shown = String(below.dropFirst(name.count + 1))
                    items.append(StoredItem(name: shown, store: store, bytes: try size(of: below), path: below))
                }
            }
        }
        return items.sorted { $0.path < $1.path }
    }

    private func size(of path: String) throws -> Int {
        Int(try SystemFileSystem().status(POSIXPath(directory.appendingPathComponent(path))).sizeInBytes)
    }
}

extension [StoredItem] {
    /// The items as a table.
    var table: TextTable {
        var table = TextTable([("Name", .left), ("Store", .left), ("Bytes", .right), ("Path", .left)])
        for item in self { table.add([item.name, item.store, String(item.bytes), item.path]) }
        return table
    }
}
