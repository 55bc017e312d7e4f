import Crypto
import ForgeStorage
import Foundation
import SystemPackage

/// Walks a directory and reads each file as its store does; a file that belongs to no store is read to its end.
///
/// Changes nothing and takes no lock, so the stores may be in use. Files that a running process removes meanwhile are
/// not reported.
struct StoreChecker {
    let keys: [SymmetricKey]
    let progress: Progress
    /// Whether damaged markers are taken for whole ones: a look at what their repair would show.
    var takesDamagedForWhole = false
    private let fileSystem = SystemFileSystem()

    init(keys: [SymmetricKey], progress: Progress) {
        self.keys = keys
        self.progress = progress
    }

    /// The findings, in the order of the walk; nil if there is neither a file nor a store below the directory.
    func check(_ tree: ConfinedDirectory) throws -> [StoreFinding]? {
        let top = tree.path
        var walk = StoreWalk(tree, takesDamagedForWhole: takesDamagedForWhole)
        var findings: [StoreFinding] = []
        var kept = try KeptDirectories(in: tree)
        var saved: SavedSizes?
        var isEmpty = true
        while let event = try walk.next() {
            switch event {
            case .entered(let directory):
                // A directory below a file store is the app's, also if it looks like a backup.
                if kept.enter(directory.path), !directory.scope.store.hasNestedKeys {
                    saved = SavedSizes(in: directory.path, of: tree)
                }
                if let finding = try logDirectory(directory, below: top) { findings.append(finding) }
                continue
            case .other: continue
            case .failed(let error):
                findings.append(unreadableDirectory(Place(error.path ?? "", below: top), error))
            case .file(let entry):
                isEmpty = false
                if var finding = check(entry, of: walk, below: top) {
                    saved?.compare(entry, &finding)
                    kept.note(finding, entry)
                    finding.reasonToKeep = finding.reasonToKeep ?? kept.reason(for: entry.path)
                    findings.append(finding)
                }
            }
            try progress.advance()
        }
        guard !isEmpty || !findings.isEmpty else { return nil }
        return findings
    }

    /// A file or directory of the walk.
    private struct Place {
        let path: POSIXPath
        /// The path relative to the checked directory.
        let location: POSIXPath
        /// ``location`` as text; control characters are escaped when it is printed.
        let shown: String

        init(_ path: POSIXPath, below top: POSIXPath) {
            location = path
            self.path = top.appending(path)
            shown = path.shown
        }
    }

    private func unreadableDirectory(_ place: Place, _ error: FileSystemError) -> StoreFinding {
        let isElsewhere = error.errno.isDisappearance
        return StoreFinding(
            path: place.shown, kind: "directory", bytes: 0, state: isElsewhere ? .skipped : .damaged,
            details: [isElsewhere ? error.reasonLeftOut : details(of: error, at: place)], location: place.location,
            isElsewhere: isElsewhere)
    }

    /// The damage of a key-value store whose log is a directory; nil for any other directory.
    func logDirectory(_ entry: StoreWalk.Entry, below top: POSIXPath) throws(FileSystemError) -> StoreFinding? {
        let (parent, name) = entry.path.splitLast()
        guard name == FileKVStore.logName, entry.root == parent,
            try StoreScope(
                at: top.appendingIfAny(parent), on: fileSystem, takesDamagedForWhole: takesDamagedForWhole
            ).owner.contains(.keyValue)
        else { return nil }
        return StoreFinding(
            path: entry.path.shown, kind: "key-value store", bytes: 0, state: .damaged,
            details: ["its log is a directory"], location: entry.path)
    }

    /// The text of an error without the path, which the finding contains already.
    private func details(of error: any Error, at place: Place) -> String {
        guard var error = error as? FileSystemError else { return "\(error)" }
        error.path = nil
        return "\(error)"
    }

    /// Checks a file whose format its store defines; nil for any other file.
    func checkFormat(of entry: StoreWalk.Entry, in walk: StoreWalk, below top: POSIXPath) -> StoreFinding? {
        guard let finding = check(entry, of: walk, below: top) else { return nil }
        return [.log, .vault, .vaultKey, .entry, .marker].contains(finding.role) ? finding : nil
    }

