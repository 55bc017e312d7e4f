// Declarations that code in doc comments of ForgeStorage uses.

struct User: Codable {}
struct Timeline: Codable {}

let timeline = Timeline()
let directory = URL(filePath: "values")
let vault = InMemoryCrypt()
let staysLoggedIn = Bool.random()
let store = InMemoryKVStore()
let id = "session"
