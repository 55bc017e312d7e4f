#if canImport(CLMDB)
import CLMDB

/// The system's LMDB, with a transaction per call; the read transaction is reset and renewed, as its manual advises.
final class LMDBStore: Peer {
    /// The durability of a commit.
    enum Mode {
        /// Waits for the device.
        case durable

        /// Writes without waiting; survives a kill (`MDB_NOSYNC`).
        case kept

        /// Stores into mapped memory without waiting (`MDB_NOSYNC`, `MDB_WRITEMAP`, `MDB_MAPASYNC`).
        case mapped

        var flags: UInt32 {
            switch self {
            case .durable: 0
            case .kept: UInt32(MDB_NOSYNC)
            case .mapped: UInt32(MDB_NOSYNC | MDB_WRITEMAP | MDB_MAPASYNC)
            }
        }
    }

    private let environment: OpaquePointer
    private let table: MDB_dbi
    private let reader: LMDBReader

    /// Opens the store in an existing directory.
    init(_ directory: String, _ mode: Mode) throws {
        var created: OpaquePointer?
        try lmdb("create", mdb_env_create(&created))
        guard let environment = created else { throw PeerFailure(library: "LMDB", operation: "create", code: 0) }
        do {
            try lmdb("mapsize", mdb_env_set_mapsize(environment, 512 << 20))
            try lmdb("open", mdb_env_open(environment, directory, mode.flags | UInt32(MDB_NOTLS), 0o600))
            var table: MDB_dbi = 0
            try Self.transaction(environment) { transaction in
                try lmdb("dbi_open", mdb_dbi_open(transaction, nil, 0, &table))
            }
            self.table = table
            reader = try LMDBReader(environment, table)
        } catch {
            mdb_env_close(environment)
            throw error
        }
        self.environment = environment
    }

    deinit {
        reader.end()
        mdb_env_close(environment)
    }

    /// Creates a reader for another thread; release it before the store.
    func makeReader() throws -> LMDBReader { try LMDBReader(environment, table) }

    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value? { try reader.get(name, as: type) }

    func set<Value: Sample>(_ name: String, _ value: Value) throws {
        try Self.transaction(environment) { try put(name, value, $0) }
    }

    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) throws {
        try Self.transaction(environment) { transaction in
            for (name, value) in zip(names, values) { try put(name, value, transaction) }
        }
    }

    private func put<Value: Sample>(_ name: String, _ value: Value, _ transaction: OpaquePointer?) throws {
        try value.withBytes { bytes in
            try name.withBytes { name in
                var key = MDB_val(name)
                var data = MDB_val(bytes)
                try lmdb("put", mdb_put(transaction, table, &key, &data, 0))
            }
        }
    }

    private static func transaction(_ environment: OpaquePointer, _ body: (OpaquePointer?) throws -> Void) throws {
        var transaction: OpaquePointer?
        try lmdb("txn_begin", mdb_txn_begin(environment, nil, 0, &transaction))
        do {
            try body(transaction)
        } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        try lmdb("txn_commit", mdb_txn_commit(transaction))
    }

    static var version: String { "LMDB \(MDB_VERSION_MAJOR).\(MDB_VERSION_MINOR).\(MDB_VERSION_PATCH)" }
}

/// A read transaction, renewed for each call; for one thread at a time.
final class LMDBReader {
    private var transaction: OpaquePointer?
    private let table: MDB_dbi

    fileprivate init(_ environment: OpaquePointer, _ table: MDB_dbi) throws {
        self.table = table
        try lmdb("txn_begin", mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction))
        mdb_txn_reset(transaction)
    }

    deinit { end() }

    fileprivate func end() {
        guard let transaction else { return }
        mdb_txn_abort(transaction)
        self.transaction = nil
    }

    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value? {
        try lmdb("txn_renew", mdb_txn_renew(transaction))
        defer { mdb_txn_reset(transaction) }
        return try name.withBytes { name in
            var key = MDB_val(name)
            var data = MDB_val()
            let code = mdb_get(transaction, table, &key, &data)
            guard code != MDB_NOTFOUND else { return nil }
            try lmdb("get", code)
            return try Value(bytes: UnsafeRawBufferPointer(start: data.mv_data, count: data.mv_size))
        }
    }
}

extension MDB_val {
    /// Wraps bytes that the library only reads.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    }
}

private func lmdb(_ operation: String, _ code: Int32) throws {
    guard code == 0 else { throw PeerFailure(library: "LMDB", operation: operation, code: code) }
}
#endif
