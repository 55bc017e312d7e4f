import ForgeStorage
import Foundation
import Testing

@testable import TaskFlow

struct TaskFlowServiceTests {
    let prefs = InMemoryKVStore()
    let files = InMemoryFileStore()
    let keychain = InMemoryCrypt()
    let service: TaskFlowService

    init() {
        service = TaskFlowService(
            preferences: prefs,
            files: files,
            keychain: keychain
        )
    }

    @Test func loginStoresAllData() async throws {
        try await service.login(token: "abc", avatar: Data("img".utf8))

        #expect(try keychain.contains(AuthKeys.accessToken))
        #expect(files.exists("avatars/current.jpg"))
        #expect(prefs.get(TaskKeys.onboarding) == true)
    }

    @Test func logoutClearsAllData() async throws {
        try await service.login(token: "abc", avatar: Data("img".utf8))
        try await service.logout()

        #expect(try keychain.get(AuthKeys.accessToken) == nil)
        #expect(!files.exists("avatars/current.jpg"))
        #expect(prefs.get(TaskKeys.onboarding) == nil)
    }
}
