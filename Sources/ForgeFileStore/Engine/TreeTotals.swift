import ForgeFileSystem
import Synchronization
import SystemPackage

/// The sum of the sizes of a store's files, remembered for each directory.
///
/// Creating, replacing and removing a file changes the modification time of its directory, so only directories whose
/// time has changed are listed again, whichever process changed them. A write to a file in place does not change it.
///
/// File systems record times in steps of up to two seconds. A directory that was changed that recently before it was
/// listed may change again without a new time, so its sum is not remembered (as in Git's index, "racy" entries).
final class TreeTotals: Sendable {
    private struct Total: Sendable {
        let inode: UInt64
        let device: UInt64
        let modified: FileTime
        let sizeInBytes: Int64
        let subdirectories: [POSIXPath]
    }

    private static let timeStep: Int64 = 2

    /// By the path from the root, which is empty for the root itself.
    private let totals = Mutex<[POSIXPath: Total]>([:])

    /// The sum of the sizes of all files, clamped to the maximum.
    ///
    /// - Complexity: O(directories + entries of changed directories) calls of the file system.
    func sizeInBytes(in store: StoreDirectory) throws(FileSystemError) -> Int64 {
        var walk = Walk(fileSystem: store.fileSystem, known: totals.withLock { $0 })
        try store.withDirectory(nil) { (root) throws(FileSystemError) in try walk.visit(root, POSIXPath("")) }
        totals.withLock { $0 = walk.remembered }
        return walk.sizeInBytes
    }

    private struct Walk {
        let fileSystem: any POSIXFileSystem
        let known: [POSIXPath: Total]
        var remembered: [POSIXPath: Total] = [:]
        var sizeInBytes: Int64 = 0

        mutating func visit(_ directory: Descriptor, _ path: POSIXPath) throws(FileSystemError) {
            let status = try fileSystem.status(of: .descriptor(directory))
            let total: Total
            if let known = known[path], known.inode == status.inode, known.device == status.device,
                known.modified == status.modified
            {
                total = known
                remembered[path] = total
            } else {
                let now = fileSystem.preciseTime
                total = try list(directory, path, status)
                if let now, now.seconds - status.modified.seconds > TreeTotals.timeStep { remembered[path] = total }
            }
            let (sum, overflow) = sizeInBytes.addingReportingOverflow(total.sizeInBytes)
            sizeInBytes = overflow ? .max : sum
            for name in total.subdirectories {
                do throws(FileSystemError) {
                    try fileSystem.withDirectory(name, at: directory, resolution: [.beneath, .noSymbolicLinks]) {
                        (below) throws(FileSystemError) in
                        try visit(below, path.isEmpty ? name : path.appending(name))
                    }
                } catch  where error.errno.isDisappearance {
                    continue
                } catch  where error.errno.isRefusal {
                    guard try fileSystem.isOfAnotherUser(name, at: directory) else { throw error }
                }
            }
        }

        private func list(
            _ directory: Descriptor, _ path: POSIXPath, _ status: FileStatus
        ) throws(FileSystemError) -> Total {
            var entries = try fileSystem.entries(of: directory)
            // The root of another store has no files of this one.
            if !path.isEmpty, entries.contains(where: \.name.isStoreMarker) { entries = [] }
            var size: Int64 = 0
            var subdirectories: [POSIXPath] = []
            for entry in entries where (path.isEmpty ? entry.name : path.appending(entry.name)).isKey {
                guard entry.type != .directory else {
                    subdirectories.append(entry.name)
                    continue
                }
                do throws(FileSystemError) {
                    let status = try fileSystem.status(entry.name, at: directory, followsSymbolicLinks: false)
                    guard status.type == .regular else { continue }
                    let (sum, overflow) = size.addingReportingOverflow(status.sizeInBytes)
                    size = overflow ? .max : sum
                } catch  where error.errno.isDisappearance {
                    continue
                }
            }
            return Total(
                inode: status.inode, device: status.device, modified: status.modified, sizeInBytes: size,
                subdirectories: subdirectories)
        }
    }
}
