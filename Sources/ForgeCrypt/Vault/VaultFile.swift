import ForgeFileSystem
import Foundation
import SystemPackage

/// The path of a vault file, and all access to it.
struct VaultFile: Sendable {
    /// The lock file of all writers of vaults in a directory.
    static let lockName: POSIXPath = "#lock-vaults"

    /// The default time that a change waits for the lock.
    static let lockTimeout: Duration = .seconds(30)

    let fileSystem: any POSIXFileSystem
    let path: POSIXPath
    let directory: POSIXPath
    let name: POSIXPath
    private let lockTimeout: Duration

    /// The directory that the path is below, in which case the file is only read; nil for a path of its own.
    private let root: ConfinedDirectory?

    /// - Throws: ``CryptError`` with `EINVAL` for a URL that is not a file path, `.reservedName` for a reserved name.
    init(
        _ url: URL, on fileSystem: any POSIXFileSystem, lockTimeout: Duration = Self.lockTimeout
    ) throws(CryptError) {
        let path: POSIXPath
        do {
            path = try POSIXPath(url)
        } catch {
            throw CryptError(error, .open, path: error.path ?? "")
        }
        try self.init(path, in: nil, on: fileSystem, lockTimeout: lockTimeout)
    }

    /// A file below a directory that is only read, and on whose path no link is followed.
    init(reading path: POSIXPath, in root: ConfinedDirectory) throws(CryptError) {
        try self.init(path, in: root, on: root.fileSystem, lockTimeout: Self.lockTimeout)
    }

    private init(
        _ path: POSIXPath, in root: ConfinedDirectory?, on fileSystem: any POSIXFileSystem, lockTimeout: Duration
    ) throws(CryptError) {
        let (parent, name) = path.splitLast()
        guard !name.isEmpty, name != ".", name != ".." else {
            throw CryptError(FileSystemError(.resolve, .invalidArgument, path: path), .open, path: path)
        }
        // Also on a file system that ignores code points before the number sign, or folds case. A key-value store in the
        // same directory would take the name `log` for its own.
        let visible = name.visibleText
        guard visible.utf8.first != UInt8(ascii: "#"), !visible.lowercased().utf8.elementsEqual("log".utf8) else {
            throw CryptError(.reservedName, .open, path: path)
        }
        self.fileSystem = fileSystem
        self.path = path
        self.root = root
        self.lockTimeout = lockTimeout
        directory = parent.isEmpty ? "." : parent
        self.name = name
    }

    // MARK: Reading

    /// The status of the file, without following a link; nil if there is none.
    func status() throws(FileSystemError) -> FileStatus? {
        do {
            return try locating { (directory, name) throws(FileSystemError) in
                try fileSystem.status(name, at: directory, followsSymbolicLinks: false)
            }
        } catch let error where error.errno == .noSuchFileOrDirectory {
            return nil
        }
    }

    /// Opens the file and verifies that it is regular and private; nil if there is none.
    func open(_ operation: CryptError.Operation) throws(CryptError) -> OpenFile? {
        let file: OpenFile
        do {
            file = try locating { (directory, name) throws(FileSystemError) in
                // Without nonBlocking, opening a FIFO would wait for a writer.
                try OpenFile(name, at: directory, options: [.noFollow, .nonBlocking], named: path, on: fileSystem)
            }
        } catch {
            switch error.errno {
            case .noSuchFileOrDirectory: return nil
            case .tooManySymbolicLinkLevels:
                throw CryptError(.insecureFile, operation, path: path, detail: "a symbolic link", underlying: error)
            default: throw CryptError(error, operation, path: path)
            }
        }
        try check(file.status, operation)
        return file
    }

    /// Calls `body` with a directory and the path of the file from there.
    private func locating<Result: ~Copyable>(
        _ body: (Descriptor, POSIXPath) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        guard let root else { return try body(.workingDirectory, path) }
        let (directory, name) = try root.openParent(of: path)
        defer { fileSystem.discard(directory) }
        return try body(directory, name)
    }