    /// Checks one entry; returns nil for a marker or another internal file of a store, and for a file that was removed
    /// after it was listed.
    private func check(_ entry: StoreWalk.Entry, of walk: StoreWalk, below top: POSIXPath) -> StoreFinding? {
        let place = Place(entry.path, below: top)
        let (path, name) = (place.path, entry.path.splitLast().name)
        var finding = StoreFinding(path: place.shown, kind: "file", bytes: 0, state: .readable, location: entry.path)
        do {
            finding.bytes = entry.status.type == .directory ? 0 : Int(entry.status.sizeInBytes)
            finding.role = try walk.role(of: entry)
            finding.isMarked = entry.scope.isRoot && !entry.scope.isUnknown
            if entry.scope.owner == .unknownStore, finding.role == .content, !name.isMarkerOfKind {
                // Its log, vaults and keys are known by their contents; whether they may be changed is not known.
                finding.role = try walk.role(of: entry, in: .outside)
                if finding.role == .vaultKey { finding.reasonToKeep = "in the directory of a store that is not known" }
            }
            switch finding.role {
            case .marker, .bookkeeping: return nil
            case .special(let type):
                finding.kind = type.text
                finding.state = .skipped
            case .temporary where entry.status.type == .directory:
                let temporary = TemporaryFileLookup(on: fileSystem)
                finding.kind = "temporary directory"
                finding.state = .skipped
                finding.details = [temporary.details(of: name, try temporary.origin(of: path, below: top))]
            case .temporary, .moved: try checkTemporary(place, name, below: top, &finding)
            case .content where name.isMarkerOfKind: try checkMarker(path, name, &finding)
            case .content where name.isLeftover: try checkTemporary(place, name, below: top, &finding)
            case .quarantine:
                finding.kind = "quarantine"
                finding.details = ["unreadable data that a store set aside"]
                try readToEnd(path, &finding)
            case .log: try checkLog(path, &finding)
            case .vault: try checkVault(path, &finding)
            case .vaultKey: try checkVaultKey(path, &finding)
            case .entry where entry.scope.owner.contains(.images): try checkImage(path, &finding)
            case .content, .entry: try readToEnd(path, &finding)
            }
        } catch let error as FileSystemError where error.errno == .noSuchFileOrDirectory {
            guard mayBeElsewhere(entry, walk) else { return nil }
            finding.state = .skipped
            finding.details = [error.reasonLeftOut]
            finding.isElsewhere = true
        } catch {
            finding.state = .damaged
            finding.details.append(details(of: error, at: place))
            finding.hasWrongContent = hasWrongContent(error)
        }
        return finding
    }

    /// Whether a file that was not found where it was listed may be elsewhere, with its directory.
    private func mayBeElsewhere(_ entry: StoreWalk.Entry, _ walk: StoreWalk) -> Bool {
        do throws(FileSystemError) {
            return try !walk.isRemoved(entry)
        } catch {
            return true
        }
    }

    /// Whether an error says that the content itself is wrong or unreadable.
    private func hasWrongContent(_ error: any Error) -> Bool {
        switch error {
        case let error as CryptError: [.tampered, .truncated, .invalidKeyMaterial].contains(error.code)
        case ImageFileDamage.checksum, ImageFileDamage.foreign: true
        case let error as FileSystemError: error.errno == .ioError
        default: false
        }
    }

    /// A marker that is not whole: what stores have beside it is not recognised.
    private func checkMarker(_ path: POSIXPath, _ name: POSIXPath, _ finding: inout StoreFinding) throws {
        guard let kind = StoreMarker.kind(named: name) else { return try readToEnd(path, &finding) }
        let file = try fileSystem.open(path, .readOnly, options: [.noFollow, .nonBlocking])
        let content = try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.readBytes(of: file, at: 0, count: 64)
        }
        guard StoreMarker.isDamaged(content, of: kind) else {
            // A whole one beside a damaged one is no reason to leave the others as they are.
            if StoreMarker.kind(of: name, containing: content) != nil { finding.role = .marker }
            return
        }
        finding.kind = "marker"
        finding.role = .marker
        finding.state = .damaged
        finding.hasWrongContent = true
        finding.details = ["until it is repaired, the files beside it are left as they are"]
    }

    private func checkTemporary(
        _ place: Place, _ name: POSIXPath, below top: POSIXPath, _ finding: inout StoreFinding
    ) throws(FileSystemError) {
        finding.kind = "temporary file"
        let temporary = TemporaryFileLookup(on: fileSystem)
        let origin = try temporary.origin(of: place.path, below: top)
        finding.details = [temporary.details(of: name, origin)]
        try readToEnd(place.path, &finding)
    }

    private func checkLog(_ path: POSIXPath, _ finding: inout StoreFinding) throws {
        finding.kind = "key-value store"
        if let inspection = try KVInspection(of: URL(path.splitLast().parent)) {
            finding.state = inspection.problems.isEmpty ? .intact : .damaged
            finding.details = [counted(inspection.keyCount, "key")] + inspection.problems + inspection.notes
        }
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
            while let start = try fileSystem.nextData(of: file, at: offset),
                case let chunk = try fileSystem.readBytes(of: file, at: start, count: 1 << 20), !chunk.isEmpty
            {
                count += chunk.count
                offset = start + Int64(chunk.count)
            }
            return try fileSystem.status(of: .descriptor(file)).sizeInBytes
        }
        guard count < end else { return }
        finding.details.append("sparse; read \(readableSize(count)), skipped holes")
    }
}

