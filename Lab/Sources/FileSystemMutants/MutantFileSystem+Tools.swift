import ForgeFileSystem
import Synchronization
import SystemPackage

/// Building blocks of mutations.
extension MutantFileSystem {
    func status(_ path: POSIXPath, _ directory: Descriptor, follows: Bool = false) -> FileStatus? {
        do {
            return try base.status(path, at: directory, followsSymbolicLinks: follows)
        } catch {
            return nil
        }
    }

    func type(_ path: POSIXPath, _ directory: Descriptor, follows: Bool = false) -> FileType? {
        status(path, directory, follows: follows)?.type
    }

    /// The recorded arguments of the `open` that made a descriptor.
    func call(of descriptor: Descriptor) -> OpenCall? { notes.opened.withLock { $0[descriptor] } }

    func isAppending(_ descriptor: Descriptor) -> Bool { call(of: descriptor)?.options.contains(.append) ?? false }

    func size(of descriptor: Descriptor) throws(FileSystemError) -> Int64 {
        try base.status(of: .descriptor(descriptor)).sizeInBytes
    }

    func position(of descriptor: Descriptor) throws(FileSystemError) -> Int64 {
        try base.seek(descriptor, to: 0, from: .current)
    }

    /// The offset at which a read or write starts: `offset`, or the descriptor's own.
    func start(_ descriptor: Descriptor, _ offset: Int64?) throws(FileSystemError) -> Int64 {
        if let offset { return offset }
        return try position(of: descriptor)
    }

    func move(_ descriptor: Descriptor, to offset: Int64) throws(FileSystemError) {
        _ = try base.seek(descriptor, to: offset, from: .start)
    }

    /// Opens the descriptor's file again, as an independent open file.
    func reopen(
        _ descriptor: Descriptor, _ change: (inout OpenCall) -> Void = { _ in }
    ) throws(FileSystemError) -> Descriptor {
        guard var call = call(of: descriptor) else { throw FileSystemError(.open, .badFileDescriptor) }
        call.options.subtract([.create, .exclusiveCreate, .truncate])
        change(&call)
        return try call(on: self)
    }

    func fill(_ file: FileReference, _ range: Range<Int64>, with byte: UInt8) throws(FileSystemError) {
        guard !range.isEmpty, range.count < 1 << 24 else { return }
        let descriptor: Descriptor
        switch file {
        case .descriptor(let open): descriptor = try base.duplicate(open)
        case .path(let path, let directory, _): descriptor = try base.open(path, at: directory, .readWrite)
        }
        try base.closing(descriptor) { () throws(FileSystemError) in
            try base.writeBytes(
                [UInt8](repeating: byte, count: range.count), to: descriptor, at: range.lowerBound)
        }
    }

    /// Makes a call and restores the times of the parent directory.
    func keepingTimesOfParent<Result>(
        _ path: POSIXPath, _ directory: Descriptor, _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        let (parent, _) = path.splitLast()
        let before = status(parent.isEmpty ? "." : parent, directory, follows: true)
        let result = try body()
        if let before { setModified(before.modified, of: .path(parent.isEmpty ? "." : parent, at: directory)) }
        return result
    }

    /// Sets a modification time if that is allowed.
    func setModified(_ time: FileTime, of file: FileReference) {
        do { try base.setTimes(accessed: nil, modified: time, of: file) } catch _ {}
    }

    /// Makes a call and restores the modification time of the file it changed.
    func keepingTimes(
        of file: FileReference, _ body: () throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let before = try base.status(of: file).modified
        try body()
        setModified(before, of: file)
    }

    /// Records the current change time; every later status shows it.
    func freezeChange(of file: FileReference) throws(FileSystemError) {
        let status = try base.status(of: file)
        notes.frozen.withLock { $0[status.inode] = $0[status.inode] ?? status.changed }
    }

    /// Removes whatever exists at a path.
    func clear(_ path: POSIXPath, _ directory: Descriptor) throws(FileSystemError) {
        guard type(path, directory) != nil else { return }
        try base.removeTree(path, at: directory)
    }
}

extension FileReference {
    /// The same file, with links at the end of its path followed or not.
    func following(_ followsLinks: Bool) -> FileReference {
        guard case .path(let path, let directory, _) = self else { return self }
        return .path(path, at: directory, followsSymbolicLinks: followsLinks)
    }
}

extension POSIXPath {
    var withoutTrailingSlashes: POSIXPath {
        var rest = bytes
        while rest.count > 1, rest.last == UInt8(ascii: "/") { rest.removeLast() }
        return POSIXPath(rest)
    }

    var hasTrailingSlash: Bool { count > 1 && bytes.last == UInt8(ascii: "/") }

    /// The path with each component transformed; nil drops a component.
    func mapComponents(_ change: (ArraySlice<UInt8>) -> [UInt8]?) -> POSIXPath {
        let slash = UInt8(ascii: "/")
        let parts = bytes.split(separator: slash, omittingEmptySubsequences: false)
        return POSIXPath(parts.compactMap { $0.isEmpty ? [] : change($0) }.joined(separator: [slash]))
    }
}
