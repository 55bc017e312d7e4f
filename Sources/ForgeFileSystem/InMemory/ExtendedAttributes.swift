/// The user attributes of an inode, with the limits of ext4.
package struct ExtendedAttributes: Hashable, Sendable {
    /// The maximum size of a value (`XATTR_SIZE_MAX`).
    static let maximumValueSizeInBytes = 65_536

    /// By name, as bytes: names that are canonically equivalent strings are different.
    private var values: [[UInt8]: [UInt8]] = [:]

    package var isEmpty: Bool { values.isEmpty }

    /// The names in the order of their bytes, so that every run lists them alike.
    package var names: [[UInt8]] { values.keys.sorted { $0.lexicographicallyPrecedes($1) } }

    package subscript(name: [UInt8]) -> [UInt8]? { values[name] }

    /// The same with a new value; nil if one block of 4096 bytes cannot hold them.
    func setting(_ name: [UInt8], to value: [UInt8]) -> ExtendedAttributes? {
        var changed = self
        changed.values[name] = value
        return changed.sizeInBytes <= FileContent.blockSize ? changed : nil
    }

    /// The size in a block of attributes: a header, an entry for each name, four zeros, and the values, with names and
    /// values rounded up to four bytes (`fs/ext4/xattr.h`).
    private var sizeInBytes: Int64 {
        func rounded(_ bytes: [UInt8]) -> Int { (bytes.count + 3) / 4 * 4 }
        return Int64(values.reduce(32 + 4) { $0 + 16 + rounded($1.key) + rounded($1.value) })
    }
}
