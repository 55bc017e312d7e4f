import ForgeCoding
import ForgeFileSystem

// Memory safety: The second word of a long name is the address of the UTF-8 in `string`, whose storage is immutable,
// and is used only while `string` is retained. A short name is in the words, of which `count` bytes count.

/// The name of a value in a store, and the type of the value.
///
/// ```swift
/// extension KVKey where Value == Bool {
///     static var hasCompletedOnboarding: KVKey<Bool> { KVKey("onboarding.completed") }
/// }
/// ```
///
/// Names are compared byte by byte: composed and decomposed `é` are two keys. A name has up to ``maximumNameLength``
/// bytes and may be empty; it is never interpreted as a path, so `../x` is valid. Two keys with one name and different
/// types refer to the same value.
public struct KVKey<Value: Codable & Sendable>: Sendable {
    let identity: KeyName

    /// The migrations from earlier versions of the type; nil for a type with a single version.
    let schema: KVSchema<Value>?

    /// Creates a key for a type that has had a single version so far.
    public init(_ name: String) {
        identity = KeyName(name)
        schema = nil
    }

    /// Creates a key for a type that has had several versions.
    ///
    /// ```swift
    /// let settings = KVKey(
    ///     "settings",
    ///     migrations: [
    ///         .from(1) { (old: SettingsV1) in Settings(theme: old.isDark ? .dark : .light) },
    ///         .from(2) { (old: SettingsV2) in Settings(theme: old.theme) },
    ///     ])
    /// ```
    ///
    /// Versions are counted from 1, which a key without migrations writes; here version 3 is the current one, one more
    /// than the latest with a migration. Every migration converts directly to the current type, so that a version can
    /// be dropped without a gap in a chain. Reading migrates the returned value and does not change the stored one; the
    /// next `set` stores the current version.
    ///
    /// A value of a later version, found after the app was downgraded, is refused and kept: ``KVStoring/get(_:)``
    /// returns nil, ``KVStoring/read(_:)`` throws `.newerSchema(version:)`.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - migrations: One for each readable earlier version, in any order.
    /// - Precondition: No two migrations are from the same version, and none is from version 0.
    public init(_ name: String, migrations: [KVMigration<Value>]) {
        identity = KeyName(name)
        schema = migrations.isEmpty ? nil : KVSchema(migrations)
    }

    init(_ identity: KeyName, _ schema: KVSchema<Value>?) {
        self.identity = identity
        self.schema = schema
    }

    /// The same key with another name, for wrappers that transform names.
    func named(_ name: String) -> KVKey { KVKey(KeyName(name), schema) }

    /// The name of the value.
    public var name: String { identity.string }

    /// The version that is written: 1 without migrations.
    public var schemaVersion: UInt32 { schema?.version ?? 1 }

    /// The readable earlier versions, in ascending order.
    public var migratedVersions: [UInt32] { schema?.migratedVersions ?? [] }

    /// The maximum length of a name, in bytes of UTF-8.
    public static var maximumNameLength: Int { KeyName.maximumLength }
}

/// The encoding of values, for stores of your own.
extension KVKey {
    /// The bytes of a value as every store of this package keeps them: its encoding by `ForgeCoding`, in an envelope
    /// with ``schemaVersion``.
    ///
    /// - Throws: ``KVStoreError`` with the code `.unencodable` and the operation `.set`, without the value.
    /// - Complexity: O(*n*) for *n* bytes. Runs `encode(to:)` of the type, so call it with no lock held.
    public func encode(_ value: Value) throws(KVStoreError) -> [UInt8] {
        do {
            return try ValueTable.encode(value, for: self)
        } catch {
            throw KVStoreError(.unencodable, .set, key: name, underlying: error)
        }
    }

    /// The value that bytes contain, migrated if they are of an earlier version.
    ///
    /// - Throws: ``KVStoreError`` with the operation `.read`: `.newerSchema(version:)` for a later version than
    ///   ``schemaVersion``; `.undecodable` for another type, a version without a migration, and anything else.
    /// - Complexity: O(*n*) for *n* bytes. Runs `init(from:)` of the type, so call it with no lock held.
    public func decode(_ bytes: [UInt8]) throws(KVStoreError) -> Value {
        do {
            return try ValueTable.decode(bytes, as: self)
        } catch {
            throw KVStoreError(decoding: error, .read, key: name)
        }
    }
}

/// Keys are equal if their names are; migrations are not compared.
extension KVKey: Hashable, ComparedByBytes {}

extension KVKey: CustomStringConvertible {
    public var description: String { identity.description }
}

/// A value whose names are compared by their bytes.
protocol ComparedByBytes: Hashable {
    associatedtype Identity: Hashable

    /// The compared parts, with each name as a ``KeyName``.
    var identity: Identity { get }
}

extension ComparedByBytes {
    public static func == (first: Self, second: Self) -> Bool { first.identity == second.identity }

    public func hash(into hasher: inout Hasher) { identity.hash(into: &hasher) }
}

