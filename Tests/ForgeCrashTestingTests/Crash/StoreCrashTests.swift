import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import StoreCrashes
import TestDepth
import Testing

@Suite("Stores under crashes")
struct StoreCrashTests {
    /// A default run uses the first and the fifth, which compact and write batches; two processes use the first.
    private static let programs: [[StoreCall]] = [
        [
            .batch([StoreChange("a", StoreValue("1", count: 1300)), StoreChange("b", StoreValue("2", count: 40))]),
            .compact, .batch([StoreChange("a", nil), StoreChange("a", StoreValue("3", count: 40))]), .reopen,
        ],
        [.set("a", "1"), .synchronize, .set("a", "2"), .set("b", "3"), .synchronize],
        [.set("a", "1"), .set("b", "2"), .synchronize, .remove("a"), .synchronize, .set("c", "3")],
        [.set("a", "1"), .synchronize, .removeAll, .synchronize, .set("b", "2"), .synchronize],
        [
            .set("a", "1"), .synchronize,
            .batch([StoreChange("a", StoreValue("2", count: 700)), StoreChange("b", StoreValue("3", count: 700))]),
            .batch([StoreChange("b", nil), StoreChange("c", StoreValue("4", count: 40))]), .synchronize,
        ],
        [
            .set("a", "1", count: 3000), .synchronize, .set("a", "2", count: 3000), .set("b", "3", count: 700),
            .synchronize,
        ],
        [
            .set("a", "1", count: 900), .set("a", "2", count: 900), .set("a", "3", count: 900), .synchronize,
            .set("b", "4"),
        ],
        [.set("a", "1"), .set("a", "2", count: 1300), .compact, .set("b", "3"), .reopen, .set("c", "4")],
    ]

    /// A default run uses every other one: they replace and remove a file, everything, and directories.
    private static let filePrograms: [[StoreCall]] = [
        [.set("a", "1"), .set("a", "2", count: 5000), .remove("a")],
        [.set("x/y", "1"), .set("x/z", "2"), .removeTree("x"), .set("x/y", "3")],
        [.create("a", StoreValue("1", count: 40)), .create("a", StoreValue("2", count: 40)), .removeAll],
        [.set("x/y", "1"), .set("x/w/v", "2"), .set("z/y", "3"), .set("a", "4"), .removeAll],
        [.set("x/y", "1"), .set("x/w/v", "2"), .removeTree("x/w"), .removeTree("x"), .reopen, .set("x/y", "3")],
    ]

    /// The maximum number of states visited per program on file stores.
    private let limit = TestDepth.limit(8, deep: 5000)

    /// The number of crashes in a row: with 2, recoveries crash too. In a default run only those of other stores do:
    /// images and storages are directories like a store of files, and a shared store has the log of an exclusive one.
    private let depthOfRelatives = TestDepth.limit(1, deep: 2)

    /// The same for a program: in a default run the recoveries of short ones crash too.
    private func depth(of calls: [StoreCall]) -> Int { calls.count > 4 ? depthOfRelatives : 2 }

    @Test(
        "a store of values by name loses nothing that was flushed, and never mixes",
        arguments: TestDepth.sample(programs, every: 4))
    func values(_ calls: [StoreCall]) async throws {
        let report = try await forEachCrash(
            of: calls, in: KeyValueUnderCrash.self, limit: TestDepth.limit(10, deep: 1000), depth: depth(of: calls))
        #expect(report.stateCount > 20)
    }

    @Test(
        "a store that two processes share loses nothing that was flushed, and both see the same",
        arguments: TestDepth.sample(programs, every: 8))
    func sharedValues(_ calls: [StoreCall]) async throws {
        let report = try await forEachCrash(
            of: calls, in: SharedKeyValueUnderCrash.self, limit: TestDepth.limit(10, deep: 500), depth: depthOfRelatives
        )
        #expect(report.stateCount > 20)
    }

    @Test(
        "a store of files loses nothing that was acknowledged, and never mixes",
        arguments: TestDepth.sample(filePrograms, every: 2))
    func files(_ calls: [StoreCall]) async throws {
        let report = try await forEachCrash(of: calls, in: FilesUnderCrash.self, limit: limit, depth: depth(of: calls))
        #expect((report.isExhaustive || !TestDepth.isDeep) && report.stateCount > 20)
    }

    @Test("an interrupted removal of everything may be partly undone by a later power cut")
    func interruptedRemoval() async throws {
        let calls: [StoreCall] = [.set("a", "1"), .set("b", "2"), .removeAll]
        let report = try await forEachCrash(
            of: calls, in: StorageUnderCrash.self, limit: TestDepth.limit(120, deep: 3000))
        #expect(report.stateCountAfterKills > 0)
    }

