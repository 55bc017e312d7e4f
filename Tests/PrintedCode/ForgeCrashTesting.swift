// Declarations that code in doc comments of ForgeCrashTesting uses.

import ForgeFileStore
import ForgeFileSystem
import Testing

struct Lost: Error {}

struct Store {
    init(on fileSystem: some POSIXFileSystem) throws {}
    func set(_ key: String, _ value: Int) throws {}
    func get(_ key: String) throws -> Int? { nil }
}

let text = Data()
