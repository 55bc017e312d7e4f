import ForgeStorage
import Foundation
import SystemPackage

/// Copies files between this machine and a server, or between two servers, several at a time.
///
/// Files are compared by their sizes and their SHA-256, which the store keeps with each file in S3: of equal files,
/// only the local one is read.
struct ServerFileTransfer {
    private static let concurrency = 4

    private let arguments: TransferArguments
    private let log: TransferLog
    private let source: any FilePlace
    private let target: any FilePlace

    init(_ arguments: TransferArguments, _ log: TransferLog, from source: any FilePlace, to target: any FilePlace) {
        self.arguments = arguments
        self.log = log
        self.source = source
        self.target = target
    }

    init(_ arguments: TransferArguments, _ log: TransferLog) throws {
        if let from = try arguments.source.server(), let to = try arguments.destination.server(),
            from.contains(to) || to.contains(from)
        {
            throw CommandFailure(
                "\(arguments.source.text) and \(arguments.destination.text) contain one another", .usage)
        }
        let target = try Self.place(arguments.destination)
        if arguments.destination.scheme == .files {
            try FileTarget.requireNoUnmarkedStores(in: POSIXPath(arguments.destination.url), .partial)
        }
        self.init(arguments, log, from: try Self.place(arguments.source), to: target)
    }

    private static func place(_ home: Home) throws -> any FilePlace {
        guard let server = try home.server() else { return try LocalFilePlace(home) }
        return ServerFilePlace(files: try server.openFileStore())
    }

    func run() async throws {
        var files = try await source.files(log)
        guard !files.isEmpty else {
            // No file can be copied; the log has a line for each.
            if log.hasLeftOut { return }
            throw CommandFailure("the source is empty: \(arguments.source.text); nothing was changed")
        }
        // A server may report any sizes; their sum must not overflow.
        let bytes = files.reduce(Int64(0)) { min($0 + min(max($1.sizeInBytes, 0), 1 << 46), 1 << 56) }
        log.progress.expect(Progress.Amount(items: files.count, bytes: bytes))
        try await forEach(files, copy)
        // Before any deletion: on file systems that fold case the file may be one that was just copied.
        if !arguments.dryRun { try target.finish() }
        if arguments.delete {
            let appeared = try await deleteExtraneous(than: files)
            files += appeared
        }
        guard !arguments.dryRun else { return }
        try target.finish()
        if arguments.verify { try await forEach(files, verify) }
    }