    @Test("an interrupted removal of everything leaves all or nothing of a directory")
    func interruptedRemovalOfDirectories() async throws {
        let calls: [StoreCall] = [.set("x/y", "1"), .set("x/z", "2"), .removeAll]
        let report = try await forEachCrash(
            of: calls, in: FilesUnderCrash.self, limit: TestDepth.limit(300, deep: 5000), depth: 1)
        #expect(report.stateCount > 100)
    }

    @Test("a vault and its key lose no secret that was acknowledged, and can always be opened")
    func secrets() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .set("b", "2"), .set("a", "3"), .remove("b"), .removeAll, .set("c", "4"),
        ]
        let begun = Array(calls.prefix(TestDepth.limit(4, deep: 6)))
        let report = try await forEachCrash(of: begun, in: SecretsUnderCrash.self, limit: limit)
        #expect((report.isExhaustive || !TestDepth.isDeep) && report.stateCount > 20)
    }

    @Test("a storage loses nothing that was acknowledged, and never mixes")
    func storage() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .set("users/1", "2"), .set("a", "3", count: 5000), .remove("users/1"), .removeAll,
        ]
        let report = try await forEachCrash(
            of: calls, in: StorageUnderCrash.self, limit: limit, depth: depthOfRelatives)
        #expect((report.isExhaustive || !TestDepth.isDeep) && report.stateCount > 20)
    }

    @Test("a cache of images loses none that was acknowledged, and never mixes")
    func images() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .set("a", "2", count: 5000), .remove("a"), .set("b", "3"), .removeAll,
        ]
        let report = try await forEachCrash(of: calls, in: ImagesUnderCrash.self, limit: limit, depth: depthOfRelatives)
        #expect((report.isExhaustive || !TestDepth.isDeep) && report.stateCount > 20)
    }

    @Test(
        "no store breaks a promise under random programs",
        arguments: TestDepth.seeds([1, 2], random: 4))
    func random(_ seed: UInt64) async throws {
        func crash<Store: StoreUnderCrash>(_ store: Store.Type) async throws {
            let program = Array(store.vocabulary.program(seed: seed).prefix(TestDepth.limit(3, deep: 10)))
            try await forEachCrash(
                of: program, in: store, limit: TestDepth.limit(6, deep: 300), seed: seed,
                depth: TestDepth.limit(1, deep: 2))
        }
        try await crash(KeyValueUnderCrash.self)
        try await crash(SharedKeyValueUnderCrash.self)
        try await crash(FilesUnderCrash.self)
        try await crash(SecretsUnderCrash.self)
        try await crash(StorageUnderCrash.self)
        try await crash(ImagesUnderCrash.self)
    }
}

/// Stores that break a promise, to test the checks above.
@Suite("Stores that lose data in crashes")
struct BrokenStoreCrashTests {
    @Test("the explorer detects a store that does not flush")
    func lostWrites() async throws {
        let calls: [StoreCall] = [.set("a", "1"), .remove("a")]
        let failure = await #expect(throws: CrashFailure.self) {
            try await forEachCrash(
                of: calls, in: UnflushedFiles.self, limit: TestDepth.limit(100, deep: 1000), depth: 1)
        }
        #expect(failure?.report.weakestSufficientProfile?.name == "processKill")
        #expect(failure?.report.shrunkOperations?.count == 1)
    }

    @Test("the explorer detects a store that does not synchronize")
    func lostFlush() async throws {
        let failure = await #expect(throws: CrashFailure.self) {
            let calls: [StoreCall] = [.set("a", "1"), .set("b", "2"), .synchronize]
            try await forEachCrash(
                of: calls, in: UnsynchronizedValues.self, limit: TestDepth.limit(200, deep: 1000), depth: 1)
        }
        #expect(failure?.report.shrunkOperations?.last == "synchronize")
    }

    @Test("the explorer detects a store that divides a batch")
    func halfBatches() async throws {
        let calls: [StoreCall] = [
            .set("a", "1"), .synchronize,
            .batch([StoreChange("a", StoreValue("2", count: 40)), StoreChange("b", StoreValue("3", count: 40))]),
        ]
        await #expect(throws: CrashFailure.self) {
            try await forEachCrash(of: calls, in: DividedBatches.self, limit: TestDepth.limit(50, deep: 1000), depth: 1)
        }
    }

    @Test("the explorer detects a store that restores removed values")
    func phantoms() async throws {
        await #expect(throws: CrashFailure.self) {
            try await forEachCrash(of: [.set("a", "1"), .remove("a")], in: UndyingFiles.self, limit: 1000, depth: 1)
        }
    }

    @Test("the explorer detects a store that removes directories file by file")
    func dividedDirectories() async throws {
        let calls: [StoreCall] = [.set("x/y", "1"), .set("x/z", "2"), .removeAll]
        await #expect(throws: CrashFailure.self) {
            try await forEachCrash(
                of: calls, in: DividedDirectories.self, limit: TestDepth.limit(30, deep: 1000), depth: 1)
        }
    }

    @Test("values of two letters are reported as torn")
    func torn() throws {
        #expect(try StoreValue(Array("aaa".utf8), named: "x") == StoreValue("a", count: 3))
        #expect(try StoreValue([], named: "x") == StoreValue("b", count: 0))
        #expect(throws: ConformanceViolation.self) { try StoreValue(Array("aab".utf8), named: "x") }
        #expect("\(StoreValue("a", count: 3)), \(StoreValue("a", count: 0))" == "3 × a, nothing")
    }

    @Test("programs are determined by their seed and use every call of the vocabulary")
    func programs() {
        let vocabulary = FilesUnderCrash.vocabulary
        #expect(vocabulary.program(seed: 7) == vocabulary.program(seed: 7))
        let words = Set((0..<200).flatMap { vocabulary.program(seed: $0) }.map { "\($0)".prefix(8) })
        #expect(words.isSuperset(of: ["set a to", "create a", "remove a", "remove t", "remove a", "reopen"]))
    }
}

