import ForgeStorage
import Foundation
import Synchronization

/// A key-value store as the page shows it: its names in lists, of which only the requested rows are made.
///
/// Reads the log without a lock, whether the store is in use or not.
final class KeyValueView: Sendable {
    struct Row: Encodable, Sendable {
        /// The whole name; of a group, the common prefix.
        var key: String
        /// The number of names of a group; nil for a name.
        var count: Int?
        var size: Int?
        var revision: UInt64?
        var type: String?
        var expiry: Double?
        var preview: String?
    }

    struct Page: Encodable, Sendable {
        var total: Int
        var offset: Int
        /// Changes whenever a value changes.
        var version: UInt64
        var rows: [Row]
    }

    struct Value: Encodable, Sendable {
        var key: String
        var size: Int
        var revision: UInt64
        /// What an edit sends back (``StagedEdits/state(of:revision:)``); nil if only the beginning was read.
        var state: String?
        var value: ShownValue
    }

    /// The filter and order of a list.
    struct List: Equatable, Sendable {
        var prefix = ""
        /// A text that the names contain.
        var text = ""
        var order = KVLogIndex.Order.name
        /// Shows the names as a tree, one level at a time; nil for all names in one list.
        var delimiter: Character?

        /// Names are compared by their bytes; equal strings may differ in them.
        static func == (left: List, right: List) -> Bool {
            left.prefix.utf8.elementsEqual(right.prefix.utf8) && left.text.utf8.elementsEqual(right.text.utf8)
                && left.order == right.order && left.delimiter == right.delimiter
        }
    }

    private enum Lines {
        case names([Int32])
        case level([KVLogIndex.Line])
    }

    /// The state after the last refresh.
    struct Summary: Sendable {
        /// Nil until the log was read for the first time.
        var count: Int?
        var revision: UInt64?
        var failure: String?
    }

    private struct State {
        var index: KVLogIndex
        /// The lines of recent lists at a version of the index.
        var lists: [(list: List, version: UInt64, lines: Lines)] = []
    }

    let store: FoundStore
    private let state: Mutex<State>

    /// Apart from the state, which is locked for as long as a long log is read.
    private let published = Mutex(Summary())

    /// The number of lists that are kept.
    private static let listCount = 4

    /// The bytes of a value that a row's preview is made of.
    private static let rowBytes = 4096

    init(_ store: FoundStore, in root: ConfinedDirectory) {
        self.store = store
        state = Mutex(State(index: KVLogIndex(of: store.path, in: root)))
    }

    /// Reads the log's new records; returns the changes.
    func refresh() -> [Timeline.Event] {
        let time = Date().timeIntervalSince1970
        return state.withLock { state in
            do throws(KVStoreError) {
                let changes = try state.index.refresh()
                let summary = Summary(count: state.index.count, revision: state.index.revision)
                published.withLock { $0 = summary }
                var events = changes.prefix(Timeline.burst).map { change in
                    Timeline.Event(
                        time: time, store: store.name, storeID: store.id, operation: change.operation.rawValue,
                        name: change.name, revision: change.revision)
                }
                if changes.count > events.count { events[events.count - 1].omittedCount = changes.count - events.count }
                return events
            } catch {
                published.withLock { $0.failure = "\(error)" }
                return []
            }
        }
    }

    var summary: Summary { published.withLock { $0 } }

    /// The rows of a list from an offset on.
    func page(_ list: List, offset: Int, limit: Int) throws(KVStoreError) -> Page {
        try whenRead { (state) throws(KVStoreError) in
            let lines = Self.lines(list, &state)
            var rows: [Row] = []
            let total: Int
            switch lines {
            case .names(let numbers):
                total = numbers.count
                for number in numbers.dropFirst(offset).prefix(limit) { rows.append(try Self.row(number, state.index)) }
            case .level(let level):
                total = level.count
                for line in level.dropFirst(offset).prefix(limit) {
                    switch line {
                    case .name(let number): rows.append(try Self.row(number, state.index))
                    case .group(let first, let count):
                        rows.append(Self.group(first, count: count, list, state.index))
                    }
                }
            }
            return Page(total: total, offset: offset, version: state.index.version, rows: rows)
        }
    }

    /// Calls `body` with the state after the first refresh, which lists wait for.
    private func whenRead<Result: Sendable>(
        _ body: (inout State) throws(KVStoreError) -> Result
    ) throws(KVStoreError) -> Result {
        try state.withLock { (state) throws(KVStoreError) -> Result in
            if state.index.version == 0 { _ = try state.index.refresh() }
            return try body(&state)
        }
    }

