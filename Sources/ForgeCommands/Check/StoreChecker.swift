import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory, tells what each file is by its name and first bytes, and reads it the way its store does.
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

    /// What is to be said of one file; nil for a lock, and for what was removed since it was listed.
    private func check(_ path: POSIXPath, _ shown: String, _ entry: DirectoryEntry) -> StoreFinding? {
        var finding = StoreFinding(path: shown, kind: "file", bytes: 0, state: .readable)
        do {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            finding.bytes = Int(status.sizeInBytes)
            guard status.type == .regular else {
                finding.state = .damaged
                finding.details = ["neither a file nor a directory; no store follows it"]
                return finding
            }
            switch try FileKind(of: path, entry, on: fileSystem) {
            case .lock: return nil
            case .leftover:
                finding.kind = "leftover"
                finding.details = ["of a write that never ended; swept when the store is opened"]
            case .quarantine:
                finding.kind = "quarantine"
                finding.details = ["could not be read, and was set aside"]
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
        // The header is checked first: a file that was cut short is no matter of the key.
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
        _ = try ImageFile.image(in: Data(fileSystem.readFile(path)))
        finding.state = .intact
    }

    /// A file without checksums: what can be told is whether all of it can be read.
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
