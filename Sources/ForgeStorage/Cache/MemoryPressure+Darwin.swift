#if canImport(Darwin)
import Darwin
import Dispatch

extension MemoryPressure {
    /// The warnings of the operating system: on Apple's platforms those of `DispatchSource`; none elsewhere.
    public static let system = MemoryPressure { handler in Sources(handler) }

    /// A dispatch source for each level, cancelled with its release.
    private final class Sources {
        private let sources: [any DispatchSourceMemoryPressure]

        init(_ handler: @escaping @Sendable (Level) -> Void) {
            let warning = DispatchSource.makeMemoryPressureSource(eventMask: .warning, queue: .global())
            warning.setEventHandler { handler(.warning) }
            let critical = DispatchSource.makeMemoryPressureSource(eventMask: .critical, queue: .global())
            critical.setEventHandler { handler(.critical) }
            sources = [warning, critical]
            for source in sources { source.activate() }
        }

        deinit {
            for source in sources { source.cancel() }
        }
    }
}
#endif
