import SystemPackage

extension InMemoryFileSystem {
    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try perform(.listExtendedAttributes) { (state) throws(Errno) in
            try state.extendedAttributes(of: descriptor).names.compactMap { String(validating: $0, as: UTF8.self) }
        }
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try perform(.readExtendedAttribute) { (state) throws(Errno) in
            try state.extendedAttribute(Array(name.utf8), of: descriptor)
        }
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        try perform(.setExtendedAttribute) { (state) throws(Errno) in
            try state.setExtendedAttribute(Array(name.utf8), to: value, of: descriptor)
        }
    }
}

extension InMemoryFileSystem.State {
    mutating func extendedAttributes(of descriptor: Descriptor) throws(Errno) -> ExtendedAttributes {
        extendedAttributes[try inode(of: .descriptor(descriptor))] ?? ExtendedAttributes()
    }

    mutating func extendedAttribute(_ name: [UInt8], of descriptor: Descriptor) throws(Errno) -> [UInt8]? {
        let index = try inode(of: .descriptor(descriptor))
        try requireValidAttributeName(name)
        guard isRegular(index) || isDirectory(index) else { return nil }
        try require(.read, to: index)
        return extendedAttributes[index]?[name]
    }

    mutating func setExtendedAttribute(
        _ name: [UInt8], to value: [UInt8], of descriptor: Descriptor
    ) throws(Errno) {
        let index = try inode(of: .descriptor(descriptor))
        try requireValidAttributeName(name)
        guard value.count <= ExtendedAttributes.maximumValueSizeInBytes else { throw .argListTooLong }
        try requireWritableDevice(index)
        guard isRegular(index) || isDirectory(index) else { throw .notPermitted }
        if isDirectory(index), inodes[index].permissions.contains(.saveText), !isOwner(of: index) {
            throw .notPermitted
        }
        try require(.write, to: index)
        let old = extendedAttributes[index] ?? ExtendedAttributes()
        guard let new = old.setting(name, to: value) else { throw .noSpace }
        extendedAttributes[index] = new
        // Updates the change time, and records the attributes.
        setAttributes(of: index) { _ in }
    }

    /// On Linux, 255 bytes include the prefix `user.`.
    private func requireValidAttributeName(_ name: [UInt8]) throws(Errno) {
        guard !name.isEmpty, !name.contains(0) else { throw .invalidArgument }
        switch options.profile {
        case .linux: guard name.count <= 250 else { throw .outOfRange }
        case .darwin: guard name.count <= 127 else { throw .fileNameTooLong }
        }
    }
}
