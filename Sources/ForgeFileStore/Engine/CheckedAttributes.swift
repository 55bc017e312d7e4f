import ForgeFileSystem

/// The valid attributes of a new file.
struct CheckedAttributes: Sendable {
    static let none = CheckedAttributes()

    let values: [String: [UInt8]]

    private init() { values = [:] }

    /// Validates the attributes of a save.
    init(_ attributes: [String: String], of key: String) throws(FileStoreError) {
        // Sorted, so that every run reports the same problem.
        let sorted = attributes.sorted { $0.key < $1.key }
        for (name, _) in sorted where !FileAttributes.isName(name) {
            throw FileStoreError(.invalidAttribute(.name(name)), .save, key: key)
        }
        let sizes = sorted.map { (name: $0.key, size: $0.key.utf8.count + $0.value.utf8.count) }
        if let largest = sizes.max(by: { $0.size < $1.size }),
            sizes.count > FileAttributes.maximumCount
                || sizes.reduce(0, { $0 + $1.size }) > FileAttributes.maximumSizeInBytes
        {
            throw FileStoreError(.invalidAttribute(.tooLarge(largest.name)), .save, key: key)
        }
        values = attributes.mapValues { Array($0.utf8) }
    }

    /// The attributes of an open file.
    ///
    /// - Throws: ``FileStoreError``: ``FileStoreError/Code/undecodable`` if a value is not UTF-8.
    static func read(
        from file: Descriptor, on fileSystem: any POSIXFileSystem, key: String
    ) throws(FileStoreError) -> [String: String] {
        let values: [String: [UInt8]]
        do throws(FileSystemError) {
            values = try fileSystem.fileAttributes(of: file)
        } catch {
            throw FileStoreError(error, .load, key: key)
        }
        var attributes: [String: String] = [:]
        for (name, value) in values {
            guard let text = String(validating: value, as: UTF8.self) else {
                throw FileStoreError(.undecodable, .load, key: key)
            }
            attributes[name] = text
        }
        return attributes
    }
}
