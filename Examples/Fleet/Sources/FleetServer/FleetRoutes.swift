import ForgeStorage
import Foundation
import Hummingbird

/// Signs users in, greets them as the settings say, and keeps an avatar for each.
struct FleetRoutes {
    /// A setting that all servers share.
    static let greeting = KVKey<String>("greeting")

    let sessions: Sessions
    let settings: MirroredKVStore
    let avatars: any FileStoring

    struct SignIn: Decodable {
        var name: String
    }

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: StoreErrors())

        // A server of your own verifies who the user is, and who may change a setting.
        router.post("sessions") { request, context in
            let name = try await request.decode(as: SignIn.self, context: context).name
            guard (1...100).contains(name.utf8.count), name.allSatisfy(\.isLetter) else { throw HTTPError(.badRequest) }
            let token = UUID().uuidString
            try await sessions.session(of: token).saveUser(User(name: name))
            return ["token": token]
        }
        router.delete("sessions") { request, _ in
            try await session(of: request).clearUser()
            return HTTPResponse.Status.noContent
        }
        router.get("greeting") { request, _ in
            let name = try await user(of: request).name
            return "\(settings.get(Self.greeting) ?? "Hello"), \(name)"  // Read from memory.
        }
        router.put("greeting") { request, _ in
            _ = try await user(of: request)
            let greeting = String(buffer: try await request.body.collect(upTo: 1_000))
            // Returns when this server's mirror shows it; others follow within milliseconds.
            try await settings.remote.set(Self.greeting, value: greeting)
            return HTTPResponse.Status.noContent
        }
        router.get("avatar") { request, _ in
            let data = try await avatars.load(user(of: request).name)
            return ByteBuffer(bytes: data)
        }
        router.put("avatar") { request, _ in
            let name = try await user(of: request).name
            let image = try await request.body.collect(upTo: 1 << 20)
            try await avatars.save(Data(image.readableBytesView), to: name)
            return HTTPResponse.Status.noContent
        }
        // A load balancer asks this.
        router.get("health") { _, _ in
            settings.isCaughtUp ? HTTPResponse.Status.ok : .serviceUnavailable
        }
        return router
    }

    private func session(of request: Request) throws -> AsyncKVSessionStorage<User> {
        guard let token = request.headers[.authorization] else { throw HTTPError(.unauthorized) }
        return sessions.session(of: token)
    }

    /// The user who sends a request.
    private func user(of request: Request) async throws -> User {
        guard let user = try await session(of: request).loadUser() else { throw HTTPError(.unauthorized) }
        return user
    }
}
