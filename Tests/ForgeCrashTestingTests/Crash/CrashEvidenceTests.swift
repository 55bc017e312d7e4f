import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import TestDepth
import Testing

private let old = letters("o", 3000)
private let new = letters("n", 5000)

/// The states that three file systems of Linux 6.18 left after a power cut, with the preceding calls.
struct CrashEvidence: Sendable, CustomStringConvertible {
    let description: String
    /// The files to inspect.
    let watched: [String]
    /// On ext4, XFS and btrfs, for each file: `-` if absent, `0` if empty, `old`, `new`, or its zeros.
    let outcomes: [String]
    let run: @Sendable (InMemoryFileSystem) throws -> Void

    init(
        _ description: String, _ watched: [String], _ outcomes: String...,
        run: @escaping @Sendable (InMemoryFileSystem) throws -> Void
    ) {
        self.description = description
        self.watched = watched
        self.outcomes = outcomes
        self.run = run
    }

    func outcome(_ fileSystem: InMemoryFileSystem) throws -> String {
        try watched.map { path in
            if fileSystem.has(path), try fileSystem.status(POSIXPath(path)).type == .directory { return "there" }
            guard let content = try fileSystem.content(path) else { return "-" }
            if content.isEmpty { return "0" }
            if content == old { return "old" }
            if content == new { return "new" }
            if content == old + letters("\0", 9000) { return "zeros" }
            return "other"
        }.joined(separator: " ")
    }

    func outcomes(under profile: CrashProfile) async throws -> Set<String> {
        let explorer = CrashExplorer(
            profile: profile, marking: String.self,
            prepare: { fileSystem in
                try fileSystem.makeDirectory("/d")
                try fileSystem.makeDirectory("/dd")
                try fileSystem.put("/d/f", old)
                try fileSystem.put("/dd/other", old)
            }, run: { fileSystem, _ in try run(fileSystem) }, recover: { _, _ in })
        return try await Set(explorer.states(after: .max).map { try outcome(InMemoryFileSystem($0)) })
    }

    private static func syncOther(_ fileSystem: InMemoryFileSystem) throws {
        try fileSystem.patch("/dd/other", new)
        try fileSystem.sync("/dd/other")
    }

    static let table: [CrashEvidence] = [
        CrashEvidence("create and write", ["/d/g"], "-", "-", "-") { try $0.put("/d/g", new) },
        CrashEvidence("create and write, fsync another file", ["/d/g"], "0", "0", "-") { fileSystem in
            try fileSystem.put("/d/g", new)
            try syncOther(fileSystem)
        },
        CrashEvidence("create and write, wait eight seconds", ["/d/g"], "0", "-", "-") { try $0.put("/d/g", new) },
        CrashEvidence("create, write and fsync", ["/d/g"], "new", "new", "new") { fileSystem in
            try fileSystem.put("/d/g", new)
            try fileSystem.sync("/d/g")
        },
        CrashEvidence("replace without fsync", ["/d/f"], "old", "old", "old") { fileSystem in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/f")
        },
        CrashEvidence("replace without fsync, fsync another file", ["/d/f"], "new", "0", "old") { fileSystem in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/f")
            try syncOther(fileSystem)
        },
        CrashEvidence(
            "replace, directory not synchronised", ["/d/f", "/d/tmp"], "old new", "old new", "old new"
        ) { fileSystem in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
        },
        CrashEvidence("replace and synchronise all", ["/d/f", "/d/tmp"], "new -", "new -", "new -") { fileSystem in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.sync("/d/tmp")
            try fileSystem.move("/d/tmp", "/d/f")
            try fileSystem.sync("/d")
        },
        CrashEvidence("rename to a new name, fsync the directory only", ["/d/g"], "0", "0", "0") { fileSystem in
            try fileSystem.put("/d/tmp", new)
            try fileSystem.move("/d/tmp", "/d/g")
            try fileSystem.sync("/d")
        },
        CrashEvidence("cut to nothing and rewrite, fsync another file", ["/d/f"], "new", "new", "old") { fileSystem in
            try fileSystem.put("/d/f", new)
            try syncOther(fileSystem)
        },
        CrashEvidence("unlink, fsync another file", ["/d/f"], "-", "-", "old") { fileSystem in
            try fileSystem.remove("/d/f")
            try syncOther(fileSystem)
        },
        CrashEvidence(
            "two new directories, fsync the inner one", ["/d/p", "/d/p/q"], "there there", "there there", "there there"
        ) { fileSystem in
            try fileSystem.makeDirectory("/d/p")
            try fileSystem.makeDirectory("/d/p/q")
            try fileSystem.sync("/d/p/q")
        },
        CrashEvidence(
            "move to another directory, fsync that", ["/d/f", "/dd/new"], "- old", "- old", "old old"
        ) { fileSystem in
            try fileSystem.move("/d/f", "/dd/new")
            try fileSystem.sync("/dd")
        },
        CrashEvidence(
            "move to another directory, fsync the old one", ["/d/f", "/dd/new"], "- old", "- old", "- old"
        ) { fileSystem in
            try fileSystem.move("/d/f", "/dd/new")
            try fileSystem.sync("/d")
        },
        CrashEvidence("extend and write in the hole, fsync another file", ["/d/f"], "zeros", "zeros", "old") {
            fileSystem in
            try fileSystem.cut("/d/f", to: 12_000)
            try fileSystem.patch("/d/f", new, at: 6000)
            try syncOther(fileSystem)
        },
    ]
}

