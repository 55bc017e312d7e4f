import ForgeFileSystem
import Synchronization

/// Where the program under test says what it was told, so that whoever checks a state knows what must be in it.
///
/// Marks stand between the changes of the file system: each state is checked against those that were made before the
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

    /// Says that something is about to be done: from now on it may be found after a crash.
    public func begin(_ mark: Mark) {
        note(.began(mark))
    }

    /// Says that something was acknowledged: from now on it must be found after every crash.
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

/// A crash, as the code that recovers from it sees it.
public struct Crash<Mark: Sendable>: Sendable {
    /// What had been acknowledged, in order.
    public let acknowledged: [Mark]

    /// What had been begun, in order, acknowledged since or not.
    public let begun: [Mark]

    /// How many changes of the file system had been made.
    public let effectCount: Int

    /// 1 for a crash of the program, 2 for one of the recovery after it.
    public let depth: Int

    init(_ events: some Sequence<CrashRun<Mark>.Event>, effectCount: Int, depth: Int) {
        var acknowledged: [Mark] = []
        var begun: [Mark] = []
        for event in events {
            switch event {
            case .began(let mark): begun.append(mark)
            case .acknowledged(let mark): acknowledged.append(mark)
            }
        }
        self.acknowledged = acknowledged
        self.begun = begun
        self.effectCount = effectCount
        self.depth = depth
    }
}
