import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
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

/// Wraps a file system with a hook before every call, which may throw, and a record of all written bytes.
final class RecordingFileSystem: InterceptingFileSystem {
    typealias Hook = @Sendable (FileSystemOperation, POSIXPath?) throws(FileSystemError) -> Void

    let forwarded: any POSIXFileSystem
    private let hook = Mutex<Hook?>(nil)
    private let writes = Mutex<[[UInt8]]>([])

    init(_ base: any POSIXFileSystem = InMemoryFileSystem()) {
        forwarded = base
    }

    func onCall(_ hook: Hook?) {
        self.hook.withLock { $0 = hook }
    }

    /// Makes the call of an operation with this number, counted from now on, fail.
    func fail(_ operation: FileSystemOperation, _ errno: Errno, number: Int = 1) {
        let count = Counter()
        onCall { (called, path) throws(FileSystemError) in
            if called == operation, count.next() == number { throw FileSystemError(operation, errno, path: path) }
        }
    }

    /// All bytes written so far, by call.
    var written: [[UInt8]] { writes.withLock { $0 } }

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {
        try hook.withLock { $0 }?(call.operation, call.path)
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try intercept(InterceptedCall(operation: .write, descriptor: descriptor))
        writes.withLock { $0.append([UInt8](buffer)) }
        return try forwarded.write(descriptor, from: buffer, at: offset)
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        try intercept(InterceptedCall(operation: .map, descriptor: descriptor))
        return FileMapping(
            watching: try forwarded.map(descriptor, at: offset, count: count),
            store: { [self] mapping, bytes, place in
                writes.withLock { $0.append([UInt8](bytes)) }
                mapping.store(bytes, at: place)
            },
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try intercept(InterceptedCall(operation: .writeBack, descriptor: descriptor))
                try mapping.writeBack()
            })
    }
}

/// Counts from 1; thread-safe.
final class Counter: Sendable {
    private let value = Mutex(0)

    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
