/// A source of warnings that the system runs out of memory, on which a cache evicts entries from memory.
///
/// A warning halves the layer in memory, a critical one empties it; entries on disk stay. Caches use ``system`` unless
/// another source is given, such as one that a test or a server controls:
///
/// ```swift
/// let pressure = MemoryPressure { warn in
///     NotificationCenter.default.addObserver(forName: .init("low-memory"), object: nil, queue: nil) { _ in
///         warn(.warning)
///     }
/// }
/// var options = CacheOptions()
/// options.memoryPressure = pressure
/// ```
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
    /// - Parameter start: Starts to call a handler with every warning, on any thread. Called once by every cache, which
    ///   releases the object that it returns with itself; the calls, which have no effect any more, should end then.
    public init(_ start: @escaping @Sendable (_ handler: @escaping @Sendable (Level) -> Void) -> AnyObject?) {
        self.start = start
    }

    /// The calls of a handler, until the object is released.
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
