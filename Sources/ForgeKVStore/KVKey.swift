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

    /// A key of this name.
    public init(_ name: String) {
        identity = KeyName(name)
    }

    /// The name of the value.
    public var name: String { identity.string }

    /// The longest name, in bytes of UTF-8.
    public static var maximumNameLength: Int { KeyName.maximumLength }
}

extension KVKey: Hashable {
    public static func == (left: KVKey, right: KVKey) -> Bool { left.identity == right.identity }

    public func hash(into hasher: inout Hasher) { identity.hash(into: &hasher) }
}

extension KVKey: CustomStringConvertible {
    public var description: String { identity.description }
}