    /// Refuses every effect on a file that is only read.
    private func requireWritable() throws(FileSystemError) {
        guard root == nil else { throw FileSystemError(.open, .readOnlyFileSystem, path: path) }
    }

    private func check(_ status: FileStatus, _ operation: CryptError.Operation) throws(CryptError) {
        guard status.type == .regular else {
            throw CryptError(.insecureFile, operation, path: path, detail: "not a regular file")
        }
        let others: FilePermissions = [.groupReadWriteExecute, .otherReadWriteExecute]
        guard status.permissions.isDisjoint(with: others) else {
            let detail = "other users may access it; set its mode to 0600"
            throw CryptError(.insecureFile, operation, path: path, detail: detail)
        }
    }

    /// Refuses a key that another user has planted for this user or root.
    ///
    /// A vault needs no such check: its content is authenticated under the key.
    func checkOwner(_ file: borrowing OpenFile, _ operation: CryptError.Operation) throws(CryptError) {
        guard isTrusted(file.status.owner) else {
            throw CryptError(.insecureFile, operation, path: path, detail: "it belongs to another user")
        }
    }

    /// Requires that only this user and root can create, rename and remove files in the directory.
    ///
    /// In a sticky directory other users cannot replace this user's files, but they can create the lock, the temporary
    /// file or the vault first.
    private func check(_ opened: OpenDirectory, _ operation: CryptError.Operation) throws(CryptError) {
        guard opened.status.permissions.isDisjoint(with: [.groupWrite, .otherWrite]) else {
            let detail = "other users may create or replace files in its directory; set the mode to 0700"
            throw CryptError(.insecureFile, operation, path: directory, detail: detail)
        }
        guard isTrusted(opened.status.owner) else {
            throw CryptError(.insecureFile, operation, path: directory, detail: "it belongs to another user")
        }
    }

    private func isTrusted(_ owner: UserID) -> Bool { owner == UserID(0) || owner == fileSystem.effectiveUser }

    /// Makes the existence or absence of the file's name durable.
    ///
    /// The writer of a visible name may not have flushed it, because it was killed or its flush failed.
    func synchronizeName() throws(FileSystemError) {
        try requireWritable()
        do {
            try fileSystem.synchronizeNames(leadingTo: path)
        } catch let error where error.errno == .noSuchFileOrDirectory {
            // A missing directory contains no names.
        }
    }

    /// Makes the names of the file and of all parent directories durable, as far as this process may read them.
    func synchronizeNames() throws(FileSystemError) {
        try fileSystem.synchronizeNames(leadingTo: path)
    }

    // MARK: Writing

    /// Calls `body` while holding the lock of the directory's writers, which also excludes other processes.
    ///
    /// Waits for the lock up to the timeout. The directory is created if it is missing.
    ///
    /// - Parameters:
    ///   - operation: The operation for errors.
    ///   - isPrepared: Whether the directory is known to be durable; set once it is.
    ///   - body: Called with the open directory.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`, or of taking the lock: `.unavailable(.inUse)` after the timeout, `.insecureFile`
    ///   for a directory in which other users may create files; `.unavailable` with `EBUSY` for the root of a file store
    ///   or a cache; nothing was created in it.
    func whileLocked<Result>(
        _ operation: CryptError.Operation, isPrepared: inout Bool,
        _ body: (_ directory: OpenDirectory) throws(CryptError) -> Result
    ) throws(CryptError) -> Result {
        let opened: OpenDirectory
        do {
            opened = try openDirectory(isPrepared: isPrepared)
            if !isPrepared {
                try opened.use { (directory) throws(FileSystemError) in
                    try fileSystem.requireFree(directory, for: .vaults)
                }
            }
        } catch  where error.errno == .resourceBusy {
            throw CryptError(
                .unavailable(.inputOutput), operation, path: path, detail: "the directory belongs to another store",
                underlying: error)
        } catch {
            throw CryptError(error, operation, path: path)
        }
        isPrepared = true
        try check(opened, operation)
        let lock = try lock(opened, operation)
        return try withExtendedLifetime(lock) { () throws(CryptError) in
            try mark(opened, operation)
            return try body(opened)
        }
    }

