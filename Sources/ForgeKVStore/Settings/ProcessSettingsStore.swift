import Foundation
import Logging
import Synchronization

/// The store of a process's settings: chosen once, or else opened by the first use.
final class ProcessSettingsStore: Sendable {
    private let isTest: Bool
    private let directory: @Sendable () throws -> URL
    private let state = Mutex<State?>(nil)

    private struct State {
        var store: any SettingsHome.Store

        /// The reason why `store` is only in memory.
        var openingError: (any Error)?
    }

    /// - Parameters:
    ///   - isTest: Whether the store is always in memory.
    ///   - directory: The directory of the store if none is chosen.
    init(isTest: Bool, directory: @escaping @Sendable () throws -> URL) {
        self.isTest = isTest
        self.directory = directory
    }

    /// The store, opened now if there is none.
    var store: any SettingsHome.Store {
        if let state = state.withLock({ $0 }) { return state.store }
        // Opening reports issues to code of the app, so no lock is held. If another thread opens first, its object is
        // used; both are objects over one store.
        let opened =
            isTest
            ? State(store: InMemoryKVStore())
            : Self.state { try FileKVStore(at: try directory(), options: .init(sharing: .shared)) }
        return state.withLock { state in
            if let state { return state.store }
            state = opened
            return opened.store
        }
    }

    var openingError: (any Error)? { state.withLock { $0?.openingError } }

    /// Chooses the store; see ``SettingsHome/open(_:)``.
    func open(_ opening: () throws -> any SettingsHome.Store) throws {
        guard !isTest else { return }
        let alreadyInUse = SettingsHome.AlreadyInUse()
        guard state.withLock({ $0 == nil }) else { throw alreadyInUse }
        let opened = Self.state(opening)
        try state.withLock { state in
            guard state == nil else { throw alreadyInUse }
            state = opened
        }
        if let error = opened.openingError { throw error }
    }

    private static func state(_ opening: () throws -> any SettingsHome.Store) -> State {
        do {
            return State(store: try opening())
        } catch {
            Logger(label: "ForgeKVStore").critical("settings are only kept in memory: \(error)")
            return State(store: InMemoryKVStore(), openingError: error)
        }
    }
}
