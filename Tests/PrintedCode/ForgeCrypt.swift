// Declarations that code in doc comments of ForgeCrypt uses.

let store = InMemoryCrypt()
let installationID = CryptKey<String>(key: "installation")
