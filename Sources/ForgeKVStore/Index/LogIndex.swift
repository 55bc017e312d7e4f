import ForgeFileSystem
import SystemPackage

extension POSIXPath {
    /// The name of the index in the directory of a store.
    static let indexName: POSIXPath = "index"
}

/// An open index of a log: where the records stand that are about a name, so that a store can be opened without reading its
/// log.
///
/// It only ever saves time. Every block is checked when it is read, and what it leads to is a record with a checksum and
/// a name of its own; where something is not as it should be, the log is read instead.
final class LogIndex: Sendable {
    let header: LogIndexHeader
    private let fileSystem: any POSIXFileSystem
    private let descriptor: Descriptor

    /// Something in the index, or in a record that it leads to, is not as it should be.
    struct Unreliable: Error {}

    private init(_ header: LogIndexHeader, _ descriptor: Descriptor, on fileSystem: any POSIXFileSystem) {
        self.header = header
        self.descriptor = descriptor
        self.fileSystem = fileSystem
    }

    deinit {
        // It was only read.
        do { try fileSystem.close(descriptor) } catch _ {}
    }

    /// Opens the index in a directory if it is one of this log; otherwise, whatever the reason, there is none.
    static func open(
        at directory: Descriptor, of fileID: LogFileID, logSize: Int64, on fileSystem: any POSIXFileSystem
    ) -> LogIndex? {
        do throws(FileSystemError) {
            let descriptor = try fileSystem.open(
                .indexName, at: directory, .readOnly, options: [.noFollow, .nonBlocking], permissions: [])
            let header: LogIndexHeader?
            do throws(FileSystemError) {
                let bytes = try fileSystem.readBytes(of: descriptor, at: 0, count: LogIndexHeader.size)
                header = LogIndexHeader(decoding: bytes)
            } catch {
                header = nil
            }
            guard let header, header.fileID == fileID, header.end <= logSize else {
                try fileSystem.close(descriptor)
                return nil
            }
            return LogIndex(header, descriptor, on: fileSystem)
        } catch {
            return nil  // The log tells all that an index could.
        }
    }

    /// Where the records stand that may be about a name, the last first.
    func offsets(of name: KeyName) throws(Unreliable) -> [Int64] {
        try offsets(hash: name.withBytes { KeyHash.hash($0, header.seed) })
    }

    func offsets(hash: UInt64) throws(Unreliable) -> [Int64] {
        var offsets: [Int64] = []
        var number = LogIndexBlock.number(of: hash, in: header.blockCount)
        while try forEachEntry(inBlock: number, { if $0.hash == hash { offsets.append($0.offset) } })
            == LogIndexBlock.capacity
        {
            number += 1
        }
        return offsets.count > 1 ? offsets.sorted(by: >) : offsets
    }

    /// All entries, in no particular order.
    func entries() throws(Unreliable) -> [LogIndexBlock.Entry] {
        var entries: [LogIndexBlock.Entry] = []
        var number: UInt64 = 0
        var count = 0
        while number < header.blockCount || count == LogIndexBlock.capacity {
            count = try forEachEntry(inBlock: number) { entries.append($0) }
            number += 1
        }
        return entries
    }

    /// Calls `body` with the entries of a block; returns how many there are.
    private func forEachEntry(
        inBlock number: UInt64, _ body: (LogIndexBlock.Entry) -> Void
    ) throws(Unreliable) -> Int {
        let count = withUnsafeTemporaryAllocation(byteCount: LogIndexBlock.size, alignment: 16) { block -> Int? in
            let offset = Int64(LogIndexHeader.size) + Int64(number) * Int64(LogIndexBlock.size)
            do throws(FileSystemError) {
                guard try fileSystem.readFully(descriptor, into: block, at: offset) == LogIndexBlock.size else {
                    return nil
                }
            } catch {
                return nil
            }
            let bytes = UnsafeRawBufferPointer(block)
            guard let count = LogIndexBlock.count(bytes, number: number, header) else { return nil }
            for index in 0..<count { body(LogIndexBlock.entry(index, of: bytes)) }
            return count
        }
        guard let count else { throw Unreliable() }
        return count
    }
}
