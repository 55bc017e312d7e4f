/// The name of a value in a store, and the type that the value has.
///
/// ```swift
/// extension KVKey where Value == Bool {
///     static var hasCompletedOnboarding: KVKey<Bool> { KVKey("onboarding.completed") }
/// }
/// ```
///
/// Names are compared byte by byte: `é` as one character and as two are two keys. Any name of up to
/// ``maximumNameLength`` bytes will do, the empty one included; a name is never a path, so `../x` is as good as any.
/// Two keys of one name and different types name the same value.
public struct KVKey<Value: Codable & Sendable>: Sendable {
    let identity: KeyName

    /// How values of earlier versions become one of this type; nil for a type that has only ever had one version.
    let schema: KVSchema<Value>?

    /// A key of this name, for a type of which there is one version so far.
    public init(_ name: String) {
        identity = KeyName(name)
        schema = nil
    }

    /// A key of this name, for a type that has had other versions.
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
    /// Versions are counted from 1, which is what a key without migrations writes; here version 3 is the present one,
    /// one more than the last that there is a migration from. Every migration leads straight to the present type, so
    /// that a version can be dropped without a gap in a chain. Reading migrates what is read and leaves what is stored
    /// as it is; the next `set` stores the present version.
    ///
    /// A value of a later version, as it is found when an app was taken back to an earlier release, is refused and
    /// kept: ``KVStoring/get(_:)`` gives nil, ``KVStoring/read(_:)`` throws `.newerSchema(version:)`.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - migrations: One for each version that can still be read, in any order.
    /// - Precondition: No two migrations are from the same version, and none is from version 0.
    public init(_ name: String, migrations: [KVMigration<Value>]) {
        identity = KeyName(name)
        schema = migrations.isEmpty ? nil : KVSchema(migrations)
    }

    init(_ identity: KeyName, _ schema: KVSchema<Value>?) {
        self.identity = identity
        self.schema = schema
    }

    /// The same key under another name, for stores that keep it so in the store underneath.
    func named(_ name: String) -> KVKey { KVKey(KeyName(name), schema) }

    /// The name of the value.
    public var name: String { identity.string }

    /// The version that is written: 1 unless there are migrations.
    public var schemaVersion: UInt32 { schema?.version ?? 1 }

    /// The earlier versions that can be read, in ascending order.
    public var migratedVersions: [UInt32] { schema?.migratedVersions ?? [] }

    /// The longest name, in bytes of UTF-8.
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