    private static func lines(_ list: List, _ state: inout State) -> Lines {
        let version = state.index.version
        if let known = state.lists.first(where: { $0.list == list && $0.version == version }) { return known.lines }
        let lines: Lines
        if let delimiter = list.delimiter, list.text.isEmpty, list.order == .name {
            lines = .level(state.index.level(below: list.prefix, delimiter: delimiter))
        } else {
            lines = .names(state.index.names(prefix: list.prefix, containing: list.text, by: list.order))
        }
        state.lists.removeAll { $0.list == list || $0.version != version }
        state.lists = state.lists.suffix(listCount - 1) + [(list, version, lines)]
        return lines
    }

    private static func row(_ number: Int32, _ index: KVLogIndex) throws(KVStoreError) -> Row {
        guard let entry = index.entry(numbered: number) else { return Row(key: "") }
        var row = Row(key: entry.name, size: entry.sizeInBytes, revision: entry.revision)
        if let bytes = try index.bytes(of: entry, limit: rowBytes) {
            let shown = ShownValue(bytes, isComplete: bytes.count == entry.sizeInBytes, isPretty: false)
            (row.type, row.expiry) = (shown.type, shown.expiry)
            row.preview = shown.isPreview ? "" : String(shown.text.prefix(120))
        }
        return row
    }

    private static func group(_ first: Int32, count: Int, _ list: List, _ index: KVLogIndex) -> Row {
        guard let name = index.entry(numbered: first)?.name, let delimiter = list.delimiter else { return Row(key: "") }
        let rest = name.utf8.dropFirst(list.prefix.utf8.count)
        // A delimiter is one ASCII character.
        let end = rest.firstIndex { $0 == delimiter.asciiValue }.map { rest.index(after: $0) } ?? rest.endIndex
        return Row(key: String(name[..<end]), count: count)
    }

    /// The value of a key, or its beginning; nil if there is none.
    func value(of key: String, decoders: [InspectorDecoder]) throws(KVStoreError) -> Value? {
        let found = try whenRead { (state) throws(KVStoreError) -> (KVLogIndex.Entry, [UInt8])? in
            guard let entry = state.index.entry(named: key) else { return nil }
            guard let bytes = try state.index.bytes(of: entry, limit: ShownValue.limit) else { return nil }
            return (entry, bytes)
        }
        guard let (entry, bytes) = found else { return nil }
        let isComplete = bytes.count == entry.sizeInBytes
        var shown = ShownValue(bytes, isComplete: isComplete, isPretty: true)
        // Outside the lock: this is code of the app.
        for decoder in decoders where isComplete {
            do {
                guard let text = try decoder.text(key, bytes) else { continue }
                shown.decoded.append(.init(name: decoder.name, text: text))
            } catch {
                shown.decoded.append(.init(name: decoder.name, text: "cannot be decoded: \(error)"))
            }
        }
        let state = isComplete ? StagedEdits.state(of: bytes, revision: entry.revision) : nil
        return Value(key: key, size: entry.sizeInBytes, revision: entry.revision, state: state, value: shown)
    }

    func map(sectionCount: Int) throws(KVStoreError) -> KVLogIndex.Map? {
        try whenRead { (state) throws(KVStoreError) in state.index.map(sectionCount: sectionCount) }
    }

    func records(from position: Int, limit: Int) throws(KVStoreError) -> [KVLogIndex.Record] {
        try whenRead { (state) throws(KVStoreError) in state.index.records(from: position, limit: limit) }
    }

    /// The names of sessions: the default name of a session, and names below `session` or `sessions`.
    func sessions(limit: Int) throws(KVStoreError) -> [Row] {
        var rows: [Row] = []
        for prefix in ["session.", "session/", "sessions.", "sessions/"] {
            rows += try page(List(prefix: prefix), offset: 0, limit: limit - rows.count).rows
        }
        return rows
    }
}

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
        let descriptor = try root.open(store.path)
        defer { fileSystem.discard(descriptor) }
        quarantine = []
        for entry in try fileSystem.entries(of: descriptor) where FileKVStore.isQuarantine(entry.name) {
            let status = try fileSystem.status(entry.name, at: descriptor, followsSymbolicLinks: false)
            quarantine.append(Quarantine(name: String(entry.name), size: status.sizeInBytes))
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
