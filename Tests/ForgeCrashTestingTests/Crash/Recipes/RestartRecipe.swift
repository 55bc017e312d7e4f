import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

/// A program that is started again after every crash, right or wrong about what a killed run left unsynchronised.
struct RestartRecipe: Sendable, CustomStringConvertible {
    /// What the wrong program takes for durable.
    let description: String
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void = { _ in }
    /// The program; it ends with a promise. If `trusts` is true, it synchronises nothing that it finds done already.
    let program: @Sendable (InMemoryFileSystem, _ trusts: Bool) throws -> Void
    /// Throws unless the promise is kept.
    let check: @Sendable (InMemoryFileSystem) throws -> Void

    func explorer(trusts: Bool) -> CrashExplorer<String> {
        CrashExplorer(
            limit: 20_000, marking: String.self, prepare: prepare,
            run: { fileSystem, run in
                try program(fileSystem, trusts)
                run.acknowledge("done")
            },
            recover: { fileSystem, crash in
                if crash.acknowledged.contains("done") { try check(fileSystem) }
                try program(fileSystem, trusts)
                try check(fileSystem)
                crash.acknowledge("done")
            })
    }
}