/// The sizes of the files of a backup according to its manifest. A log that was cut between two records, as by an
/// interrupted copy of the backup, is a whole one; nothing else tells that there were more.
private struct SavedSizes {
    /// By paths relative to the root of the walk.
    private var files: [POSIXPath: (bytes: Int64, keys: Int?)] = [:]

    /// Reads the manifest in a directory of the walk. There are no sizes if it is not whole: the backup may be in
    /// progress, and `restore` says what is wrong with it.
    init(in directory: POSIXPath, of tree: ConfinedDirectory) {
        let content = directory.isEmpty ? BackupManifest.content : directory.appending(BackupManifest.content)
        var files = self.files
        do {
            try BackupManifestReader(of: tree.path.appendingIfAny(directory)).forEach { file in
                let path = try file.relativePath()
                files[content.appending(path)] = (file.bytes, file.keys)
            }
        } catch {
            return
        }
        self.files = files
    }

    /// Adds the damage that a file does not have its size in the manifest.
    func compare(_ entry: StoreWalk.Entry, _ finding: inout StoreFinding) {
        guard let file = files[entry.path], entry.status.type == .regular, entry.status.sizeInBytes != file.bytes else {
            return
        }
        finding.state = .damaged
        let keys = file.keys.map { " and \(counted($0, "key"))" } ?? ""
        finding.details.append("the manifest of the backup has \(file.bytes) bytes\(keys)")
    }
}

/// The directories of a walk below which nothing is repaired.
struct KeptDirectories {
    private let tree: ConfinedDirectory
    private let isInBackup: Bool
    private var current: (path: POSIXPath, reason: String)?

    /// - Parameter tree: The root of the walk, which may be a backup itself, or in one.
    /// - Throws: `FileSystemError` if the root cannot be opened.
    init(in tree: ConfinedDirectory) throws(FileSystemError) {
        self.tree = tree
        let root = try tree.open(".")
        defer { tree.fileSystem.discard(root) }
        isInBackup = BackupManifest.contains(root, on: tree.fileSystem)
    }

    /// Notes a directory that the walk enters.
    ///
    /// - Returns: Whether it is a backup, or the root of the walk in one, and not below a directory that is kept.
    mutating func enter(_ path: POSIXPath) -> Bool {
        if let current, path.isBelow(current.path) { return false }
        let isBackup = path.isEmpty ? isInBackup : BackupManifest.isBackup(path, in: tree)
        current = isBackup ? (path, "in a backup, whose manifest would not fit any more") : nil
        return isBackup
    }

    /// Notes a file, which may be a marker of a later version. The walk comes to markers first.
    mutating func note(_ finding: StoreFinding, _ entry: StoreWalk.Entry) {
        let (parent, name) = entry.path.splitLast()
        guard name.isMarkerOfKind, finding.role == .content, entry.scope.isUnknown, current == nil else { return }
        current = (parent, "below the directory of a store that this version does not know")
    }

    /// Why a file is left as it is; nil if it may be repaired.
    func reason(for path: POSIXPath) -> String? {
        guard let current, path.isBelow(current.path) else { return nil }
        return current.reason
    }
}

extension POSIXPath {
    /// Whether this is a path below a directory, both relative to the same one; an empty path is that one.
    func isBelow(_ directory: POSIXPath) -> Bool {
        guard !directory.isEmpty else { return !isEmpty }
        return bytes.starts(with: directory.bytes) && bytes.dropFirst(directory.count).first == UInt8(ascii: "/")
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
