import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory and reads each file the way its store does; what belongs to no store is read to its end.
///
/// Changes nothing and takes no lock, so the stores may be in use. Files that a running process removes meanwhile are
/// not reported.
struct StoreChecker {
    let keys: [SymmetricKey]
    let progress: Progress
    private let fileSystem = SystemFileSystem()

    init(keys: [SymmetricKey], progress: Progress) {
        self.keys = keys
        self.progress = progress
    }

    /// A directory, or a file in it, during the walk.
    private struct Place {
        var path: POSIXPath
        /// The path below the checked directory; empty for that directory.
        var shown: String
        /// What stores have written in the directory, or in that of the file; nil if it was not read.
        var owner: StoreEvidence?

        func appending(_ name: POSIXPath) -> Place {
            // The description of a path escapes control characters; here the printer of the finding does that.
            let text = String(validating: name) ?? name.description
            return Place(path: path.appending(name), shown: shown.isEmpty ? text : "\(shown)/\(text)", owner: owner)
        }
    }

    /// The findings, ordered by path; nil if there is neither a file nor a store below the directory.
    func check(_ root: URL) throws -> [StoreFinding]? {
        let top = Place(path: try POSIXPath(root), shown: "")
        var findings: [StoreFinding] = []
        var isEmpty = true
        var pending = [top]
        while var directory = pending.popLast() {
            var entries: [DirectoryEntry] = []
            do {
                guard let found = try list(directory) else { continue }
                entries = found.entries
                directory.owner = found.owner
            } catch {
                guard !directory.shown.isEmpty else { throw error }
                findings.append(unreadableDirectory(directory, error))
            }
            for entry in entries {
                let place = directory.appending(entry.name)
                if entry.type == .directory {
                    do {
                        if let trash = try checkTrash(place, entry.name, below: top.path) {
                            findings.append(trash)
                        } else {
                            pending.append(place)
                        }
                    } catch {
                        findings.append(unreadableDirectory(place, error))
                    }
                } else {
                    isEmpty = false
                    if let finding = check(place, entry, below: top.path) { findings.append(finding) }
                }
                try progress.advance()
                try Interruption.check()
            }
        }
        guard !isEmpty || !findings.isEmpty else { return nil }
        return findings.sorted { $0.path < $1.path }
    }

    /// The entries of a directory, and what stores have written in it; nil if it was removed after it was listed.
    private func list(
        _ directory: Place
    ) throws(FileSystemError) -> (entries: [DirectoryEntry], owner: StoreEvidence)? {
        let isTop = directory.shown.isEmpty
        do {
            return try fileSystem.withDirectory(directory.path) { (descriptor) throws(FileSystemError) in
                let owner =
                    try isTop
                    ? StoreEvidence(at: directory.path, on: fileSystem)
                    : StoreEvidence(of: descriptor, below: directory.owner, on: fileSystem)
                return (try fileSystem.entries(of: descriptor), owner)
            }
        } catch  where error.errno == .noSuchFileOrDirectory && !isTop {
            return nil
        }
    }

    private func unreadableDirectory(_ place: Place, _ error: FileSystemError) -> StoreFinding {
        StoreFinding(
            path: place.shown, kind: "directory", bytes: 0, state: .damaged, details: [details(of: error, at: place)])
    }

    /// The text of an error without the path, which the finding contains already.
    private func details(of error: any Error, at place: Place) -> String {
        guard var error = error as? FileSystemError, error.path == place.path else { return "\(error)" }
        error.path = nil
        return "\(error)"
    }

    /// The finding for a directory that a store is deleting or was deleting; nil for any other.
    private func checkTrash(
        _ place: Place, _ name: POSIXPath, below top: POSIXPath
    ) throws(FileSystemError) -> StoreFinding? {
        guard name.isLeftover else { return nil }
        let temporary = TemporaryFileFinding(on: fileSystem)
        guard let origin = try temporary.origin(of: place.path, below: top) else { return nil }
        return StoreFinding(
            path: place.shown, kind: "temporary directory", bytes: 0, state: .skipped,
            details: [temporary.details(of: name, origin)])
    }

