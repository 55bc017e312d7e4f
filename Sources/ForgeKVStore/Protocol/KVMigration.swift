import ForgeCoding

/// How a value that an earlier release of an app stored becomes one of the type that its key has now.
public struct KVMigration<Value: Codable & Sendable>: Sendable {
    /// The version that it reads.
    public let version: UInt32

    /// Decodes the value of the earlier version and makes the present one of it.
    let migrate: @Sendable (ValueEnvelope) throws -> Value

    /// Reads the values of one earlier version.
    ///
    /// - Parameters:
    ///   - version: The version, counted from 1 and less than `UInt32.max`. A key has at most one migration from each
    ///     version. A key made with migrations that break these rules stops the program.
    ///   - change: Makes the present value of the earlier one. It must give the same result every time; what it throws
    ///     makes the value undecodable, and the value is kept.
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

    /// Whether a value may be overwritten without being set aside; nil if it may where it can be decoded as this type.
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

/// A value was stored by a later version of its type than the key knows.
struct NewerSchema: Error {
    var version: UInt32
}
