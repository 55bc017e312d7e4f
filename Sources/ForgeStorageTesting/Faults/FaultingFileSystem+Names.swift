public import ForgeFileSystem
public import SystemPackage

extension FaultingFileSystem {
    public func createDirectory(
        _ path: POSIXPath, at directory: Descriptor, permissions: FilePermissions
    ) throws(FileSystemError) {
        try create(.createDirectory, path, at: directory, permissions.octal) { () throws(FileSystemError) in
            try base.createDirectory(path, at: directory, permissions: permissions)
        }
    }

    public func createNode(
        _ path: POSIXPath, at directory: Descriptor, type: FileType, permissions: FilePermissions, deviceNumber: UInt64
    ) throws(FileSystemError) {
        let detail = "\(Self.name(of: type)) \(permissions.octal)"
        try create(.createNode, path, at: directory, detail) { () throws(FileSystemError) in
            try base.createNode(
                path, at: directory, type: type, permissions: permissions, deviceNumber: deviceNumber)
        }
    }

    public func createSymbolicLink(
        _ path: POSIXPath, at directory: Descriptor, to target: POSIXPath
    ) throws(FileSystemError) {
        try create(.createSymbolicLink, path, at: directory, nil, to: target) { () throws(FileSystemError) in
            try base.createSymbolicLink(path, at: directory, to: target)
        }
    }

    private func create(
        _ operation: FileSystemOperation, _ path: POSIXPath, at directory: Descriptor, _ detail: String?,
        to target: POSIXPath? = nil, _ effect: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try perform(operation) { state, call in
            setTarget(of: &call, path, at: directory, followsLinks: false, state)
            call.record.destination = target
            call.record.detail = detail
            call.target.createsName = true
            call.target.mutates = true
        } _: { (_, call) throws(FileSystemError) in
            try effect()
            noteCreation(&call, path, at: directory)
        }
    }

    public func readSymbolicLink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) -> POSIXPath {
        try perform(.readSymbolicLink) { state, call in
            setTarget(of: &call, path, at: directory, followsLinks: false, state)
        } _: { (_, call) throws(FileSystemError) in
            let target = try base.readSymbolicLink(path, at: directory)
            call.record.outcome = .success(target.description)
            return target
        }
    }

    public func link(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor
    ) throws(FileSystemError) {
        try perform(.link) { state, call in
            setTarget(of: &call, path, at: directory, followsLinks: false, state)
            addDestination(&call, newPath, at: newDirectory, state)
            call.target.createsName = true
        } _: { (_, _) throws(FileSystemError) in
            try base.link(path, at: directory, to: newPath, at: newDirectory)
        }
    }

    public func rename(
        _ path: POSIXPath, at directory: Descriptor, to newPath: POSIXPath, at newDirectory: Descriptor,
        _ mode: RenameMode
    ) throws(FileSystemError) {
        try perform(.rename) { state, call in
            setTarget(of: &call, path, at: directory, followsLinks: false, state)
            addDestination(&call, newPath, at: newDirectory, state)
            call.record.detail = "\(mode)"
        } _: { (state, call) throws(FileSystemError) in
            let replaced = mode == .replacing ? lookUp(newPath, at: newDirectory, followsLinks: false) : nil
            if let replaced, replaced.linkCount == 1 { call.record.replaced = log.number(of: InodeIdentity(replaced)) }
            if call.record.replaced == call.record.inode { call.record.replaced = nil }
            try base.rename(path, at: directory, to: newPath, at: newDirectory, mode)
            guard let old = call.record.path, let new = call.record.destination, old != new else { return }
            state.move(old, to: new, isExchange: mode == .exchanging)
        }
    }

    private func addDestination(
        _ call: inout Call, _ path: POSIXPath, at directory: Descriptor, _ state: State
    ) {
        let resolved = state.resolve(path, at: directory)
        call.record.destination = resolved
        call.record.newDirectory = directoryNumber(of: path, at: directory)
        call.target.paths.append(resolved)
        call.target.mutates = true
    }

    public func unlink(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try remove(.unlink, path, at: directory) { () throws(FileSystemError) in
            try base.unlink(path, at: directory)
        }
    }

    public func removeDirectory(_ path: POSIXPath, at directory: Descriptor) throws(FileSystemError) {
        try remove(.removeDirectory, path, at: directory) { () throws(FileSystemError) in
            try base.removeDirectory(path, at: directory)
        }
    }

    private func remove(
        _ operation: FileSystemOperation, _ path: POSIXPath, at directory: Descriptor,
        _ effect: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try perform(operation) { state, call in
            setTarget(of: &call, path, at: directory, followsLinks: false, state)
            call.target.mutates = true
        } _: { (_, _) throws(FileSystemError) in
            try effect()
        }
    }
}

