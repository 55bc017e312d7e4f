package import ForgeFileSystem

/// A store that programs of ``StoreCall``s are run on, with what it promises to hold after a crash.
package protocol StoreUnderCrash {
    static var vocabulary: StoreVocabulary { get }

    /// Whether a power cut after this call returned takes nothing away, neither of it nor of the calls before.
    static func isDurable(_ call: StoreCall) -> Bool

    /// Whether a crash in the middle of `removeAll` leaves everything or nothing.
    static var removesAllAtOnce: Bool { get }

    init(on fileSystem: InMemoryFileSystem) throws

    /// Performs one call. To remove what is not there is no error, nor to create what is.
    nonisolated(nonsending) func perform(_ call: StoreCall) async throws

    /// Everything in the store.
    nonisolated(nonsending) func contents() async throws -> [String: StoreValue]

    /// Throws if the store took what a crash left for damage.
    func requireUndamaged() throws
}

extension StoreUnderCrash {
    package func requireUndamaged() {}

    /// A value that is written after each recovery, and that may be there after the next crash or not.
    private static var probe: (name: String, value: StoreValue) { ("probe", StoreValue("p", count: 40)) }

    /// Opens the store that a crash left: it has to open, hold what it promised and nothing else, take a write, and leave
    /// none of its temporary files.
    nonisolated(nonsending) package static func recover(
        _ fileSystem: InMemoryFileSystem, _ crash: Crash<StoreCall>
    ) async throws {
        let store = try Self(on: fileSystem)
        var found = try await store.contents()
        if let old = found.removeValue(forKey: probe.name), old != probe.value || crash.depth == 1 {
            throw ConformanceViolation("holds \(probe.name): \(old), which nobody wrote")
        }
        try check(found, after: crash)
        try store.requireUndamaged()
        try await store.perform(.set(probe.name, probe.value))
        found[probe.name] = probe.value
        let later = try await store.contents()
        guard later == found else {
            throw ConformanceViolation("holds \(later) instead of \(found) after a write that followed the recovery")
        }
        let leftovers = try fileSystem.leftovers()
        guard leftovers.isEmpty else { throw ConformanceViolation("leftovers: \(leftovers)") }
    }

    /// All that was durable must be there, and then any number of the calls that followed, in order.
    package static func check(
        _ found: [String: StoreValue], after crash: Crash<StoreCall>
    ) throws(ConformanceViolation) {
        let durableCount = crash.acknowledged.lastIndex(where: isDurable).map { $0 + 1 } ?? 0
        var contents: [String: StoreValue] = [:]
        if durableCount == 0, found.isEmpty { return }
        for (place, call) in crash.begun.enumerated() {
            if call == .removeAll, place >= crash.acknowledged.count, !removesAllAtOnce,
                found.allSatisfy({ contents[$0.key] == $0.value })
            {
                return
            }
            call.apply(to: &contents)
            if place + 1 >= durableCount, found == contents { return }
        }
        throw ConformanceViolation(
            "holds \(found) after \(crash.begun), of which \(durableCount) were durable")
    }
}

/// Crashes a program of calls on one kind of store and holds each recovery to what that store promises.
///
/// - Throws: ``CrashFailure``, or what the program itself throws.
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

/// The store that a program uses now.
private final class OpenStore<Store: StoreUnderCrash> {
    private var store: Store?
    private let fileSystem: InMemoryFileSystem

    init(_ store: Store, _ fileSystem: InMemoryFileSystem) {
        self.store = store
        self.fileSystem = fileSystem
    }

    nonisolated(nonsending) func perform(_ call: StoreCall) async throws {
        if call == .reopen {
            store = nil
            store = try Store(on: fileSystem)
        } else {
            try await store?.perform(call)
        }
    }
}
