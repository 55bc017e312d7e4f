// The declarations that doc comments of ForgeStorage take for granted.

struct User: Codable {}
struct Timeline: Codable {}

let timeline = Timeline()
let directory = URL(filePath: "values")
let vault = InMemoryCrypt()
let staysLoggedIn = Bool.random()
