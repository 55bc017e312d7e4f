import ForgeStorage

/// The keys of TaskFlow's settings.
enum TaskKeys {
    static let onboarding = KVKey<Bool>("taskflow.onboarding")
    static let board = KVKey<BoardSettings>("taskflow.board")
}

/// The keys of TaskFlow's secrets.
enum AuthKeys {
    static let accessToken = CryptKey<String>(key: "taskflow.auth.access")
}

/// The appearance of the board.
struct BoardSettings: Codable, Equatable {
    var showsCompleted = true
    var columns = ["To do", "Doing", "Done"]
}
