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
