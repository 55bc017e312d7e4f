import ForgeStorage
import Foundation

/// The settings and secrets of TaskFlow, the example app of the demo.
enum TaskFlow {
    static let onboarding = KVKey<Bool>("taskflow.onboarding")
    static let settings = KVKey<Settings>("taskflow.settings")
    static let accessToken = CryptKey<String>(key: "auth.access")
    static let avatar = "avatars/current.jpg"
    static let timeline = "timelines/home"

    struct Settings: Codable, Equatable, Sendable {
        var theme = "dusk"
        var fontSize = 14.5
        var columns = ["To do", "Doing", "Done"]
        var lastSync: Date?
    }

    struct User: Codable, Equatable, Sendable {
        var id: String
        var name: String
        var email: String
    }

    struct Timeline: Codable, Equatable, Sendable {
        var tweets: [String]
    }
}

/// The content that the demo stores, identical in the storing and the reading process.
struct DemoContent {
    let settings = TaskFlow.Settings(lastSync: Date(timeIntervalSinceReferenceDate: 800_000_000.25))
    let token = "token-123"
    let user = TaskFlow.User(id: "123", name: "John Doe", email: "john@example.com")
    let timeline = TaskFlow.Timeline(tweets: ["Hello", "World", "!!!"])
    let images = [
        ("board_background", Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])),
        ("https://example.com/team?size=2x", Data((0..<2048).map { UInt8(truncatingIfNeeded: $0 * 7) })),
    ]
    let avatar: Data

    /// The avatar is the user's file, or a small generated picture (PNM, 24 bytes of header and pixels).
    init(avatarFile: URL?) throws {
        if let avatarFile {
            avatar = try SystemFileSystem().read(from: avatarFile)
        } else {
            avatar = Data("P5 4 4 255\n".utf8) + Data((0..<16).map { UInt8($0 * 16) })
        }
    }
}
