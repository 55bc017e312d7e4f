import ForgeStorage
import Foundation
import SystemPackage

/// Repairs one damaged file or store at a time.
struct StoreRepair {
    /// The action taken.
    struct Outcome {
        /// `repair`, `set-aside` or `fail`.
        var action: String
        /// Where a file was moved to.
        var destination: String?
        var details: [String] = []
    }

    let root: POSIXPath
    /// Whether nothing is changed.
    let isRehearsal: Bool
    private let fileSystem = SystemFileSystem()

    /// The directory beside a file that it is moved to.
    private static let quarantine: POSIXPath = "quarantine"

    init(root: POSIXPath, isRehearsal: Bool) {
        self.root = root
        self.isRehearsal = isRehearsal
    }

    /// Repairs what a check has found.
    ///
    /// - Throws: The error of a store that is in use or cannot be written; it is unchanged then.
    func repair(_ finding: StoreFinding) throws -> Outcome {
        let path = root.appending(POSIXPath(finding.path))
        guard finding.kind != "directory" else {
            throw CommandFailure("a directory that cannot be read: \(finding.details.joined())")
        }
        switch finding.role {
        case .log where finding.isMarked || finding.path.utf8.elementsEqual(FileKVStore.logName.bytes):
            return try repairStore(path.splitLast().parent, finding)
        case .vaultKey where try isExposed(path):
            if !isRehearsal { try fileSystem.setPermissions(.ownerReadWrite, of: .path(path)) }
            return Outcome(action: "repair", details: ["other users could read it; now they cannot"])
        case .vault where finding.isMarked && finding.hasWrongContent,
            .vaultKey where finding.isMarked && finding.hasWrongContent,
            .image where finding.isMarked && finding.hasWrongContent:
            return try setAside(path, finding)
        case .log, .vault, .vaultKey, .image, .content, .quarantine, .marker, .bookkeeping, .temporary, .moved:
            let reason = finding.isMarked || finding.role == .content ? "" : "no store has marked its directory; "
            throw CommandFailure("left as it is: \(reason)\(finding.details.joined(separator: "; "))")
        }
    }

    /// Opens the store, which sets unreadable bytes aside, and verifies that its log is intact then.
    private func repairStore(_ directory: POSIXPath, _ finding: StoreFinding) throws -> Outcome {
        guard !isRehearsal else { return Outcome(action: "repair", details: finding.details) }
        let (store, damage) = try KVStoreArgument.open(URL(directory), .readWrite)
        try store.close()
        guard let inspection = try KVInspection(of: URL(directory)), inspection.problems.isEmpty else {
            throw CommandFailure("the log could not be rewritten")
        }
        return Outcome(action: "repair", details: damage + ["\(counted(inspection.keyCount, "key")) kept"])
    }

    private func setAside(_ path: POSIXPath, _ finding: StoreFinding) throws -> Outcome {
        let (parent, name) = path.splitLast()
        let directory = parent.appending(Self.quarantine)
        // A name by which the check recognises data that was set aside.
        let base = Array("quarantine-".utf8) + name.bytes
        guard !isRehearsal else {
            return Outcome(
                action: "set-aside", destination: directory.appending(POSIXPath(base)).shown, details: finding.details)
        }
        try fileSystem.makeDirectories(directory)
        var target = directory.appending(POSIXPath(base))
        var number = 0
        while try !move(path, to: target) {
            number += 1
            target = directory.appending(POSIXPath(base + Array("-\(number)".utf8)))
        }
        try fileSystem.synchronizeParent(of: target)
        try fileSystem.synchronizeParent(of: path)
        return Outcome(action: "set-aside", destination: target.shown, details: finding.details)
    }

    /// Moves a file; returns false if the name is taken.
    private func move(_ path: POSIXPath, to target: POSIXPath) throws(FileSystemError) -> Bool {
        do {
            try fileSystem.rename(path, to: target, .exclusive)
            return true
        } catch {
            guard error.errno == .fileExists else { throw error }
            return false
        }
    }

    /// Whether a key file is intact, but not private.
    private func isExposed(_ path: POSIXPath) throws -> Bool {
        do throws(CryptError) {
            _ = try VaultKeyFile.load(at: URL(path))
            return false
        } catch {
            return try error.code == .insecureFile
                && fileSystem.status(path, followsSymbolicLinks: false).owner == fileSystem.effectiveUser
        }
    }
}