    /// Calls `body` with several files at the same time; records an error that concerns one of them.
    private func forEach(
        _ files: [FilePlaceEntry], _ body: @escaping @Sendable (FilePlaceEntry) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, file) in files.enumerated() {
                if index >= Self.concurrency { try await group.next() }
                group.addTask {
                    try Interruption.check()
                    do {
                        try await body(file)
                    } catch {
                        try record(error, file.key)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Sendable private func copy(_ entry: FilePlaceEntry) async throws {
        let key = entry.key
        guard let file = try await RefusedFile.converting({ try await source.open(key) }) else {
            guard try !source.isRemoved(key) else { return try log.record(.removed, key) }
            return try log.record(.fail, key, reason: FileSystemError.directoryIsElsewhere)
        }
        let present = try await target.open(key)
        if let present, try await file.isEqual(to: present) {
            return try log.record(.equal, key, bytes: file.sizeInBytes)
        }
        if !arguments.dryRun {
            try await target.store(file, as: key, isPresent: present != nil)
        } else if let obstacle = try target.obstacle(to: key) {
            throw obstacle
        }
        try log.record(present == nil ? .copy : .replace, key, bytes: file.sizeInBytes)
    }

    /// Compares what the destination returns with the source.
    @Sendable private func verify(_ entry: FilePlaceEntry) async throws {
        guard !log.isLeftOut(entry.key) else { return }
        guard let file = try await RefusedFile.converting({ try await source.open(entry.key) }) else {
            return try log.record(.removed, entry.key)
        }
        guard let copy = try await target.open(entry.key), copy.sizeInBytes == file.sizeInBytes,
            try await copy.checksumOfContent() == file.checksum()
        else { return try log.record(.fail, entry.key, reason: "differs when read back") }
        try log.record(.verify, entry.key)
    }

    // MARK: Deleting

    /// Deletes what the source does not have, unless it is too much; returns the files that were copied before that.
    private func deleteExtraneous(than files: [FilePlaceEntry]) async throws -> [FilePlaceEntry] {
        try log.requireCompleteSource()
        let known = Set(files.map { POSIXPath($0.key) })
        var others = removingOtherSpellings(
            try await target.files(nil).map(\.key).filter { !known.contains(POSIXPath($0)) }, of: files)
        guard others.count <= arguments.maxDelete else {
            throw CommandFailure(
                "nothing was deleted: \(counted(others.count, "file")) would be deleted, more than --max-delete "
                    + "\(arguments.maxDelete)", .partial)
        }
        let appeared = others.isEmpty ? [] : try await copyAppeared(since: known)
        let names = Set(appeared.map { POSIXPath($0.key) })
        others = removingOtherSpellings(others.filter { !names.contains(POSIXPath($0)) }, of: appeared)
        for key in others {
            try Interruption.check()
            do {
                if !arguments.dryRun { try await target.delete(key) }
                try log.record(.delete, key)
            } catch {
                try record(error, key)
            }
        }
        return appeared
    }

    /// Copies the files that the source did not have at the beginning: what is to be deleted may be the only copy of
    /// one, under the key that it had before.
    ///
    /// - Returns: The files.
    /// - Throws: ``CommandFailure``, with nothing deleted, if one of them fails, or if there are still others then.
    private func copyAppeared(since known: Set<POSIXPath>) async throws -> [FilePlaceEntry] {
        let keys = try await sourceKeys(besides: known)
        guard !keys.isEmpty else { return [] }
        let files = keys.map { FilePlaceEntry(key: $0, sizeInBytes: 0) }
        try await forEach(files, copy)
        try log.requireCompleteSource()
        if !arguments.dryRun { try target.finish() }
        let new = try await sourceKeys(besides: known.union(keys.map { POSIXPath($0) })).first
        if let new { throw CommandFailure.sourceChanged(new) }
        return files
    }

    /// The keys that the source has now and did not have before.
    private func sourceKeys(besides known: Set<POSIXPath>) async throws -> [String] {
        do {
            return try await source.keys().filter { !known.contains(POSIXPath($0)) }
        } catch let error as FileSystemError {
            throw CommandFailure.sourceChanged(error.shownPath)
        }
    }

    /// Leaves out files that the source has under another spelling: on file systems that fold case, they are the copies
    /// just made.
    private func removingOtherSpellings(_ others: [String], of files: [FilePlaceEntry]) -> [String] {
        guard !others.isEmpty else { return [] }
        let folded: (String) -> String = { $0.precomposedStringWithCanonicalMapping.lowercased() }
        let spellings = Dictionary(grouping: files.map(\.key), by: folded)
        return others.filter { other in
            spellings[folded(other)]?.contains { target.isSameFile($0, other) } != true
        }
    }

    // MARK: Failures

    /// Records an error of one file; rethrows one that concerns all files.
    private func record(_ error: any Error, _ key: String) throws {
        guard error.concernsOneFile else { throw error }
        guard !Self.isDisappearance(error) else { return try log.record(.removed, key) }
        try log.record(.fail, key, reason: "\(error)")
    }

    /// Whether the file was removed from the source. A `FileSystemError` comes from the destination, for example because a
    /// file has the name of a directory.
    private static func isDisappearance(_ error: any Error) -> Bool {
        switch error {
        case let error as SourceFailure: error.error.errno.isDisappearance
        case let error as FileStoreError: error.code == .notFound
        default: false
        }
    }
}
