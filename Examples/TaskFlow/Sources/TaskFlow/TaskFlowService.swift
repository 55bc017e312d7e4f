import ForgeStorage
import Foundation

/// Logs users in and out, using settings, files and secrets.
final class TaskFlowService {
    private let preferences: KVStoring
    private let files: FileStoring
    private let keychain: CryptStoring

    init(preferences: KVStoring, files: FileStoring, keychain: CryptStoring) {
        self.preferences = preferences
        self.files = files
        self.keychain = keychain
    }

    func login(token: String, avatar: Data) async throws {
        try keychain.set(token, for: AuthKeys.accessToken)
        try await files.save(avatar, to: "avatars/current.jpg")
        try preferences.set(TaskKeys.onboarding, value: true)
    }

    func logout() async throws {
        try keychain.deleteAll()
        try await files.deleteAll()
        try preferences.removeAll()
    }
}