    /// Checks one file; nil for a file that marks a store's directory, and for one that was removed after it was
    /// listed.
    private func check(_ place: Place, _ entry: DirectoryEntry, below top: POSIXPath) -> StoreFinding? {
        let path = place.path
        var finding = StoreFinding(path: place.shown, kind: "file", bytes: 0, state: .readable)
        do {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            finding.bytes = Int(status.sizeInBytes)
            guard status.type == .regular else {
                finding.kind = status.type.text
                finding.state = .skipped
                return finding
            }
            guard let owner = place.owner else { return nil }
            finding.role = try fileSystem.withDirectory(path.splitLast().parent) {
                (directory) throws(FileSystemError) in
                try owner.role(of: entry.name, at: directory, on: fileSystem)
            }
            finding.isMarked = owner.isRoot
            switch finding.role {
            case .marker, .bookkeeping: return nil
            case .temporary, .moved: try checkTemporary(place, entry.name, below: top, &finding)
            case .content where entry.name.isLeftover: try checkTemporary(place, entry.name, below: top, &finding)
            case .quarantine:
                finding.kind = "quarantine"
                finding.details = ["unreadable data that a store set aside"]
                try readToEnd(path, &finding)
            case .log: try checkLog(path, &finding)
            case .vault: try checkVault(path, &finding)
            case .vaultKey: try checkVaultKey(path, &finding)
            case .image: try checkImage(path, &finding)
            case .content: try readToEnd(path, &finding)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        } catch {
            finding.state = .damaged
            finding.details.append(details(of: error, at: place))
            finding.hasWrongContent = hasWrongContent(error)
        }
        return finding
    }

    private func hasWrongContent(_ error: any Error) -> Bool {
        switch error {
        case let error as CryptError: [.tampered, .truncated, .invalidKeyMaterial].contains(error.code)
        case ImageFileDamage.checksum, ImageFileDamage.foreign: true
        case let error as FileSystemError: error.errno == .ioError
        default: false
        }
    }

    private func checkTemporary(
        _ place: Place, _ name: POSIXPath, below top: POSIXPath, _ finding: inout StoreFinding
    ) throws(FileSystemError) {
        finding.kind = "temporary file"
        let temporary = TemporaryFileFinding(on: fileSystem)
        let origin = try temporary.origin(of: place.path, below: top)
        finding.details = [temporary.details(of: name, origin)]
        try readToEnd(place.path, &finding)
    }

    private func checkLog(_ path: POSIXPath, _ finding: inout StoreFinding) throws {
        finding.kind = "key-value store"
        guard let inspection = try KVInspection(of: URL(path.splitLast().parent)) else { return }
        finding.state = inspection.problems.isEmpty ? .intact : .damaged
        finding.details = [counted(inspection.keyCount, "key")] + inspection.problems + inspection.notes
    }

    private func checkVault(_ path: POSIXPath, _ finding: inout StoreFinding) throws {
        finding.kind = "vault"
        let vault = URL(path)
        // Verified even without the key, so that a truncated file is not reported as sealed under another key.
        let information = try VaultInformation(of: vault)
        let count = counted(information?.count ?? 0, "secret")
        guard !keys.isEmpty else {
            finding.details = [count, "give --key-file to verify them"]
            return
        }
        for key in keys {
            do throws(CryptError) {
                finding.details = [counted(try VaultCrypt(at: vault, key: key).verify(), "secret")]
                finding.state = .intact
                return
            } catch {
                guard error.code == .wrongKey else { throw error }
            }
        }
        finding.details = [count, "\(CryptError.Code.wrongKey)"]
        finding.state = .unverified
    }

    private func checkVaultKey(_ path: POSIXPath, _ finding: inout StoreFinding) throws {
        finding.kind = "vault key"
        if try VaultKeyFile.load(at: URL(path)) != nil { finding.state = .intact }
    }

    private func checkImage(_ path: POSIXPath, _ finding: inout StoreFinding) throws {
        finding.kind = "cached image"
        let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        let content = try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.readContents(of: file, maximumSizeInBytes: ImageFile.maximumSizeInBytes)
        }
        _ = try ImageFile.image(in: Data(content))
        finding.state = .intact
    }

    /// Reads a file without checksums to its end, skipping holes.
    private func readToEnd(_ path: POSIXPath, _ finding: inout StoreFinding) throws(FileSystemError) {
        let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        var count = 0
        let end = try fileSystem.closing(file) { () throws(FileSystemError) in
            var offset: Int64 = 0
            while let start = try fileSystem.nextData(of: file, at: offset) {
                offset = start
                let chunk = try fileSystem.readBytes(of: file, at: offset, count: 1 << 20)
                if chunk.isEmpty { break }
                count += chunk.count
                offset += Int64(chunk.count)
            }
            return try fileSystem.status(of: .descriptor(file)).sizeInBytes
        }
        guard count < end else { return }
        finding.details.append("sparse; read \(readableSize(count)), skipped holes")
    }
}

extension FileType {
    /// The type in a message.
    var text: String {
        switch self {
        case .symbolicLink: "symbolic link"
        case .fifo: "FIFO"
        case .socket: "socket"
        case .characterSpecial, .blockSpecial: "device"
        default: "unknown"
        }
    }
}
