import ArgumentParser
import ForgeFileSystem
import ForgeS3
import ForgeStorage
import Foundation
import SystemPackage

/// The exit statuses of `forge`. They are part of its interface: a number never gets another meaning.
enum ExitStatus: Int32, CaseIterable {
    case success = 0
    /// Nothing more precise applies; also damage that `check`, or a verb that reads a store, has found.
    case failure = 1
    /// Some items were processed and others were not; they are listed.
    case partial = 2
    /// There is no such store, key, file or secret.
    case notFound = 4
    /// Another process has the store open, or holds its lock.
    case inUse = 5
    /// A vault does not open with the given key.
    case wrongKey = 6
    /// A server cannot be reached or does not answer in time. Nothing was changed.
    case unreachable = 7
    /// A change was sent to a server, and the answer is unknown: it may have taken effect, or still do.
    case unknownOutcome = 8
    /// Wrong usage: the value of `ArgumentParser`, and of `EX_USAGE` in `sysexits.h`.
    case usage = 64
    /// This command was built without the trait that the verb needs: the value of `EX_UNAVAILABLE` in `sysexits.h`.
    case notBuilt = 69
    /// Ended by control-C: 128 and the number of `SIGINT`, as shells report it.
    case interrupted = 130

    /// The status for an error that no verb has classified.
    init(of error: any Error) {
        self =
            switch error {
            case let error as CommandFailure: error.status
            case let error as KVStoreError: Self.status(of: error)
            case let error as FileStoreError: Self.status(of: error)
            case let error as CryptError: error.isInUse ? .inUse : error.code == .wrongKey ? .wrongKey : .failure
            case is CancellationError: .interrupted
            default: .failure
            }
    }

    private static func status(of error: KVStoreError) -> ExitStatus {
        switch error.code {
        case .noStore: .notFound
        case .unavailable(.server), .timeout: .unreachable
        case .unknownOutcome: .unknownOutcome
        case .cancelled: .interrupted
        default: error.isInUse ? .inUse : .failure
        }
    }

    private static func status(of error: FileStoreError) -> ExitStatus {
        switch error.code {
        case .notFound, .invalidSource(.notFound): .notFound
        case .unavailable(let reason) where reason.isInUse: .inUse
        case .deadlineExceeded(.directoryLock): .inUse
        case .unavailable(.server): statusOfServer(error)
        case .unknownOutcome: .unknownOutcome
        default: .failure
        }
    }

    private static func statusOfServer(_ error: FileStoreError) -> ExitStatus {
        #if S3
        guard let cause = error.underlying as? S3Error else { return .unreachable }
        if cause.code == "NoSuchBucket" { return .notFound }
        return [.unavailable, .timeout].contains(cause.reason) ? .unreachable : .failure
        #else
        return .unreachable
        #endif
    }

    /// The word for the status in the JSON form of an error.
    var word: String { "\(self)" }

    /// The description in the documentation.
    var meaning: String {
        switch self {
        case .success: "success"
        case .failure: "failure, or damage was found"
        case .partial: "partial success: some items failed and are listed"
        case .notFound: "no such store, key, file or secret"
        case .inUse: "the store is in use by another process"
        case .wrongKey: "the key does not open the vault"
        case .unreachable: "a server cannot be reached"
        case .unknownOutcome: "a change was sent to a server, and its outcome is unknown"
        case .usage: "wrong usage"
        case .notBuilt: "this command was built without what the verb needs"
        case .interrupted: "interrupted by control-C"
        }
    }
}

/// The failure of a command, printed as one line on standard error.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    let status: ExitStatus

    init(_ description: String, _ status: ExitStatus = .failure) {
        self.description = description
        self.status = status
    }
}

extension CommandFailure {
    /// The failure of a command that needs an existing store.
    static func noStore(_ kind: String, at path: POSIXPath, hint: String = "") -> CommandFailure {
        CommandFailure("no store here: there is no \(kind) at \(path)\(hint)", .notFound)
    }
}

/// Throws if nothing exists at `url`, so that a mistyped path does not create an empty store.
///
/// - Parameters:
///   - kind: The expected kind of store, in words.
///   - url: The expected location.
///   - isDirectory: Whether it must be a directory.
///   - hint: Text that the error appends to the path.
/// - Throws: ``CommandFailure`` if it does not exist, or the error of the lookup.
func requireStore(_ kind: String, at url: URL, isDirectory: Bool = false, hint: String = "") throws {
    guard try !itemExists(at: url, isDirectory: isDirectory) else { return }
    throw CommandFailure.noStore(kind, at: try POSIXPath(url), hint: hint)
}

/// Whether a file, or if required a directory, exists at `url`.
func itemExists(at url: URL, isDirectory: Bool = false) throws -> Bool {
    do throws(FileSystemError) {
        let status = try SystemFileSystem().status(try POSIXPath(url))
        return !isDirectory || status.type == .directory
    } catch {
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error.errno) else { throw error }
        return false
    }
}

extension CommandFailure {
    /// The failure of a verb that needs a part of the package, which a trait adds.
    static func notBuilt(_ part: String, trait: String) -> CommandFailure {
        CommandFailure(
            "this forge was built without \(part); build it with: swift build --traits \(trait)", .notBuilt)
    }
}
