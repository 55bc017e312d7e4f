import ForgeStorage
import Foundation

/// The log of a key-value store, drawn: sections with records, current bytes and damage, and what was set aside.
struct LogMap: Encodable, Sendable {
    struct Range: Encodable, Sendable {
        var start: Int64
        var end: Int64
    }

    struct Quarantine: Encodable, Sendable {
        var name: String
        var size: Int64
    }

    var size: Int64
    var end: Int64
    var sectionSize: Int64
    var recordCount: Int
    var currentBytes: Int64
    /// For each section the bytes of records, the current bytes, and 1 if it is damaged.
    var sections: [[Int64]]
    var damage: [Range]
    var tail: Range?
    var isHeaderDamaged: Bool
    var quarantine: [Quarantine]

    /// The map of a store's log, with the files beside it that hold what was set aside.
    init(_ map: KVLogIndex.Map, of store: FoundStore, in root: ConfinedDirectory) throws(FileSystemError) {
        (size, end, sectionSize) = (map.sizeInBytes, map.end, map.sectionSize)
        (recordCount, currentBytes, isHeaderDamaged) = (map.recordCount, map.currentBytes, map.isHeaderDamaged)
        sections = map.sections.map { [$0.usedBytes, $0.currentBytes, $0.isDamaged ? 1 : 0] }
        damage = map.damage.map { Range(start: $0.lowerBound, end: $0.upperBound) }
        tail = map.tail.map { Range(start: $0.lowerBound, end: $0.upperBound) }
        let fileSystem = root.fileSystem
        quarantine = try root.withDirectory(store.path) { (descriptor) throws(FileSystemError) in
            var files: [Quarantine] = []
            for entry in try fileSystem.entries(of: descriptor) where FileKVStore.isQuarantine(entry.name) {
                let status = try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false)
                files.append(Quarantine(name: String(entry.name), size: status.sizeInBytes))
            }
            return files
        }
        quarantine.sort { $0.name < $1.name }
    }
}

/// A record of a log in a list.
struct ShownRecord: Encodable, Sendable {
    var offset: Int64
    var size: Int64
    var operation: String

    init(_ record: KVLogIndex.Record) {
        (offset, size, operation) = (record.offset, record.sizeInBytes, record.operation)
    }
}
