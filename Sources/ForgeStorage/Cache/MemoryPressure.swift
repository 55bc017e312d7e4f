/// A source of low-memory warnings, which make caches evict entries from memory.
///
/// On a warning a cache keeps half of the size and half of the entries in memory, on a critical one nothing; entries on
/// disk stay. Caches use ``system`` unless another source is given, such as one that a test or a server controls.
public struct MemoryPressure: Sendable {
    /// How scarce memory is.
    public enum Level: Hashable, Sendable {
        /// Memory becomes scarce.
        case warning

        /// The system is about to end processes.
        case critical
    }

    private let start: @Sendable (_ handler: @escaping @Sendable (Level) -> Void) -> AnyObject?

    /// Creates a source.
    ///
    /// - Parameter start: Starts to call a handler with every warning, on any thread. Every cache calls it once and
    ///   keeps the returned object as long as it lives. The `deinit` of the object should end the calls; later ones
    ///   have no effect. The object may be released during a call of the handler, on its thread.
    public init(_ start: @escaping @Sendable (_ handler: @escaping @Sendable (Level) -> Void) -> AnyObject?) {
        self.start = start
    }

    /// Keeps a handler subscribed while it exists.
    ///
    /// `@unchecked Sendable`: the object is only kept and released.
    final class Observation: @unchecked Sendable {
        private let object: AnyObject?

        init(_ pressure: MemoryPressure, _ handler: @escaping @Sendable (Level) -> Void) {
            object = pressure.start(handler)
        }
    }

    /// A source without warnings.
    public static let none = MemoryPressure { _ in nil }

    #if !canImport(Darwin)
    /// The warnings of the operating system: on Apple's platforms those of `DispatchSource`; none elsewhere.
    public static let system = none
    #endif
}
