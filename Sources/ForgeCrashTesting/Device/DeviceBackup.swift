import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// A backup of an app on a ``SimulatedDevice``: its files, those of its app group, and its secrets at one moment.
///
/// It omits caches, temporary files, what is excluded from backups, and secrets that require a passcode. It contains
/// device-bound secrets, but only their device can read them; so it is with all secrets of an unencrypted backup.
///
/// Not simulated: differences between iCloud and a computer, limits of size, and a restore while the app runs.
public struct DeviceBackup: Sendable {
    private enum Content {
        case directory
        case file([UInt8])
        case link(POSIXPath)
    }

    private struct Item {
        /// Whether the path is relative to the container of the app group, not of the app.
        var isShared: Bool
        var path: POSIXPath
        var status: FileStatus
        var protection: FileProtection
        var content: Content
        /// The extended attributes of a file.
        var attributes: [String: [UInt8]]
    }

    private var items: [Item] = []
    let secrets: FakeKeychain.Backup

    /// Reads everything below the containers, regardless of the lock: the system makes backups.
    init(
        of container: POSIXPath, on disk: InMemoryFileSystem, _ rules: DataProtection, secrets: FakeKeychain.Backup
    ) throws(FileSystemError) {
        self.secrets = secrets
        try add(container, isShared: false, on: disk, rules)
        try add(AppContainer.group, isShared: true, on: disk, rules)
    }

    private mutating func add(
        _ container: POSIXPath, isShared: Bool, on disk: InMemoryFileSystem, _ rules: DataProtection
    ) throws(FileSystemError) {
        var pending: [POSIXPath] = [""]
        while let directory = pending.popLast() {
            guard !AppContainer.withoutBackup.contains(directory) else { continue }
            let path = directory.isEmpty ? container : container.appending(directory)
            for entry in try disk.entries(ofDirectory: path) {
                let relative = directory.isEmpty ? entry.name : directory.appending(entry.name)
                let absolute = container.appending(relative)
                let hasAttributes = entry.type == .regular || entry.type == .directory
                let attributes = hasAttributes ? try Self.attributes(of: absolute, on: disk) : [:]
                guard attributes[BackupExclusion.attribute] == nil else { continue }
                let content: Content
                switch entry.type {
                case .directory:
                    content = .directory
                    pending.append(relative)
                case .regular: content = .file(try disk.readFile(absolute))
                case .symbolicLink: content = .link(try disk.readSymbolicLink(absolute))
                default: continue
                }
                let status = try disk.status(absolute, followsSymbolicLinks: false)
                let file = FileReference.path(absolute, at: .workingDirectory, followsSymbolicLinks: false)
                items.append(
                    Item(
                        isShared: isShared, path: relative, status: status,
                        protection: rules[try disk.identity(of: file)], content: content,
                        attributes: entry.type == .regular ? attributes : [:]))
            }
        }
    }

    private static func attributes(
        of path: POSIXPath, on disk: InMemoryFileSystem
    ) throws(FileSystemError) -> [String: [UInt8]] {
        let file = try disk.open(path)
        return try disk.closing(file) { () throws(FileSystemError) in
            var attributes: [String: [UInt8]] = [:]
            for name in try disk.extendedAttributeNames(of: file) {
                attributes[name] = try disk.extendedAttribute(name, of: file)
            }
            return attributes
        }
    }

    /// Restores everything into containers that hold only the system's directories.
    func restore(
        to container: POSIXPath, on disk: InMemoryFileSystem, _ rules: DataProtection
    ) throws(FileSystemError) {
        // A directory precedes its entries.
        for item in items {
            let path = (item.isShared ? AppContainer.group : container).appending(item.path)
            switch item.content {
            case .directory:
                if try !disk.exists(path) { try disk.createDirectory(path) }
            case .file(let bytes):
                let file = try disk.open(path, .writeOnly, options: [.create, .exclusiveCreate])
                try disk.closing(file) { () throws(FileSystemError) in
                    try disk.writeBytes(bytes, to: file)
                    for (name, value) in item.attributes.sorted(by: { $0.key < $1.key }) {
                        try disk.setExtendedAttribute(name, to: value, of: file)
                    }
                }
            case .link(let target):
                try disk.createSymbolicLink(path, to: target)
                continue
            }
            rules[try disk.identity(of: .path(path))] = item.protection
        }
        // Creating an entry changes its directory's time, so attributes are set last, innermost first.
        for item in items.reversed() {
            if case .link = item.content { continue }
            let path = FileReference.path((item.isShared ? AppContainer.group : container).appending(item.path))
            try disk.setPermissions(item.status.permissions, of: path)
            try disk.setTimes(accessed: item.status.accessed, modified: item.status.modified, of: path)
        }
    }
}
