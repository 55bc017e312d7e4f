// Declarations that code in doc comments of ForgeFileStore uses.

struct Note: Codable {}

let store = InMemoryFileStore()
let note = Note()
