// Declarations that code in doc comments of ForgeStorageTesting uses.

import ForgeCrypt
import ForgeFileSystem
import ForgeKVStore
import Testing

enum Theme: String, Codable { case light, dark }
struct Settings: Codable, Equatable { var theme: Theme }
typealias MyStore = InMemoryKVStore

let settings = KVKey<Settings>("settings")
let key = KVKey<String>("key")
let file = URL(filePath: "/file")
let url = URL(filePath: "golden.txt")