extension FaultingFileSystem {
    public func status(of file: FileReference) throws(FileSystemError) -> FileStatus {
        try perform(.status) { state, call in
            setTarget(of: &call, file, state)
        } _: { (_, call) throws(FileSystemError) in
            let status = try base.status(of: file)
            // Sizes of directories differ between file systems.
            let size = status.type == .directory ? "" : " of \(status.sizeInBytes) bytes"
            call.record.outcome = .success(Self.name(of: status.type) + size)
            return status
        }
    }

    public func setPermissions(_ permissions: FilePermissions, of file: FileReference) throws(FileSystemError) {
        try change(.setPermissions, file, permissions.octal) { () throws(FileSystemError) in
            try base.setPermissions(permissions, of: file)
        }
    }

    public func setOwner(_ owner: UserID?, group: GroupID?, of file: FileReference) throws(FileSystemError) {
        let user = owner.map { String($0.rawValue) } ?? ""
        let team = group.map { String($0.rawValue) } ?? ""
        try change(.setOwner, file, "\(user):\(team)") { () throws(FileSystemError) in
            try base.setOwner(owner, group: group, of: file)
        }
    }

    public func setTimes(
        accessed: FileTime?, modified: FileTime?, of file: FileReference
    ) throws(FileSystemError) {
        // The log leaves out times, which may come from a wall clock.
        let detail = [accessed.map { _ in "accessed" }, modified.map { _ in "modified" }].compactMap { $0 }
        try change(.setTimes, file, detail.joined(separator: ",")) { () throws(FileSystemError) in
            try base.setTimes(accessed: accessed, modified: modified, of: file)
        }
    }

    public func extendedAttributeNames(of descriptor: Descriptor) throws(FileSystemError) -> [String] {
        try perform(.listExtendedAttributes) { state, call in
            call.setTarget(descriptor, state)
        } _: { (_, call) throws(FileSystemError) in
            let names = try base.extendedAttributeNames(of: descriptor)
            call.record.outcome = .success("\(names.count) names")
            return names
        }
    }

    public func extendedAttribute(_ name: String, of descriptor: Descriptor) throws(FileSystemError) -> [UInt8]? {
        try perform(.readExtendedAttribute) { state, call in
            call.setTarget(descriptor, state)
            call.record.detail = name
        } _: { (_, call) throws(FileSystemError) in
            let value = try base.extendedAttribute(name, of: descriptor)
            call.record.outcome = .success(value.map { "\($0.count) bytes" } ?? "none")
            return value
        }
    }

    public func setExtendedAttribute(
        _ name: String, to value: [UInt8], of descriptor: Descriptor
    ) throws(FileSystemError) {
        // The log leaves out values.
        try change(.setExtendedAttribute, .descriptor(descriptor), name) { () throws(FileSystemError) in
            try base.setExtendedAttribute(name, to: value, of: descriptor)
        }
    }

    private func change(
        _ operation: FileSystemOperation, _ file: FileReference, _ detail: String,
        _ effect: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        try perform(operation) { state, call in
            setTarget(of: &call, file, state)
            call.record.detail = detail
            call.target.mutates = true
        } _: { (_, _) throws(FileSystemError) in
            try effect()
        }
    }

    static func name(of type: FileType) -> String {
        switch type {
        case .regular: "file"
        case .directory: "directory"
        case .symbolicLink: "link"
        default: "special file"
        }
    }
}
