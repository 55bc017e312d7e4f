#if canImport(CSQLite) || canImport(SQLite3)
#if canImport(CSQLite)
import CSQLite
#else
import SQLite3
#endif

/// The system's SQLite with a write-ahead log and prepared statements; for one thread at a time.
final class SQLiteStore: Peer {
    /// The durability of a commit: `PRAGMA synchronous`.
    enum Synchronous: String {
        case normal = "NORMAL"
        case full = "FULL"
    }

    private let connection: OpaquePointer
    private let select: OpaquePointer
    private let upsert: OpaquePointer

    init(_ path: String, _ synchronous: Synchronous) throws {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard let connection = opened else { throw PeerFailure(library: "SQLite", operation: "open", code: code) }
        do {
            try sqlite("open", code)
            try Self.run("PRAGMA journal_mode=WAL", connection)
            try Self.run("PRAGMA synchronous=\(synchronous.rawValue)", connection)
            try Self.run("CREATE TABLE IF NOT EXISTS kv (name TEXT PRIMARY KEY, value) WITHOUT ROWID", connection)
            select = try Self.prepare("SELECT value FROM kv WHERE name = ?1", connection)
            upsert = try Self.prepare(
                "INSERT INTO kv VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", connection)
        } catch {
            sqlite3_close_v2(connection)
            throw error
        }
        self.connection = connection
    }

    deinit {
        sqlite3_finalize(select)
        sqlite3_finalize(upsert)
        sqlite3_close_v2(connection)
    }

    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value? {
        try name.withBytes { name in
            defer { sqlite3_reset(select) }
            try Self.bind(name, as: .text, at: 1, of: select)
            let code = sqlite3_step(select)
            guard code != SQLITE_DONE else { return nil }
            guard code == SQLITE_ROW else { throw PeerFailure(library: "SQLite", operation: "select", code: code) }
            switch Value.columnKind {
            case .integer: return try sqlite3_column_int64(select, 0).withBytes { try Value(bytes: $0) }
            case .text:
                let bytes = sqlite3_column_text(select, 0)
                return try Value(
                    bytes: UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(select, 0))))
            case .blob:
                let bytes = sqlite3_column_blob(select, 0)
                return try Value(
                    bytes: UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(select, 0))))
            }
        }
    }

    func set<Value: Sample>(_ name: String, _ value: Value) throws {
        try value.withBytes { bytes in
            try name.withBytes { name in
                defer { sqlite3_reset(upsert) }
                try Self.bind(name, as: .text, at: 1, of: upsert)
                try Self.bind(bytes, as: Value.columnKind, at: 2, of: upsert)
                let code = sqlite3_step(upsert)
                guard code == SQLITE_DONE else { throw PeerFailure(library: "SQLite", operation: "upsert", code: code) }
            }
        }
    }

    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) throws {
        try Self.run("BEGIN IMMEDIATE", connection)
        do {
            for (name, value) in zip(names, values) { try set(name, value) }
        } catch {
            // The original error is the one to report.
            sqlite3_exec(connection, "ROLLBACK", nil, nil, nil)
            throw error
        }
        try Self.run("COMMIT", connection)
    }

    /// Binds bytes that remain valid until the statement is reset.
    private static func bind(
        _ bytes: UnsafeRawBufferPointer, as kind: ColumnKind, at index: Int32, of statement: OpaquePointer
    ) throws {
        let count = Int32(bytes.count)
        switch kind {
        case .integer: try sqlite("bind", sqlite3_bind_int64(statement, index, bytes.loadUnaligned(as: Int64.self)))
        case .text:
            let text = bytes.assumingMemoryBound(to: CChar.self).baseAddress
            try sqlite("bind", sqlite3_bind_text(statement, index, text, count, nil))
        case .blob: try sqlite("bind", sqlite3_bind_blob(statement, index, bytes.baseAddress, count, nil))
        }
    }

    private static func prepare(_ text: String, _ connection: OpaquePointer) throws -> OpaquePointer {
        var statement: OpaquePointer?
        try sqlite("prepare", sqlite3_prepare_v2(connection, text, -1, &statement, nil))
        guard let statement else { throw PeerFailure(library: "SQLite", operation: "prepare", code: 0) }
        return statement
    }

    private static func run(_ text: String, _ connection: OpaquePointer) throws {
        try sqlite(text, sqlite3_exec(connection, text, nil, nil, nil))
    }

    static var version: String { "SQLite \(String(cString: sqlite3_libversion()))" }
}

extension Int64 {
    fileprivate func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        try withUnsafeBytes(of: self, body)
    }
}

private func sqlite(_ operation: String, _ code: Int32) throws {
    guard code == SQLITE_OK else { throw PeerFailure(library: "SQLite", operation: operation, code: code) }
}
#endif
