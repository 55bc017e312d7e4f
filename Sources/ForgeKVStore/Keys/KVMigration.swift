import ForgeCoding

/// A conversion of a value stored by an earlier release of an app to the current type of its key.
public struct KVMigration<Value: Codable & Sendable>: Sendable {
    /// The version that is converted.
    public let version: UInt32

    /// Decodes the value of the earlier version and converts it to the current type.
    let migrate: @Sendable (ValueEnvelope) throws -> Value

    /// Creates a migration from one earlier version.
    ///
    /// - Parameters:
    ///   - version: The version, counted from 1 and less than `UInt32.max`. A key has at most one migration from each
    ///     version. Creating a key with migrations that violate these rules traps.
    ///   - change: Converts the earlier value to the current type. It must always give the same result; an error makes
    ///     the value undecodable, and the value is kept.
    /// - Returns: The migration, for the key.
    public static func from<Old: Codable & Sendable>(
        _ version: UInt32, _ change: @escaping @Sendable (_ old: Old) throws -> Value
    ) -> KVMigration {
        KVMigration(version: version) { envelope in try change(ValueTable.coder.decode(Old.self, from: envelope)) }
    }
}

/// The versions of a key's type. It never changes.
final class KVSchema<Value: Codable & Sendable>: Sendable {
    /// The version that is written.
    let version: UInt32

    /// The version in a ``CellType``.
    let cellVersion: UInt32
    private let migrations: [UInt32: KVMigration<Value>]

    /// Whether a value may be overwritten without being set aside; if nil, it may if it decodes as this type.
    let mayOverwrite: (@Sendable (_ bytes: [UInt8]) -> Bool)?

    init(_ migrations: [KVMigration<Value>]) {
        var known: [UInt32: KVMigration<Value>] = [:]
        for migration in migrations {
            precondition(migration.version > 0, "versions are counted from 1")
            precondition(migration.version < .max, "there is no version after this one")
            precondition(known[migration.version] == nil, "two migrations from version \(migration.version)")
            known[migration.version] = migration
        }
        self.migrations = known
        mayOverwrite = nil
        version = (known.keys.max() ?? 0) + 1
        cellVersion = version
    }

    /// The schema of a type in which a layer stores values of other types.
    init(mayOverwrite: @escaping @Sendable (_ bytes: [UInt8]) -> Bool) {
        migrations = [:]
        version = 1
        cellVersion = CellType.opaqueVersion
        self.mayOverwrite = mayOverwrite
    }

    var migratedVersions: [UInt32] { migrations.keys.sorted() }

    /// The value in an envelope of an earlier version.
    func migrate(_ envelope: ValueEnvelope) throws -> Value {
        guard let migration = migrations[envelope.schemaVersion] else {
            throw CodingFailure(.decode, .corrupted("there is no migration from version \(envelope.schemaVersion)"))
        }
        return try migration.migrate(envelope)
    }
}

/// The error for a value stored by a later version of its type than the key supports.
struct NewerSchema: Error {
    var version: UInt32
}
