import ForgeCrypt
package import ForgeFileSystem
import ForgeKVStore
import SystemPackage

/// The layouts of all stores of this package.
package enum StoreLayouts {
    package static var all: [any StoreLayout.Type] {
        [
            KeyValueLayout.self, VaultsLayout.self, FilesLayout.self, ValuesLayout.self, ImagesLayout.self,
            CacheLayout.self,
        ]
    }
}

extension StoreScope {
    /// The role of a file in the open directory; its content is read only if that decides.
    package func role(
        of name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> FileRole {
        let type = try fileSystem.status(name, at: directory, followsSymbolicLinks: false).type
        guard type == .regular else { return .special(type) }
        return try role(of: name, among: StoreLayouts.all) { () throws(FileSystemError) in
            try fileSystem.start(of: name, at: directory)
        }
    }

    /// Whether a name in the open directory is that of a file of a store, or reserved for one.
    ///
    /// Where no store has marked the directory, a log, a vault or its key file is recognised by its content, and
    /// other files of a key-value store by their names beside a log.
    package func isStoreFile(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> Bool {
        // A name that only stores use is reserved, also while there is no such file.
        if isUnknown || isRoot && name.isReservedName { return true }
        switch try roleOrReserved(name, at: directory, on: fileSystem) {
        case .content where store == .none, .quarantine where store == .none:
            let named = try KeyValueLayout.role(of: name) { () throws(FileSystemError) in [] }
            guard [.bookkeeping, .temporary, .quarantine].contains(named) else { return false }
            return try roleOrReserved(FileKVStore.logName, at: directory, on: fileSystem) == .log
        case .content, .special: return false
        default: return true
        }
    }

    /// The role of a file, or the one that its name would have, if there is no such file.
    private func roleOrReserved(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem
    ) throws(FileSystemError) -> FileRole {
        do throws(FileSystemError) {
            return try role(of: name, at: directory, on: fileSystem)
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return try role(of: name, among: StoreLayouts.all) { () throws(FileSystemError) in [] }
        }
    }
}

extension POSIXFileSystem {
    /// The kind of store to which a file belongs by its content alone, wherever its directory is; nil if the content does
    /// not say so, or there is no such file.
    package func kindByContent(
        of name: POSIXPath, at directory: Descriptor
    ) throws(FileSystemError) -> StoreKind? {
        do throws(FileSystemError) {
            return try StoreScope.outside.role(of: name, at: directory, on: self).kindByContent
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return nil
        }
    }
}

extension FileRole {
    /// The kind of store whose file this is, wherever the file is; nil if the content alone does not say so.
    package var kindByContent: StoreKind? {
        switch self {
        case .log: .keyValue
        case .vault, .vaultKey: .vaults
        case .content, .entry, .quarantine, .marker, .bookkeeping, .temporary, .moved, .special: nil
        }
    }
}

extension StoreWalk {
    /// Creates a walk that tells the files of all stores of this package apart.
    package init(
        _ root: ConfinedDirectory, except other: DirectoryIdentity? = nil, takesDamagedForWhole: Bool = false
    ) {
        self.init(root, layouts: StoreLayouts.all, except: other, takesDamagedForWhole: takesDamagedForWhole)
    }
}

/// The files in the directory of an image cache.
package enum ImagesLayout: StoreLayout {
    package static var kind: StoreKind { .images }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        FileRole(ofInternalName: name) ?? (FlatFileName.isName(name, suffix: ImageFile.suffix) ? .entry : .content)
    }
}

/// The files in the directory of a cache.
package enum CacheLayout: StoreLayout {
    package static var kind: StoreKind { .cache }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> FileRole {
        FileRole(ofInternalName: name) ?? (FlatFileName.isName(name, suffix: CacheDirectory.suffix) ? .entry : .content)
    }
}
