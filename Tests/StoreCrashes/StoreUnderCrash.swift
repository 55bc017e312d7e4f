package import ForgeCrashTesting
package import ForgeFileSystem
import ForgeStorageTesting

/// A store on which programs of ``StoreCall``s are run, with its promises about crashes.
package protocol StoreUnderCrash {
    static var vocabulary: StoreVocabulary { get }

    /// Whether a power cut after this call returned preserves it and all earlier calls.
    static func isDurable(_ call: StoreCall) -> Bool

    /// Whether a crash during `removeAll` leaves everything or nothing.
    static var removesAllAtOnce: Bool { get }

    /// Whether a crash during `removeAll` leaves everything or nothing of each directory of the root; not by default.
    static var removesDirectoriesAtOnce: Bool { get }

    init(on fileSystem: InMemoryFileSystem) throws

    /// Performs one call. Removing a missing value succeeds, and so does creating an existing one.
    nonisolated(nonsending) func perform(_ call: StoreCall) async throws

    /// The whole content of the store.
    nonisolated(nonsending) func contents() async throws -> [String: StoreValue]

    /// Throws if the store reported the state after a crash as damage.
    func requireUndamaged() throws
}

extension StoreUnderCrash {
    package static var removesDirectoriesAtOnce: Bool { false }

    package func requireUndamaged() {}

    /// Opens the store after a crash: it must open, have the promised content and nothing else, continue to work, and,
    /// after a kill, leave none of its temporary files.
    nonisolated(nonsending) package static func recover(
        _ fileSystem: InMemoryFileSystem, _ crash: Crash<StoreCall>
    ) async throws {
        let store = OpenStore(try Self(on: fileSystem), fileSystem)
        var contents = try await store.current.contents()
        let possible = PossibleContents(after: crash, in: Self.self)
        guard possible.allow(contents) else {
            throw ConformanceViolation(
                "holds \(contents) after \(crash.begun), of which \(crash.acknowledged.count) were acknowledged")
        }
        try store.current.requireUndamaged()
        let recovered = StoreCall.recovered(possible.recovered(contents, after: crash))
        crash.begin(recovered)
        crash.acknowledge(recovered)
        for call in continuation(after: crash) {
            crash.begin(call)
            try await store.perform(call)
            crash.acknowledge(call)
            call.apply(to: &contents)
        }
        let later = try await store.current.contents()
        guard later == contents else {
            throw ConformanceViolation("holds \(later) instead of \(contents) after calls that followed the recovery")
        }
        // A power cut may lose the record of a temporary name and leave the file, which is then kept.
        guard crash.kind == .processKill, crash.depth == 1 else { return }
        let leftovers = try fileSystem.leftovers()
        guard leftovers.isEmpty else { throw ConformanceViolation("leftovers: \(leftovers)") }
    }

    /// The calls of a program after a crash: the interrupted call, two others, and a durable write. After the last
    /// crash a write is sufficient.
    private static func continuation(after crash: Crash<StoreCall>) -> [StoreCall] {
        let probe = StoreCall.set("probe", "p")
        guard crash.depth == 1 else { return [probe] }
        var calls = Array(crash.begun.dropFirst(crash.acknowledged.count))
        calls += vocabulary.continuation(seed: UInt64(crash.effectCount))
        calls.append(probe)
        if !isDurable(probe) { calls.append(.synchronize) }
        return calls
    }
}

/// Crashes a program of calls on one kind of store and checks each recovery against the store's promises.
///
/// - Throws: ``CrashFailure``, or the error of the program itself.
@discardableResult
nonisolated(nonsending) package func forEachCrash<Store: StoreUnderCrash>(
    of calls: [StoreCall], in _: Store.Type, limit: Int, seed: UInt64 = 0, depth: Int = 2
) async throws -> CrashReport {
    try await forEachCrash(of: calls, limit: limit, seed: seed, depth: depth) { fileSystem in
        OpenStore(try Store(on: fileSystem), fileSystem)
    } perform: { call, store in
        try await store.perform(call)
    } recover: { fileSystem, crash in
        try await Store.recover(fileSystem, crash)
    }
}

/// The open store of a program.
private final class OpenStore<Store: StoreUnderCrash> {
    private var store: Store?
    private let fileSystem: InMemoryFileSystem

    init(_ store: Store, _ fileSystem: InMemoryFileSystem) {
        self.store = store
        self.fileSystem = fileSystem
    }

    /// Reopened if opening it failed before.
    var current: Store {
        get throws {
            if let store { return store }
            let opened = try Store(on: fileSystem)
            store = opened
            return opened
        }
    }

    nonisolated(nonsending) func perform(_ call: StoreCall) async throws {
        guard call == .reopen else { return try await current.perform(call) }
        store = nil
        _ = try current
    }
}
