import ForgeStorage
import Foundation

/// The steps of the demo: storing, reading back, and logging out.
struct DemoStory {
    let stores: DemoStores
    let content: DemoContent

    /// Whether an earlier run stored data and did not log out.
    func isLoggedIn() throws -> Bool {
        try stores.settings.read(TaskFlow.onboarding) == true
    }

    /// Stores one item in each store.
    func store() async throws {
        try stores.settings.set(TaskFlow.onboarding, value: true)
        try stores.settings.set(TaskFlow.settings, value: content.settings)
        try stores.secrets.set(content.token, for: TaskFlow.accessToken)
        try await stores.files.save(content.avatar, to: TaskFlow.avatar)
        try stores.session.saveUser(content.user)
        for (id, data) in content.images { try stores.images.cacheImage(id: id, data: data) }
        try await stores.values.saveInBackground(content.timeline, for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }

    /// The differences from the stored values; empty if there are none.
    func differences() async throws -> [String] {
        var found: [String] = []
        func expect(_ isEqual: Bool, _ what: String) {
            if !isEqual { found.append(what) }
        }
        expect(try stores.settings.read(TaskFlow.onboarding) == true, "the onboarding flag")
        expect(try stores.settings.read(TaskFlow.settings) == content.settings, "the settings")
        expect(try stores.secrets.get(TaskFlow.accessToken) == content.token, "the access token")
        expect(try await stores.files.load(TaskFlow.avatar) == content.avatar, "the avatar")
        expect(try stores.session.loadUser() == content.user, "the session")
        for (id, data) in content.images {
            expect(try stores.images.readCachedImage(id: id)?.data == data, "the cached image \(id)")
        }
        let timeline: TaskFlow.Timeline = try await stores.values.fetchInBackground(for: TaskFlow.timeline)
        expect(timeline == content.timeline, "the timeline")
        return found
    }

    /// Removes the items of ``store()`` one by one: other values and files in the directory are kept.
    func logOut() async throws {
        try stores.session.clearUser()
        try stores.secrets.delete(TaskFlow.accessToken)
        try await deleteAvatar()
        try stores.settings.remove(TaskFlow.onboarding)
        try stores.settings.remove(TaskFlow.settings)
        for (id, _) in content.images { try stores.images.deleteCachedImage(id: id) }
        try stores.valueFiles.removeValue(for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }

    /// The items of ``store()`` that still exist.
    func remains() async throws -> [String] {
        var found: [String] = []
        func expect(_ isGone: Bool, _ what: String) {
            if !isGone { found.append(what) }
        }
        expect(try stores.settings.read(TaskFlow.onboarding) == nil, "the onboarding flag")
        expect(try stores.settings.read(TaskFlow.settings) == nil, "the settings")
        expect(try !stores.secrets.contains(TaskFlow.accessToken), "the access token")
        expect(try await !stores.files.list(recursive: true).contains { $0.key == TaskFlow.avatar }, "the avatar")
        expect(try stores.session.loadUser() == nil, "the session")
        for (id, _) in content.images {
            expect(try stores.images.readCachedImage(id: id) == nil, "the cached image \(id)")
        }
        return found
    }

    private func deleteAvatar() async throws {
        do {
            try await stores.files.delete(TaskFlow.avatar)
        } catch let error as FileStoreError where error.code == .notFound {
            return
        }
    }
}
