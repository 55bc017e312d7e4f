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

/// Keys are equal if their names are; migrations are not compared.
extension KVKey: Hashable {
    public static func == (left: KVKey, right: KVKey) -> Bool { left.identity == right.identity }

    public func hash(into hasher: inout Hasher) { identity.hash(into: &hasher) }
}

extension KVKey: CustomStringConvertible {
    public var description: String { identity.description }
}
