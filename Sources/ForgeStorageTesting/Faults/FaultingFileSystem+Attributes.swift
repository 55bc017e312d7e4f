public import ForgeFileSystem
public import SystemPackage

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
