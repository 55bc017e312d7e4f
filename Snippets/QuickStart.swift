// Everything below one directory, read back in another run.
// snippet.show
import ForgeStorage
import Foundation

let root = URL(fileURLWithPath: "my-app-data")

// Settings: typed keys; a value survives a kill once `set` returns.
let launches = KVKey<Int>("launches")
let settings = try FileKVStore(at: root.appendingPathComponent("settings"))
let launch = try settings.update(launches, default: 0) { $0 += 1 }  // Atomic; returns the new value.
try settings.synchronize()  // Now it also survives a power cut.

// Files: replaced atomically and durably; keys cannot leave the root.
let files = DiskFileStore(root: root.appendingPathComponent("files"))
try await files.save(Data("hello".utf8), to: "notes/first.txt")

// Secrets: encrypted and authenticated.
let secrets = try VaultCrypt(
    at: root.appendingPathComponent("secrets/vault"),
    key: VaultKeyFile.loadOrCreate(at: root.appendingPathComponent("vault-key")))
try secrets.set("token123", for: CryptKey<String>(key: "auth.access"))

// A session, on any store.
struct User: Codable { var id: String, name: String }
let session = SessionManager(storage: CryptSessionStorage<User>(store: secrets))
try session.saveUser(User(id: "123", name: "John Doe"))

// Images and Codable values.
let images = ImageCacheManager(cacheDirectory: root.appendingPathComponent("images"))
try images.cacheImage(id: "avatar", data: Data([0x89, 0x50, 0x4E, 0x47]))
let values = CodableStorage(storage: DiskStorage(path: root.appendingPathComponent("values")))
try values.save(["Hello", "World"], for: "timeline")

print("launch \(launch) of", try session.loadUser()?.name ?? "no one")
