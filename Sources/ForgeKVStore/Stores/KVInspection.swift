package import ForgeFileSystem
package import Foundation

/// The content of a store's log, read without opening the store and without changing anything.
package struct KVInspection: Sendable, Hashable {
    /// The number of valid records.
    package var recordCount = 0

    /// The number of keys with a value.
    package var keyCount = 0

    /// The size of the log.
    package var sizeInBytes: Int64

    /// Damage, one line per place; opening the store for writing sets it aside.
    package var problems: [String] = []

    /// Defects without loss of acknowledged writes, one line each: an unfinished record at the end, after intact ones.
    package var notes: [String] = []

    /// Reads the log of the store in a directory; no lock is taken.
    ///
    /// Another process may write to the store meanwhile. Its last record may then look unfinished; a problem is
    /// reported only if two successive reads show it, because a single read may see bytes before they are stored.
    ///
    /// - Returns: Nil if there is no log in the directory.
    /// - Throws: ``KVStoreError`` if the log cannot be read; `.unknownFormat` for a later version.
    /// - Complexity: O(*n*) in the size of the log, whose current values are held in memory.
    package init?(of url: URL, fileSystem: any POSIXFileSystem = SystemFileSystem()) throws {
        do throws(KVStoreError) {
            let path: POSIXPath
            do throws(FileSystemError) {
                path = try POSIXPath(url)
            } catch {
                throw KVStoreError(error, .open, store: url.path)
            }
            let options = FileKVStore.Options(access: .readOnly)
            let handle = try StoreHandle(reading: path, on: fileSystem, options: options)
            var opening = LogOpening(handle, table: ValueTable(), options: options)
            let scan = try opening.scanForReading()
            self.init(scan, keyCount: opening.table.count)
        } catch {
            guard error.code != .noStore else { return nil }
            throw error
        }
    }

    private init(_ scan: LogOpening.Scan, keyCount: Int) {
        let found = scan.found
        (recordCount, self.keyCount, sizeInBytes) = (found.recordCount, keyCount, scan.sizeInBytes)
        if scan.isInterruptedCreation {
            notes.append("a log whose creation was interrupted")
        } else if scan.isHeaderDamaged {
            problems.append("the header of the log is damaged")
        }
        for range in found.damage {
            problems.append(
                range.isEmpty
                    ? "records are missing at byte \(range.lowerBound)"
                    : "damaged records at bytes \(range.lowerBound) to \(range.upperBound)")
        }
        if found.isSearchIncomplete {
            problems.append("a bad record at byte \(found.end), and behind it too much to search for intact ones")
        } else if found.discardedRecordCount > 0 {
            problems.append("\(found.discardedRecordCount) intact records behind a bad one at byte \(found.end)")
        } else if scan.hasLostFirstRecord {
            // All that was ever written there is missing: a copy of the log may have been cut short.
            problems.append("the first record is incomplete or damaged, and no other one follows")
        } else if found.isTorn {
            notes.append("an unfinished record at byte \(found.end)")
        }
    }
}
