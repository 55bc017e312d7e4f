import SystemPackage

/// The attributes that a store keeps with a file: extended attributes whose names begin with `forgestorage.`.
///
/// Extended attributes with other names belong to other programs.
package enum FileAttributes {
    /// The maximum size of all names and values in UTF-8. With the maximum number they fit into a block of ext4 of 4
    /// KiB, which takes up to 35 bytes more for each.
    package static let maximumSizeInBytes = 2_048

    /// The maximum number of attributes.
    package static let maximumCount = 50

    private static let maximumNameLength = 64
    fileprivate static let prefix = "forgestorage."

    /// Whether a name has 1 to 64 bytes of `a`–`z`, `0`–`9`, `-`, `_` and `.`, and begins with a letter or a digit.
    package static func isName(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= maximumNameLength else { return false }
        return isAlphanumeric(first) && name.utf8.allSatisfy { isAlphanumeric($0) || "-_.".utf8.contains($0) }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}

extension POSIXFileSystem {
    /// The attributes of an open file; none where the file system has no extended attributes.
    ///
    /// - Throws: `EFBIG` if they exceed ``FileAttributes/maximumSizeInBytes``, because another program has set them.
    package func fileAttributes(of file: Descriptor) throws(FileSystemError) -> [String: [UInt8]] {
        let names: [String]
        do throws(FileSystemError) {
            names = try extendedAttributeNames(of: file)
        } catch  where error.errno == .notSupported || error.errno == .noFunction {
            return [:]
        }
        var attributes: [String: [UInt8]] = [:]
        var size = 0
        for full in names where full.hasPrefix(FileAttributes.prefix) {
            let name = String(full.dropFirst(FileAttributes.prefix.count))
            // Nil: removed since the names were read.
            guard FileAttributes.isName(name), let value = try extendedAttribute(full, of: file) else { continue }
            attributes[name] = value
            size += name.utf8.count + value.count
            guard size <= FileAttributes.maximumSizeInBytes else {
                throw FileSystemError(.readExtendedAttribute, .fileTooLarge)
            }
        }
        return attributes
    }

    /// Sets attributes of a new file; calls nothing if there are none.
    package func setFileAttributes(_ attributes: [String: [UInt8]], of file: Descriptor) throws(FileSystemError) {
        // Sorted, so that every run makes the same calls.
        for (name, value) in attributes.sorted(by: { $0.key < $1.key }) {
            try setExtendedAttribute(FileAttributes.prefix + name, to: value, of: file)
        }
    }
}
