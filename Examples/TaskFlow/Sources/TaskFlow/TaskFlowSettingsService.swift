import ForgeStorage

/// The settings of the app, in any key-value store.
final class TaskFlowSettingsService {
    private let store: KVStoring

    init(store: KVStoring) {
        self.store = store
    }

    var hasCompletedOnboarding: Bool {
        store.get(TaskKeys.onboarding) ?? false
    }

    var board: BoardSettings {
        store.get(TaskKeys.board) ?? BoardSettings()
    }

    func completeOnboarding() throws {
        try store.set(TaskKeys.onboarding, value: true)
    }

    func arrangeBoard(_ board: BoardSettings) throws {
        try store.set(TaskKeys.board, value: board)
    }

    func reset() throws {
        try store.removeAll()
    }
}
