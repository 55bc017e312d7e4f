import ForgeStorage
import Foundation
import Testing

@testable import TaskFlow

/// The service on the app's own stores.
struct StoresTests {
    @Test func whatOneRunStoresTheNextRunReads() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("taskflow-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }

        do {
            let stores = try Stores(directory: directory)
            let service = TaskFlowService(
                preferences: stores.preferences, files: stores.files, keychain: stores.secrets)
            try await service.login(token: "abc", avatar: Data("img".utf8))
        }

        let stores = try Stores(directory: directory)
        #expect(stores.preferences.get(TaskKeys.onboarding) == true)
        #expect(try stores.secrets.get(AuthKeys.accessToken) == "abc")
        #expect(try await stores.files.load("avatars/current.jpg") == Data("img".utf8))
    }
}
