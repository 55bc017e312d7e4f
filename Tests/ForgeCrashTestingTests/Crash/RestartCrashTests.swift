import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import TestDepth
import Testing

@Suite("Programs that are killed, started again, and lose power")
struct RestartCrashTests {
    @Test("power cuts alone do not detect a program that trusts a killed run", arguments: RestartRecipe.all)
    func powerCutsAlone(_ recipe: RestartRecipe) async throws {
        var explorer = recipe.explorer(trusts: true)
        explorer.carriesKills = false
        let report = try await explorer.explore()
        #expect(report.holds, "\(report)")
        #expect(report.killCount == 0 && report.stateCountAfterKills == 0)
    }

    @Test(
        "a program that trusts a killed run is detected", arguments: TestDepth.sample(RestartRecipe.all, every: 2))
    func trusting(_ recipe: RestartRecipe) async throws {
        let explorer = recipe.explorer(trusts: true)
        let report = try await explorer.explore()
        #expect(!report.holds, "\(report)")
        #expect(report.needsKill && report.description.contains("holds without kills"), "\(report)")
        #expect(report.weakestSufficientProfile != nil, "\(report)")
        for violation in report.violations {
            let id = try #require(CrashStateID(violation.id.description))
            #expect(id == violation.id)
            #expect(violation.crashes.first?.hasPrefix("kill after") ?? false, "\(violation)")
            let thrown = await #expect(throws: Broken.self) { try await explorer.replay(id) }
            #expect(thrown?.description == violation.reason)
        }
    }

    @Test("a program that synchronises existing state survives", arguments: RestartRecipe.all)
    func synchronising(_ recipe: RestartRecipe) async throws {
        let report = try await recipe.explorer(trusts: false).explore()
        #expect(report.holds, "\(report)")
        #expect(report.isExhaustive && report.isExhaustiveAfterKills, "\(report)")
        #expect(report.killCount > 1 && report.stateCountAfterKills > 1)
    }

    @Test("data acknowledged by a recovery must survive the next crash")
    func acknowledgedByRecovery() async throws {
        let explorer = CrashExplorer(
            marking: String.self, run: { fileSystem, _ in try fileSystem.put("/f", letters("f", 10)) },
            recover: { fileSystem, crash in
                if crash.acknowledged.contains("g") { try demand(fileSystem.has("/g"), "g is lost") }
                guard !fileSystem.has("/g") else { return }
                crash.begin("g")
                try fileSystem.put("/g", [])
                crash.acknowledge("g")
            })
        let report = try await explorer.explore()
        #expect(report.violations.contains { $0.crashes[0].hasPrefix("power cut") }, "\(report)")
        #expect(report.stateCountAfterKills > 0 && report.nestedStateCount > 0)
    }

    @Test("a kill loses nothing, and every kill is reported as one")
    func kinds() async throws {
        let report = try await forEachCrash { fileSystem, run in
            try fileSystem.put("/f", letters("f", 10))
            run.acknowledge("f")
        } recover: { fileSystem, crash in
            guard crash.kind == .processKill, crash.depth == 1, crash.acknowledged.contains("f") else { return }
            try demand(try fileSystem.content("/f") == letters("f", 10), "a kill loses what was written")
        }
        #expect(report.killCount == 4)
    }

    @Test("a kill of the recovery from a power cut counts as a power cut")
    func killAfterPowerCut() async throws {
        let report = try await forEachCrash { fileSystem, run in
            try fileSystem.put("/f", letters("f", 10))
            run.acknowledge("f")
        } recover: { fileSystem, crash in
            if crash.kind == .processKill, crash.acknowledged.contains("f") {
                try demand(fileSystem.has("/f"), "a kill loses what was written")
            }
            if crash.depth == 1 { try fileSystem.put("/g", letters("g", 10)) }
        }
        #expect(report.nestedStateCount > 0, "\(report)")
    }

    @Test("a flush after a kill covers stores of the killed process through a mapping")
    func storesOfTheKilled() async throws {
        let report = try await forEachCrash(
            prepare: { try $0.put("/f", letters("o", 32)) },
            run: { fileSystem, run in
                try fileSystem.store("/f", letters("n", 8), at: 0)
                run.acknowledge("stored")
            },
            recover: { fileSystem, crash in
                let isStored = try fileSystem.content("/f") == letters("n", 8) + letters("o", 24)
                if crash.acknowledged.contains("flushed") { try demand(isStored, "a flushed store is lost") }
                guard crash.kind == .processKill, isStored else { return }
                try fileSystem.sync("/f", .data)
                crash.acknowledge("flushed")
            })
        #expect(report.stateCountAfterKills > 0, "\(report)")
    }

    @Test("a store interrupted by a kill is present up to a word boundary, or from one")
    func tornStore() async throws {
        let explorer = CrashExplorer(
            marking: String.self, prepare: { try $0.put("/f", [UInt8](repeating: 0, count: 32)) },
            run: { fileSystem, _ in try fileSystem.store("/f", letters("n", 24), at: 0) },
            recover: { fileSystem, crash in
                let zeros = try fileSystem.content("/f")?.prefix(24).count { $0 == 0 }
                try demand(crash.kind == .powerCut || zeros == 0 || crash.effectCount == 0, "\(zeros ?? -1) zeros")
            })
        let report = try await explorer.explore()
        #expect(Set(report.violations.map(\.reason)) == ["8 zeros", "16 zeros"], "\(report)")
        let id = try #require(report.violations.first?.id)
        await #expect(throws: Broken.self) { try await explorer.replay(id) }
    }

    @Test("with too many states after kills a sample is taken and reported")
    func sample() async throws {
        let report = try await forEachCrash(limit: 40) { fileSystem, _ in
            for number in 0..<6 { try fileSystem.put("/\(number)", letters("x", 20)) }
        } recover: { fileSystem, _ in
            try fileSystem.put("/recovered", [])
            try fileSystem.sync("/recovered")
        }
        #expect(!report.isExhaustiveAfterKills && report.sampledKillCount > 0)
        #expect(report.description.contains("kills sampled: \(report.sampledKillCount) with a sample"), "\(report)")
        #expect(report.stateCountAfterKills < 200)
    }

    @Test("there are twelve programs with wrong assumptions")
    func enoughRecipes() {
        #expect(RestartRecipe.all.count >= 12)
    }
}
