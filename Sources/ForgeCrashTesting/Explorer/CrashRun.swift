import ForgeFileSystem
import Synchronization

/// The marks of a run of the program: the operations begun and acknowledged.
///
/// Marks are recorded between the changes of the file system; each state is checked against the marks made before the
/// crash.
public final class CrashRun<Mark: Sendable>: Sendable {
    enum Event: Sendable {
        case began(Mark)
        case acknowledged(Mark)
    }

    private let events = Mutex<[Event]>([])
    private let fileSystem: InMemoryFileSystem

    init(_ fileSystem: InMemoryFileSystem) {
        self.fileSystem = fileSystem
    }

    /// Marks the start of an operation: its effect may be found after later crashes.
    public func begin(_ mark: Mark) {
        note(.began(mark))
    }

    /// Marks an operation as acknowledged: its effect must be found after every later crash.
    public func acknowledge(_ mark: Mark) {
        note(.acknowledged(mark))
    }

    var allEvents: [Event] { events.withLock { $0 } }

    private func note(_ event: Event) {
        events.withLock { events in
            fileSystem.recordMark(events.count)
            events.append(event)
        }
    }
}
