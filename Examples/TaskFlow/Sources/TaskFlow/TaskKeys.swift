import ForgeStorage

/// The settings that TaskFlow keeps.
enum TaskKeys {
    static let onboarding = KVKey<Bool>("taskflow.onboarding")
    static let board = KVKey<BoardSettings>("taskflow.board")
}

/// The secrets that TaskFlow keeps.
enum AuthKeys {
    static let accessToken = CryptKey<String>(key: "taskflow.auth.access")
}

/// How the board looks.
struct BoardSettings: Codable, Equatable {
    var showsCompleted = true
    var columns = ["To do", "Doing", "Done"]
}
