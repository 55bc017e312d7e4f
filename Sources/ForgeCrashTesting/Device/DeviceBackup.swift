import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// An encrypted backup of an app on a ``SimulatedDevice``: its files and secrets at one moment.
///
/// It omits caches, temporary files and secrets that require a passcode. It contains device-bound secrets, but only
/// their device can read them.
public struct DeviceBackup: Sendable {
    private enum Content {
        case directory
        case file([UInt8])
        case link(POSIXPath)
    }

    private struct Item {
        /// Relative to the app's container.
        var path: POSIXPath
        var status: FileStatus
        var protection: FileProtection
        var content: Content
        /// The extended attributes of a file.
        var attributes: [String: [UInt8]] = [:]
    }

    private var items: [Item] = []
    let secrets: FakeKeychain.Backup

    /// Reads everything below a container, regardless of the lock: the system makes backups.
    init(
        of container: POSIXPath, on disk: InMemoryFileSystem, _ rules: DataProtection, secrets: FakeKeychain.Backup
    ) throws(FileSystemError) {
        self.secrets = secrets
        var pending: [POSIXPath] = [""]
        while let directory = pending.popLast() {
            guard !AppContainer.withoutBackup.contains(directory) else { continue }
            let path = directory.isEmpty ? container : container.appending(directory)
            let entries = try disk.withDirectory(path) { (descriptor) throws(FileSystemError) in
                try disk.entries(of: descriptor)
            }
            for entry in entries {
                let relative = directory.isEmpty ? entry.name : directory.appending(entry.name)
                let absolute = container.appending(relative)
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
                var item = Item(path: relative, status: status, protection: rules[status.inode], content: content)
                if entry.type == .regular { item.attributes = try Self.attributes(of: absolute, on: disk) }
                items.append(item)
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

    /// Restores everything into a container that holds only the system's directories.
    func restore(
        to container: POSIXPath, on disk: InMemoryFileSystem, _ rules: DataProtection
    ) throws(FileSystemError) {
        // A directory precedes its entries.
        for item in items {
            let path = container.appending(item.path)
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
            rules[try disk.status(path).inode] = item.protection
        }
        // Creating an entry changes its directory's time, so attributes are set last, innermost first.
        for item in items.reversed() {
            if case .link = item.content { continue }
            let path = FileReference.path(container.appending(item.path))
            try disk.setPermissions(item.status.permissions, of: path)
            try disk.setTimes(accessed: item.status.accessed, modified: item.status.modified, of: path)
        }
    }
}
