import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

/// A way to store something, right or wrong, with the check of what it promises.
struct Recipe: Sendable, CustomStringConvertible {
    let description: String
    /// Nil for a right one; otherwise the strictest of the weaker profiles under which it holds, or `never` if it
    /// breaks even where nothing is lost, between two of its steps.
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

/// What was there before, and what must be there after a crash.
struct Scene: Sendable {
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void
    var recover: @Sendable (InMemoryFileSystem, Crash<String>) throws -> Void
}

/// What a check throws.
struct Broken: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

func demand(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    guard condition else { throw Broken(what()) }
}
