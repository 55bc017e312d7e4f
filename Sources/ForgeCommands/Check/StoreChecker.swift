import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory, recognises each file by its name and first bytes, and reads it the way its store does.
struct StoreChecker {
    let keyFile: URL?
    let progress: Progress
    private let fileSystem = SystemFileSystem()

    init(keyFile: URL?, progress: Progress) {
        self.keyFile = keyFile
        self.progress = progress
    }

    /// What was found, ordered by path.
    func check(_ root: URL) throws -> [StoreFinding] {
        var findings: [StoreFinding] = []
        var pending = [(path: try POSIXPath(root), shown: "")]
        while let directory = pending.popLast() {
            let entries = try fileSystem.withDirectory(directory.path) {
                (descriptor) throws(FileSystemError) in try fileSystem.entries(of: descriptor)
            }
            for entry in entries {
                let path = directory.path.appending(entry.name)
                let shown = directory.shown.isEmpty ? entry.name.description : "\(directory.shown)/\(entry.name)"
                if entry.type == .directory {
                    pending.append((path, shown))
                } else if let finding = check(path, shown, entry) {
                    findings.append(finding)
                }
                progress.step()
            }
        }
        return findings.sorted { $0.path < $1.path }
    }

    /// Checks one file; nil for a lock, and for a file that was removed after it was listed.
    private func check(_ path: POSIXPath, _ shown: String, _ entry: DirectoryEntry) -> StoreFinding? {
        var finding = StoreFinding(path: shown, kind: "file", bytes: 0, state: .readable)
        do {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            finding.bytes = Int(status.sizeInBytes)
            guard status.type == .regular else {
                finding.kind = status.type.text
                finding.state = .skipped
                return finding
            }
            switch try FileKind(of: path, entry, on: fileSystem) {
            case .lock: return nil
            case .leftover:
                finding.kind = "leftover"
                finding.details = ["the temporary file of a write that did not end"]
            case .quarantine:
                finding.kind = "quarantine"
                finding.details = ["unreadable data that a store set aside"]
            case .log: try checkLog(path, &finding)
            case .vault: try checkVault(path, &finding)
            case .vaultKey: finding.kind = "vault key"
            case .image: try checkImage(path, &finding)
            case .other: try readToEnd(path)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            return nil
        } catch {
            finding.state = .damaged
            finding.details.append("\(error)")
        }
        return finding
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
        // The header is checked first: whether the file was cut short does not depend on the key.
        let information = try VaultInformation(of: vault)
        guard let keyFile else {
            finding.details = ["\(counted(information?.count ?? 0, "secret")); give --key-file to verify them"]
            return
        }
        guard let key = try VaultKeyFile.load(at: keyFile) else {
            throw CommandFailure("there is no key file at \(keyFile.path)")
        }
        finding.details = [counted(try VaultCrypt(at: vault, key: key).verify(), "secret")]
        finding.state = .intact
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

    /// Reads a file without checksums to its end.
    private func readToEnd(_ path: POSIXPath) throws(FileSystemError) {
        let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            var offset: Int64 = 0
            while true {
                let chunk = try fileSystem.readBytes(of: file, at: offset, count: 1 << 20)
                if chunk.isEmpty { return }
                offset += Int64(chunk.count)
            }
        }
    }
}

extension FileType {
    fileprivate var text: String {
        switch self {
        case .symbolicLink: "symbolic link"
        case .fifo: "FIFO"
        case .socket: "socket"
        case .characterSpecial, .blockSpecial: "device"
        default: "unknown"
        }
    }
}
