import ForgeFileSystem
import SystemPackage

/// Makes the index of a log: of all records before a byte, which must have reached the device.
struct LogIndexWriter {
    private let log: LogFile
    private let directory: Descriptor
    private let maximumPayloadSize: Int
    private var entries: [LogIndexBlock.Entry] = []
    private var sequence: UInt64 = 0

    private var fileSystem: any POSIXFileSystem { log.fileSystem }

    init(_ log: LogFile, at directory: Descriptor, maximumPayloadSize: Int) {
        self.log = log
        self.directory = directory
        self.maximumPayloadSize = maximumPayloadSize
    }

    /// Writes the index in the place of the one before, from which it takes over what that knows.
    ///
    /// Nothing is flushed: an index that did not reach the device in one piece is none.
    ///
    /// - Parameters:
    ///   - end: Where the first record begins that the index is not to know.
    ///   - liveBytes: How long a log of the values alone would be, at most.
    /// - Returns: Whether there is an index; there is none of a log that has to be repaired.
    /// - Throws: ``FileSystemError``. The index before is still there.
    mutating func write(upTo end: Int64, liveBytes: Int64) throws(FileSystemError) -> Bool {
        let base = LogIndex.open(at: directory, of: log.header.fileID, logSize: end, on: fileSystem)
        let seed = base?.header.seed ?? KeyHash.Seed(first: fileSystem.randomBits(), second: fileSystem.randomBits())
        guard try collect(upTo: end, base, seed) else { return false }
        let header = LogIndexHeader(
            fileID: log.header.fileID, seed: seed, end: end, sequence: sequence, liveBytes: min(liveBytes, end),
            blockCount: UInt64(max(1, (entries.count + LogIndexBlock.load - 1) / LogIndexBlock.load)))
        // So that the index is the same in every process.
        entries.sort { ($0.hash, $0.offset) < ($1.hash, $1.offset) }
        try fileSystem.replaceFile(
            .indexName, at: directory, .replacing, permissions: .privateFile, durability: .none
        ) { (file) throws(FileSystemError) in
            try fileSystem.writeBytes(header.encoded(), to: file)
            try writeBlocks(header, to: file)
        }
        return true
    }

    private mutating func collect(
        upTo end: Int64, _ base: LogIndex?, _ seed: KeyHash.Seed
    ) throws(FileSystemError) -> Bool {
        var start = LogScan.Outcome()
        if let base {
            do throws(LogIndex.Unreliable) {
                entries = try base.entries()
                start = LogScan.Outcome(endOf: base.header)
            } catch {
                entries = []
            }
        }
        // Of what is read now, only the last record of each name; what `base` knows of it besides is found behind that.
        var last: [KeyName: Int64] = [:]
        var scan = LogScan(
            log.descriptor, size: end, fileID: log.header.fileID, maximumPayloadSize: maximumPayloadSize, from: start,
            on: fileSystem)
        var removesAll = false
        let found = try scan.run { change, _, offset in
            if case .removeAll = change {
                removesAll = true
                last = [:]
            }
            for name in change.names { last[name] = offset }
        }
        guard found.damage.isEmpty, !found.isTorn, found.end == end else { return false }
        if removesAll { entries = [] }
        for (name, offset) in last {
            entries.append(.init(hash: name.withBytes { KeyHash.hash($0, seed) }, offset: offset))
        }
        sequence = found.sequence
        return true
    }

    private func writeBlocks(_ header: LogIndexHeader, to file: Descriptor) throws(FileSystemError) {
        var buffer: [UInt8] = []
        for block in LogIndexBlocks(entries, header) {
            buffer += block
            guard buffer.count >= 1 << 18 else { continue }
            try fileSystem.writeBytes(buffer, to: file)
            buffer.removeAll(keepingCapacity: true)
        }
        try fileSystem.writeBytes(buffer, to: file)
    }
}
