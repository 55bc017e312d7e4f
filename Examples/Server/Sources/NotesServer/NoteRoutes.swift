import ForgeStorage
import Foundation
import Hummingbird

/// Signs users in, and keeps a list of notes for each.
struct NoteRoutes {
    private let store: FileKVStore
    private let notes: NamespacedKVStore<FileKVStore>
    private let sessions: Sessions

    init(_ store: FileKVStore, _ sessions: Sessions) {
        self.store = store
        notes = NamespacedKVStore(store, namespace: "notes")
        self.sessions = sessions
    }

    struct SignIn: Decodable {
        var name: String
    }

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: StoreErrors())

        // A server of your own verifies who the user is.
        router.post("sessions") { request, context in
            let name = try await request.decode(as: SignIn.self, context: context).name
            guard (1...100).contains(name.utf8.count) else { throw HTTPError(.badRequest) }
            let token = UUID().uuidString
            try sessions.session(of: token).saveUser(User(name: name))
            return ["token": token]
        }
        router.delete("sessions") { request, _ in
            try session(of: request).clearUser()
            return HTTPResponse.Status.noContent
        }
        router.get("notes") { request, _ in
            try notes.read(key(of: request)) ?? []
        }
        router.post("notes") { request, _ in
            let key = try key(of: request)
            let note = String(buffer: try await request.body.collect(upTo: 4_096))
            // Concurrent requests lose no note, and an answer means that the note survives a kill.
            return try notes.update(key, default: []) { $0.append(note) }
        }
        router.get("health") { _, _ in
            // Throws if the store accepts no writes: on a full disk, or after the device has failed.
            try store.set(KVKey<Date>("health"), value: Date())
            return HTTPResponse.Status.ok
        }
        return router
    }

    private func session(of request: Request) throws -> SessionManager<User, any Error> {
        guard let token = request.headers[.authorization] else { throw HTTPError(.unauthorized) }
        return sessions.session(of: token)
    }

    /// The key of the notes of the user who sends a request.
    private func key(of request: Request) throws -> KVKey<[String]> {
        guard let user = try session(of: request).loadUser() else { throw HTTPError(.unauthorized) }
        return KVKey(user.name)
    }
}

/// Answers requests that the store refuses with status 503.
struct StoreErrors<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as KVStoreError {
            context.logger.error("\(error)")  // The operation, the key and the cause; no value.
            throw HTTPError(.serviceUnavailable)
        }
    }
}