@Suite("The crash model against states of real file systems")
struct CrashEvidenceTests {
    @Test("the states that ext4, XFS and btrfs left are among those of the model", arguments: CrashEvidence.table)
    func isContained(_ evidence: CrashEvidence) async throws {
        for profile in [CrashProfile.posixStrict, .freshInode] {
            let states = try await evidence.outcomes(under: profile)
            for outcome in evidence.outcomes { #expect(states.contains(outcome), "\(profile.name): \(states)") }
        }
    }

    @Test("the states that ext4 and XFS left are among those of a single journal", arguments: CrashEvidence.table)
    func isContainedInOrder(_ evidence: CrashEvidence) async throws {
        let states = try await evidence.outcomes(under: .orderedNames)
        for outcome in evidence.outcomes.prefix(2) { #expect(states.contains(outcome), "\(states)") }
    }

    @Test("two names after a move are not a state of a single journal")
    func splitRename() async throws {
        let evidence = try #require(CrashEvidence.table.first { $0.outcomes.last == "old old" })
        #expect(try await !evidence.outcomes(under: .orderedNames).contains("old old"))
    }

    @Test("every state contains synchronised data")
    func synchronised() async throws {
        let evidence = try #require(CrashEvidence.table.first { $0.description == "replace and synchronise all" })
        #expect(try await evidence.outcomes(under: .posixStrict) == ["new -"])
    }
}

private let recipes = Recipe.replacements + Recipe.logs + Recipe.mappedLogs + Recipe.names

@Suite("Recipes under crashes")
struct CrashRecipeTests {
    @Test("a correct recipe survives every crash", arguments: recipes.filter { $0.holdsUnder == nil })
    func rightRecipe(_ recipe: Recipe) async throws {
        let report = try await recipe.explorer().explore()
        #expect(report.holds, "\(report)")
        #expect(report.isExhaustive, "\(report)")
        #expect(report.stateCount > 1)
    }

    @Test(
        "a broken recipe is detected, and its mistake reported",
        arguments: TestDepth.sample(recipes.filter { $0.holdsUnder != nil }, every: 11))
    func brokenRecipe(_ recipe: Recipe) async throws {
        let report = try await recipe.explorer().explore()
        #expect(!report.holds, "\(report)")
        #expect((report.weakestSufficientProfile?.name ?? Recipe.never) == recipe.holdsUnder, "\(report)")
        let id = try #require(report.violations.first?.id)
        await #expect(throws: (any Error).self) { try await recipe.explorer().replay(id) }
    }

    @Test("there are thirty broken recipes and five correct ones")
    func enoughRecipes() {
        #expect(recipes.count { $0.holdsUnder != nil } >= 30)
        #expect(recipes.count { $0.holdsUnder == nil } >= 5)
    }
}

@Suite("A flush that fails once")
struct FailedFlushTests {
    /// Replaces a file, and repeats a flush that fails: the second flush does not cover the data of the first.
    private static func replace(_ fileSystem: any POSIXFileSystem) throws {
        let file = try fileSystem.open("/new", .writeOnly, options: [.create])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(letters("n", 100), to: file)
            do { try fileSystem.synchronize(file, .full) } catch { try fileSystem.synchronize(file, .full) }
        }
        try fileSystem.rename("/new", to: "/f")
        let root = try fileSystem.open("/")
        try fileSystem.closing(root) { () throws(FileSystemError) in try fileSystem.synchronize(root, .full) }
    }

    private static func prepare(_ fileSystem: InMemoryFileSystem) throws { try fileSystem.put("/f", letters("o", 50)) }

    @Test("and is repeated is found neither by the loop nor by the explorer, but by both together")
    func repeated() async throws {
        #expect(try Self.loop().conditionRunCount == 2)
        try await forEachCrash(prepare: { try Self.prepare($0) }) { fileSystem, run in
            try Self.replace(fileSystem)
            run.acknowledge("new")
        } recover: { fileSystem, crash in
            try Self.verify(fileSystem, crash)
        }
        let failure = await #expect(throws: CrashFailure.self) {
            try await forEachCrash(prepare: { try Self.prepare($0) }) { fileSystem, run in
                let plan = FaultPlan([.on(.synchronize, call: 1, do: .failSynchronization())])
                try Self.replace(FaultingFileSystem(fileSystem, plan: plan))
                run.acknowledge("new")
            } recover: { fileSystem, crash in
                try Self.verify(fileSystem, crash)
            }
        }
        let losses = failure?.report.violations.flatMap(\.losses) ?? []
        #expect(losses.contains { $0.contains("write 100 bytes at 0 to /new") || $0.contains("to /f") }, "\(losses)")
        let log = failure?.report.violations.first?.log ?? []
        #expect(log.contains { $0.hasSuffix("synchronize /new (.full), which fails") }, "\(log)")
    }

    /// The loop alone, which finds nothing.
    private static func loop() throws -> FailingCallReport {
        try forEachFailingCall(errnos: [], conditions: [.failedFlush]) {
            let fileSystem = InMemoryFileSystem()
            try prepare(fileSystem)
            return fileSystem
        } _: { fileSystem in
            try replace(fileSystem)
        } verify: { fileSystem, error in
            let content = try fileSystem.readFile("/f")
            try expectOldOrNew(content, old: letters("o", 50), new: letters("n", 100), after: error)
        }
    }

    private static func verify(_ fileSystem: InMemoryFileSystem, _ crash: Crash<String>) throws {
        let content = try fileSystem.content("/f")
        try demand(content == letters("o", 50) || content == letters("n", 100), "neither old nor new")
        if crash.acknowledged == ["new"] { try demand(content == letters("n", 100), "the new content is lost") }
    }
}