/// A name compared by its bytes; `String` compares characters, so canonically equivalent strings are equal.
package struct KeyName: Sendable {
    package let string: String

    /// Computed once, because every look-up uses it.
    let hash: UInt64

    /// The number of bytes.
    package let count: Int

    /// The first, next and last eight bytes, which identify a name of up to ``wordsLength`` bytes; shorter ones are
    /// padded with zeros.
    ///
    /// For a longer name the second word is the address of its UTF-8, in immutable storage that `string` owns:
    /// comparing the bytes does not retain the string.
    private let words: (first: UInt64, second: UInt64, last: UInt64)

    /// The longest name, in bytes of UTF-8.
    package static let maximumLength = 1024

    private static let wordsLength = 24

    package init(_ string: String) {
        var string = string
        // From here on, the UTF-8 of all but small strings, which are stored inline, has a stable address.
        string.makeContiguousUTF8()
        (hash, count, words) = string.withUTF8 { buffer in
            let bytes = UnsafeRawBufferPointer(buffer)
            return unsafe (KeyHash.hash(bytes), bytes.count, Self.words(bytes))
        }
        self.string = string
    }

    private static func words(_ bytes: UnsafeRawBufferPointer) -> (first: UInt64, second: UInt64, last: UInt64) {
        guard bytes.count >= 8 else {
            return unsafe (bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }, 0, 0)
        }
        let second: UInt64 =
            switch bytes.count {
            case ...16: 0
            case ...wordsLength: unsafe bytes.integer(at: 8, as: UInt64.self)
            default: UInt64(UInt(bitPattern: bytes.baseAddress))
            }
        return unsafe (
            bytes.integer(at: 0, as: UInt64.self), second, bytes.integer(at: bytes.count - 8, as: UInt64.self)
        )
    }

    /// The bytes of a name longer than ``wordsLength``.
    @inline(__always)
    private var longBytes: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: UnsafeRawPointer(bitPattern: UInt(words.second)), count: count)
    }

    /// Calls `body` with the bytes of the name.
    @inline(__always)
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        if count > Self.wordsLength {
            defer { withExtendedLifetime(string) {} }
            return try unsafe body(longBytes)
        }
        var bytes: (UInt64, UInt64, UInt64) = (words.first.littleEndian, words.second.littleEndian, 0)
        return try unsafe withUnsafeMutableBytes(of: &bytes) { (bytes) throws(Failure) in
            // The last eight bytes, which may overlap the others.
            if count > 8 {
                unsafe bytes.storeBytes(of: words.last.littleEndian, toByteOffset: count - 8, as: UInt64.self)
            }
            return try unsafe body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    /// Whether the name equals `count` bytes, which zeros pad to a multiple of eight.
    @inline(__always)
    func isEqual(to other: UnsafeRawPointer, count otherCount: Int) -> Bool {
        guard count == otherCount else { return false }
        if count == 0 { return true }
        guard unsafe UInt64(littleEndian: other.load(as: UInt64.self)) == words.first else { return false }
        if count <= 8 { return true }
        let last = unsafe other.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
        guard UInt64(littleEndian: last) == words.last else { return false }
        if count <= 16 { return true }
        if count <= Self.wordsLength {
            return unsafe UInt64(littleEndian: other.load(fromByteOffset: 8, as: UInt64.self)) == words.second
        }
        defer { withExtendedLifetime(string) {} }
        return unsafe longBytes.isEqual(to: UnsafeRawBufferPointer(start: other, count: count))
    }
}

extension KeyName {
    /// Whether the name is valid for a stored value.
    @inline(__always)
    var isValid: Bool { count <= Self.maximumLength }

    /// Throws unless the name is valid for a stored value.
    func validate(_ operation: KVStoreError.Operation, in store: String?) throws(KVStoreError) {
        guard isValid else {
            throw KVStoreError(.invalidKey, operation, key: string, store: store)
        }
    }
}

extension KeyName: Hashable {
    package static func == (left: KeyName, right: KeyName) -> Bool {
        guard left.hash == right.hash else { return false }
        return unsafe left.withBytes { leftBytes in
            unsafe right.withBytes { rightBytes in unsafe leftBytes.isEqual(to: rightBytes) }
        }
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(hash)
    }
}

extension KeyName: CustomStringConvertible {
    /// The name in quotes, truncated to 80 characters, with escapes as in `POSIXPath.description`.
    package var description: String {
        "\"\(POSIXPath(String(string.prefix(80))))" + (string.count > 80 ? "…\"" : "\"")
    }
}

/// A conversion of a value stored by an earlier release of an app to the current type of its key.
public struct KVMigration<Value: Codable & Sendable>: Sendable {
    /// The version that is converted.
    let version: UInt32

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

/// The hash of names: multiplications of eight bytes at a time, folded (after Wang Yi's wyhash), under a secret of this
/// process, so that names that collide cannot be chosen from outside.
enum KeyHash {
    /// The seed of all hashes.
    struct Seed: Hashable, Sendable {
        var first: UInt64
        var second: UInt64
    }

    private static let secret = Seed(first: .random(in: 0 ... .max) | 1, second: .random(in: 0 ... .max) | 1)

    /// The hash of a name in this process.
    static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { unsafe hash(bytes, secret) }

    /// The hash of a name, the same in every process.
    @inline(__always)
    static func hash(_ bytes: UnsafeRawBufferPointer, _ seed: Seed) -> UInt64 {
        var state = seed.first ^ UInt64(bytes.count)
        var offset = 0
        while bytes.count - offset > 8 {
            state = unsafe fold(state ^ bytes.integer(at: offset, as: UInt64.self), seed.second)
            offset += 8
        }
        // The last eight bytes, some of them for the second time.
        return unsafe fold(state ^ lastWord(bytes), seed.first ^ seed.second)
    }

    private static func lastWord(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        switch bytes.count {
        case 8...: return unsafe bytes.integer(at: bytes.count - 8, as: UInt64.self)
        case 4...:
            let low = unsafe UInt64(bytes.integer(at: 0, as: UInt32.self))
            return unsafe low | UInt64(bytes.integer(at: bytes.count - 4, as: UInt32.self)) << 32
        default: return unsafe bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }
}
