import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

/// A correct or wrong way to store data, with a check of its promise.
struct Recipe: Sendable, CustomStringConvertible {
    let description: String
    /// Nil for a correct recipe; otherwise the strictest of the weaker profiles under which it holds, or `never` if it
    /// fails between two of its steps even without losses.
    let holdsUnder: String?
    static let never = "never"
    let prepare: @Sendable (InMemoryFileSystem) throws -> Void
    let run: @Sendable (InMemoryFileSystem, CrashRun<String>) throws -> Void
    let recover: @Sendable (InMemoryFileSystem, Crash<String>) throws -> Void

    static func right(_ description: String, _ scene: Scene, _ run: @escaping Body) -> Recipe {
        Recipe(
            description: description, holdsUnder: nil, prepare: scene.prepare, run: run, recover: scene.recover)
    }

    static func wrong(
        _ description: String, holdsUnder: String = "processKill", _ scene: Scene, _ run: @escaping Body
    ) -> Recipe {
        Recipe(
            description: description, holdsUnder: holdsUnder, prepare: scene.prepare, run: run,
            recover: scene.recover)
    }

    typealias Body = @Sendable (InMemoryFileSystem, CrashRun<String>) throws -> Void

    func explorer(
        profile: CrashProfile = .posixStrict, limit: Int = 20_000, depth: Int = 2
    ) -> CrashExplorer<String> {
        CrashExplorer(
            profile: profile, limit: limit, depth: depth, marking: String.self, prepare: prepare, run: run,
            recover: recover)
    }
}

/// The initial state, and the check after a crash.
struct Scene: Sendable {
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void
    var recover: @Sendable (InMemoryFileSystem, Crash<String>) throws -> Void
}

/// The error of a check.
struct Broken: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

func demand(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    guard condition else { throw Broken(what()) }
}
