import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
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