    /// Marks the directory as that of vaults, unless it is marked already; the lock must be held.
    private func mark(_ directory: OpenDirectory, _ operation: CryptError.Operation) throws(CryptError) {
        do throws(FileSystemError) {
            try directory.use { (descriptor) throws(FileSystemError) in
                try fileSystem.mark(descriptor, as: .vaults, temporary: StoreMarker.temporaryName(of: .vaults))
            }
        } catch {
            throw CryptError(error, operation, path: path)
        }
    }

    private func lock(
        _ directory: OpenDirectory, _ operation: CryptError.Operation
    ) throws(CryptError) -> StoreLock {
        do throws(FileSystemError) {
            return try directory.use { (descriptor) throws(FileSystemError) in
                try fileSystem.retryingInterrupts { () throws(FileSystemError) in
                    try StoreLock(
                        .exclusive, waitingAtMost: lockTimeout, named: Self.lockName, isWritten: false,
                        at: descriptor, on: fileSystem)
                }
            }
        } catch  where error.operation == .lock && error.errno == .resourceTemporarilyUnavailable {
            throw CryptError(
                .unavailable(.inUse(processID: nil)), operation, path: path,
                detail: "another process has held \(Self.lockName) for \(lockTimeout)", underlying: error)
        } catch {
            throw CryptError(error, operation, path: path)
        }
    }

    /// Opens the directory; the first time, creates it if it is missing and makes its name durable.
    private func openDirectory(isPrepared: Bool) throws(FileSystemError) -> OpenDirectory {
        try requireWritable()
        if isPrepared {
            do {
                return try OpenDirectory(directory, on: fileSystem)
            } catch let error where error.errno == .noSuchFileOrDirectory {
                // Removed since; it is created again below.
            }
        }
        try fileSystem.makeStoreDirectories(directory)
        return try OpenDirectory(directory, on: fileSystem)
    }

    /// The temporary file of the writer that holds the lock; no other store uses this name.
    static let temporaryName: POSIXPath = "#tmp-of-vaults"

    /// Replaces the whole file, atomically and durably, with mode 0600.
    ///
    /// - Returns: The new file; nil if its status cannot be read, which does not undo the change.
    @discardableResult
    func replace(
        with bytes: [UInt8], at directory: OpenDirectory, _ mode: RenameMode = .replacing
    ) throws(FileSystemError) -> OpenFile? {
        let descriptor = try directory.use { (directory) throws(FileSystemError) in
            try fileSystem.replaceAndKeepOpen(
                name, at: directory, mode, permissions: .ownerReadWrite, temporary: Self.temporaryName
            ) { (descriptor) throws(FileSystemError) in
                try fileSystem.writeBytes(bytes, to: descriptor)
            }
        }
        do throws(FileSystemError) {
            return try OpenFile(owning: descriptor, named: path, on: fileSystem)
        } catch {
            // The next call opens the file and reports the problem.
            return nil
        }
    }

    /// Renames the file within its directory, durably, and returns the new name.
    func setAside(at directory: OpenDirectory) throws(FileSystemError) -> POSIXPath {
        let aside = POSIXPath(name.bytes + POSIXPath.reserved(".aside-", using: fileSystem.randomBits).bytes)
        try directory.use { (directory) throws(FileSystemError) in
            do throws(FileSystemError) {
                try fileSystem.rename(name, at: directory, to: aside, at: directory, .exclusive)
            } catch  where error.errno.isMissingFeature {
                // 80 random bits are unique enough without exclusive rename.
                try fileSystem.rename(name, at: directory, to: aside, at: directory, .replacing)
            }
        }
        do throws(FileSystemError) {
            try directory.synchronize()
        } catch {
            throw error.withVisibleEffect(at: name)
        }
        return aside
    }

    /// Removes the temporary file of a writer whose process has died; the lock must be held.
    func removeTemporaryFile(_ directory: OpenDirectory) throws(FileSystemError) {
        guard let status = try directory.statusIfPresent(Self.temporaryName), status.type == .regular else { return }
        try directory.unlink(Self.temporaryName)
    }
}
