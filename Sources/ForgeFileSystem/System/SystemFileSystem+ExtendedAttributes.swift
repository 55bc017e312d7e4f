import SystemPackage

extension SystemFileSystem {
    /// The maximum size of a value, and of the list of names, on Linux (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
    static let maximumAttributeSizeInBytes = 65_536

    /// How often a size is asked for that another process keeps changing.
    private static let attemptLimit = 32

    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        let list = try readingAttribute(.listExtendedAttributes, expecting: 1_024) {
            sysListAttributes(descriptor.rawValue, $0)
        }
        let prefix = Array(sysAttributePrefix.utf8)
        return list.split(separator: 0).compactMap { name in
            guard name.starts(with: prefix) else { return nil }
            return String(validating: name.dropFirst(prefix.count), as: UTF8.self)
        }
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        let name = try attributeName(name, for: .readExtendedAttribute)
        do throws(FileSystemError) {
            return try readingAttribute(.readExtendedAttribute, expecting: 256) { buffer in
                name.withCString { sysGetAttribute(descriptor.rawValue, $0, buffer) }
            }
        } catch  where error.errno.rawValue == sysNoAttribute {
            return nil
        }
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        let name = try attributeName(name, for: .setExtendedAttribute)
        guard value.count <= Self.maximumAttributeSizeInBytes else {
            throw FileSystemError(.setExtendedAttribute, .argListTooLong)
        }
        try calling(.setExtendedAttribute) {
            value.withUnsafeBytes { bytes in
                name.withCString { sysSetAttribute(descriptor.rawValue, $0, bytes) }
            }
        }
    }

    /// The name that the kernel uses, as a C string would truncate it at a NUL.
    private func attributeName(
        _ name: String, for operation: FileSystemOperation
    ) throws(FileSystemError) -> POSIXPath {
        let path = POSIXPath(sysAttributePrefix + name)
        guard !name.isEmpty, !path.containsNUL else { throw FileSystemError(operation, .invalidArgument) }
        return path
    }

    /// The bytes that `read` puts into a buffer and counts; their number may change between two calls.
    private func readingAttribute(
        _ operation: FileSystemOperation, expecting expected: Int, _ read: (UnsafeMutableRawBufferPointer) -> Int
    ) throws(FileSystemError) -> [UInt8] {
        var size = expected
        for _ in 0..<Self.attemptLimit {
            var bytes = [UInt8](repeating: 0, count: size)
            do throws(FileSystemError) {
                let count = try calling(operation) { bytes.withUnsafeMutableBytes(read) }
                bytes.removeLast(size - count)
                return bytes
            } catch  where error.errno == .outOfRange {
                // Without a buffer the call returns the size.
                size = try calling(operation) { read(UnsafeMutableRawBufferPointer(start: nil, count: 0)) }
                guard size <= Self.maximumAttributeSizeInBytes else {
                    throw FileSystemError(operation, .argListTooLong)
                }
                // An empty buffer would ask for the size again.
                size = max(size, 1)
            }
        }
        throw FileSystemError(operation, .outOfRange)
    }
}
