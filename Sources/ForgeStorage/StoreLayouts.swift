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
}

extension StoreWalk {
    /// Creates a walk that tells the files of all stores of this package apart.
    package init(_ root: ConfinedDirectory, except other: DirectoryIdentity? = nil) {
        self.init(root, layouts: StoreLayouts.all, except: other)
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