/// Files written without durability.
private struct UnflushedFiles: StoreUnderCrash {
    static let vocabulary = FilesUnderCrash.vocabulary
    static let removesAllAtOnce = false
    private let files: FilesUnderCrash

    init(on fileSystem: InMemoryFileSystem) { files = FilesUnderCrash(on: fileSystem, durability: .none) }

    static func isDurable(_ call: StoreCall) -> Bool { true }
    nonisolated(nonsending) func perform(_ call: StoreCall) async throws { try await files.perform(call) }
    nonisolated(nonsending) func contents() async throws -> [String: StoreValue] { try await files.contents() }
}

/// Values whose `synchronize` does nothing.
private struct UnsynchronizedValues: StoreUnderCrash {
    static let vocabulary = KeyValueUnderCrash.vocabulary
    static let removesAllAtOnce = true
    private let values: KeyValueUnderCrash

    init(on fileSystem: InMemoryFileSystem) throws { values = try KeyValueUnderCrash(on: fileSystem) }

    static func isDurable(_ call: StoreCall) -> Bool { KeyValueUnderCrash.isDurable(call) }
    func perform(_ call: StoreCall) throws { if call != .synchronize { try values.perform(call) } }
    func contents() throws -> [String: StoreValue] { try values.contents() }
}

/// Values whose batches are split into single calls.
private struct DividedBatches: StoreUnderCrash {
    static let vocabulary = KeyValueUnderCrash.vocabulary
    static let removesAllAtOnce = true
    private let values: KeyValueUnderCrash

    init(on fileSystem: InMemoryFileSystem) throws { values = try KeyValueUnderCrash(on: fileSystem) }

    static func isDurable(_ call: StoreCall) -> Bool { KeyValueUnderCrash.isDurable(call) }
    func perform(_ call: StoreCall) throws {
        guard case .batch(let changes) = call else { return try values.perform(call) }
        for change in changes { try values.perform(change.call) }
    }
    func contents() throws -> [String: StoreValue] { try values.contents() }
}

/// Files whose `remove` has no effect.
private struct UndyingFiles: StoreUnderCrash {
    static let vocabulary = FilesUnderCrash.vocabulary
    static let removesAllAtOnce = false
    private let files: FilesUnderCrash

    init(on fileSystem: InMemoryFileSystem) { files = FilesUnderCrash(on: fileSystem) }

    static func isDurable(_ call: StoreCall) -> Bool { true }
    nonisolated(nonsending) func perform(_ call: StoreCall) async throws {
        if case .remove = call { return }
        try await files.perform(call)
    }
    nonisolated(nonsending) func contents() async throws -> [String: StoreValue] { try await files.contents() }
}

/// Files whose `removeAll` removes them one by one.
private struct DividedDirectories: StoreUnderCrash {
    static let vocabulary = FilesUnderCrash.vocabulary
    static let removesAllAtOnce = false
    static let removesDirectoriesAtOnce = true
    private let files: FilesUnderCrash

    init(on fileSystem: InMemoryFileSystem) { files = FilesUnderCrash(on: fileSystem) }

    static func isDurable(_ call: StoreCall) -> Bool { true }
    nonisolated(nonsending) func perform(_ call: StoreCall) async throws {
        guard call == .removeAll else { return try await files.perform(call) }
        for name in try await contents().keys.sorted() { try await files.perform(.remove(name)) }
    }
    nonisolated(nonsending) func contents() async throws -> [String: StoreValue] { try await files.contents() }
}
