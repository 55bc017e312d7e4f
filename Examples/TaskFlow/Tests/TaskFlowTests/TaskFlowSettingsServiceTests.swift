import ForgeStorage
import Testing

@testable import TaskFlow

struct TaskFlowSettingsServiceTests {
    let store = InMemoryKVStore()
    let service: TaskFlowSettingsService

    init() {
        service = TaskFlowSettingsService(store: store)
    }

    @Test func defaultOnboardingState() {
        #expect(!service.hasCompletedOnboarding)
    }

    @Test func completeOnboarding() throws {
        try service.completeOnboarding()
        #expect(service.hasCompletedOnboarding)
    }

    @Test func resetClearsAllData() throws {
        try service.completeOnboarding()
        try service.reset()
        #expect(!service.hasCompletedOnboarding)
    }

    @Test func boardKeepsItsArrangement() throws {
        #expect(service.board == BoardSettings())
        let board = BoardSettings(showsCompleted: false, columns: ["Now", "Later"])
        try service.arrangeBoard(board)
        #expect(service.board == board)
    }
}
