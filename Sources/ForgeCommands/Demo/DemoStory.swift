import ForgeStorage
import Foundation

/// The story that the demo plays: a first run of TaskFlow, a second one, and logging out.
struct DemoStory {
    let stores: DemoStores
    let content: DemoContent

    /// The first run: everything is stored.
    func store() async throws {
        try stores.settings.set(TaskFlow.onboarding, value: true)
        try stores.settings.set(TaskFlow.settings, value: content.settings)
        try stores.secrets.set(content.token, for: TaskFlow.accessToken)
        try await stores.files.save(content.avatar, to: TaskFlow.avatar)
        try stores.session.saveUser(content.user)
        for (id, data) in content.images { try stores.images.cacheImage(id: id, data: data) }
        try await stores.values.save(content.timeline, for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }

    /// What a later run finds different from what was stored; empty if all is there.
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
        let timeline: TaskFlow.Timeline = try await stores.values.fetch(for: TaskFlow.timeline)
        expect(timeline == content.timeline, "the timeline")
        return found
    }

    /// Logging out: everything goes.
    func logOut() async throws {
        try stores.session.clearUser()
        try stores.secrets.deleteAll()
        try await stores.files.deleteAll()
        try stores.settings.removeAll()
        try stores.images.clearCache()
        try stores.valueFiles.removeValue(for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }
}
