import Crypto
import ForgeCrypt
import ForgeFileSystem
import Foundation
import SystemPackage

/// The location of a vault, on disk or in memory, which is removed with the last reference.
final class VaultPlace: Sendable {
    static let key = SymmetricKey(data: (0..<32).map { UInt8($0) })
    static let otherKey = SymmetricKey(data: (1...32).map { UInt8($0) })

    let fileSystem: any POSIXFileSystem
    let directory: URL
    let isOnDisk: Bool

    /// A vault in memory.
    init(_ fileSystem: any POSIXFileSystem = InMemoryFileSystem()) {
        self.fileSystem = fileSystem
        directory = URL(filePath: "/app/secrets", directoryHint: .isDirectory)
        isOnDisk = false
    }

    /// A vault on disk, in a directory that does not exist yet.
    init(onDisk name: String) {
        fileSystem = SystemFileSystem()
        directory = FileManager.default.temporaryDirectory
            .appending(path: "forge-crypt-\(name)-\(UUID().uuidString)/secrets", directoryHint: .isDirectory)
        isOnDisk = true
    }

    deinit {
        guard isOnDisk else { return }
        do { try FileManager.default.removeItem(at: directory.deletingLastPathComponent()) } catch _ {}
    }

    var url: URL { directory.appending(path: "app.vault", directoryHint: .notDirectory) }

    var path: POSIXPath { POSIXPath(url.path(percentEncoded: false)) }

    func vault(_ key: SymmetricKey = VaultPlace.key) throws -> VaultCrypt {
        try VaultCrypt(at: url, key: key, fileSystem: fileSystem)
    }

    /// The bytes of the vault file.
    var bytes: [UInt8] {
        get throws { try fileSystem.readFile(path) }
    }

    /// Replaces the vault file, with the mode of a vault.
    func put(_ bytes: [UInt8], permissions: FilePermissions = .ownerReadWrite) throws {
        try fileSystem.makeDirectories(POSIXPath(directory.path(percentEncoded: false)))
        let parent = try fileSystem.open(POSIXPath(directory.path(percentEncoded: false)), options: [.directory])
        try fileSystem.closing(parent) { () throws(FileSystemError) in
            var failure: FileSystemError?
            bytes.withUnsafeBytes { buffer in
                do throws(FileSystemError) {
                    try fileSystem.replaceFile("app.vault", at: parent, with: buffer.bytes, permissions: permissions)
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
        }
    }

    /// All names in the vault's directory.
    var names: [String] {
        get throws {
            try fileSystem.contentsOfDirectory(at: directory).map(\.lastPathComponent).sorted()
        }
    }
}

extension CryptError {
    /// The code of the error that `body` throws; nil if it throws none.
    static func code(of body: () throws -> some Any) throws -> Code? {
        do {
            _ = try body()
            return nil
        } catch let error as CryptError {
            return error.code
        }
    }
}

/// The keys that most tests use.
enum TestKeys {
    static let token = CryptKey<String>(key: "auth.access")
    static let refresh = CryptKey<String>(key: "auth.refresh")
}
