import ForgeCrypt
package import ForgeFileSystem
import ForgeKVStore

/// The layouts of all stores of this package.
package enum StoreLayouts {
    package static var all: [any StoreLayout.Type] {
        [
            KeyValueLayout.self, VaultsLayout.self, FilesLayout.self, ValuesLayout.self, ImagesLayout.self,
            CacheLayout.self,
        ]
    }
}

/// The files in the directory of an image cache.
package enum ImagesLayout: StoreLayout {
    package static var kind: StoreKind { .images }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole {
        StoreFileRole(ofInternalName: name) ?? (FlatFileName.isName(name, suffix: ".cache") ? .entry : .content)
    }
}

/// The files in the directory of a cache.
package enum CacheLayout: StoreLayout {
    package static var kind: StoreKind { .cache }

    package static func role(
        of name: POSIXPath, startingWith start: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> StoreFileRole {
        StoreFileRole(ofInternalName: name)
            ?? (FlatFileName.isName(name, suffix: CacheDirectory.suffix) ? .entry : .content)
    }
}

extension FlatFileName {
    /// Whether a file name is that of an entry, followed by a suffix.
    fileprivate static func isName(_ name: POSIXPath, suffix: String) -> Bool {
        guard name.count > suffix.utf8.count, name.bytes.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) else {
            return false
        }
        return isName(String(decoding: name.bytes.dropLast(suffix.utf8.count), as: UTF8.self))
    }
}
