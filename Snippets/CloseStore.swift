// Closes a store on purpose: in a command-line tool, or when a server shuts down.

import ForgeKVStore
import Foundation

let url = FileManager.default.temporaryDirectory.appendingPathComponent("close-store-\(UUID())")

// snippet.show
let launches = try FileKVStore.withStore(at: url) { store in
    try store.update(KVKey<Int>("launches"), default: 0) { $0 += 1 }
}  // Durable now, and free for other processes; or an error was thrown.
print("launch \(launches)")
// snippet.hide

try FileKVStore.withStore(at: url) { store in
    try store.set(KVKey<Int>("launches"), value: 2)
    print(try store.keys())
}
try FileManager.default.removeItem(at: url)
