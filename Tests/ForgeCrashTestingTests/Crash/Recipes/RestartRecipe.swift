import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting

/// A program that is restarted after every crash, with correct or wrong assumptions about an earlier, killed run.
struct RestartRecipe: Sendable, CustomStringConvertible {
    /// The state that the wrong program assumes to be durable.
    let description: String
    var prepare: @Sendable (InMemoryFileSystem) throws -> Void = { _ in }
    /// The program, which ends with a promise. If `trusts` is true, it does not synchronise existing state.
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
