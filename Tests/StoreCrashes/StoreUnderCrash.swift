package import ForgeCrashTesting
package import ForgeFileSystem
package import ForgeStorageTesting

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

/// A call on a store of named values, in a program that is crashed.
package enum StoreCall: Hashable, Sendable {
    case set(String, StoreValue)
    /// A set that fails if there is a value.
    case create(String, StoreValue)
    case remove(String)
    /// Removes every value whose name begins with this and a slash.
    case removeTree(String)
    case removeAll
    /// Sets and removals (without a value) made atomically.
    case batch([StoreChange])
    /// For a store whose single writes are not durable.
    case synchronize
    case compact
    /// Releases the store and opens another one at the same path.
    case reopen
    /// Not a call: marks that the store was opened after a crash, with the found content.
    case recovered(RecoveredContents)

    package static func set(_ name: String, _ letter: Character, count: Int = 40) -> StoreCall {
        .set(name, StoreValue(letter, count: count))
    }

    /// The content of a store after this call.
    package func apply(to contents: inout [String: StoreValue]) {
        switch self {
        case .set(let name, let value): contents[name] = value
        case .create(let name, let value): if contents[name] == nil { contents[name] = value }
        case .remove(let name): contents[name] = nil
        case .removeTree(let name): contents = contents.filter { !$0.key.hasPrefix(name + "/") }
        case .removeAll: contents = [:]
        case .batch(let changes): for change in changes { contents[change.name] = change.value }
        case .synchronize, .compact, .reopen, .recovered: break
        }
    }
}

extension StoreCall: CustomStringConvertible {
    package var description: String {
        switch self {
        case .set(let name, let value): "set \(name) to \(value)"
        case .create(let name, let value): "create \(name) as \(value)"
        case .remove(let name): "remove \(name)"
        case .removeTree(let name): "remove the tree \(name)"
        case .removeAll: "remove all"
        case .batch(let changes): "batch of " + changes.map(\.description).joined(separator: ", ")
        case .synchronize: "synchronize"
        case .compact: "compact"
        case .reopen: "reopen"
        case .recovered(let recovered): "crash \(recovered.depth)"
        }
    }
}

/// A change in a batch.
package struct StoreChange: Hashable, Sendable, CustomStringConvertible {
    package let name: String

    /// The new value; nil for a removal.
    package let value: StoreValue?

    package init(_ name: String, _ value: StoreValue?) {
        self.name = name
        self.value = value
    }

    /// The call that makes this change individually.
    package var call: StoreCall { value.map { .set(name, $0) } ?? .remove(name) }

    package var description: String { call.description }
}

/// A repeated ASCII letter, so that torn, truncated or mixed values are invalid.
package struct StoreValue: Hashable, Sendable {
    package let letter: UInt8
    package let count: Int

    package init(_ letter: Character, count: Int) {
        self.init(letter: letter.asciiValue ?? 0x3F, count: count)
    }

    package init(letter: UInt8, count: Int) {
        self.letter = count > 0 ? letter : 0
        self.count = count
    }

    /// Parses a value.
    ///
    /// - Throws: ``ConformanceViolation`` for bytes that no call has stored.
    package init(_ bytes: some Collection<UInt8>, named name: String) throws(ConformanceViolation) {
        let bytes = [UInt8](bytes)
        let letter = bytes.first ?? 0
        // A loop over a pointer: debug builds do not inline iterators.
        let equalCount = bytes.withUnsafeBufferPointer { bytes in
            var index = 0
            while index < bytes.count, bytes[index] == letter { index &+= 1 }
            return index
        }
        guard equalCount == bytes.count else {
            throw ConformanceViolation("\(name) holds \(bytes.count) bytes of different values")
        }
        self.init(letter: letter, count: bytes.count)
    }

    package var bytes: [UInt8] { Array(repeating: letter, count: count) }
    package var text: String { String(decoding: bytes, as: UTF8.self) }
}

extension StoreValue: CustomStringConvertible {
    package var description: String { count > 0 ? "\(count) × \(Character(Unicode.Scalar(letter)))" : "nothing" }
}

/// The calls of one kind of store, from which programs are generated.
package struct StoreVocabulary: Sendable {
    /// The names of values.
    package var names: [String]

    /// The names of directories of values.
    package var trees: [String] = []

    /// Whether a value can be created exclusively.
    package var creates = false

    /// Whether several values can be changed atomically.
    package var batches = false

    /// All other calls.
    package var others: [StoreCall]

    private static let sizes = [0, 1, 40, 40, 40, 511, 700, 1300, 1300, 4096, 5000, 9000]

    /// A program of 3 to 10 calls determined by the seed. Each value has a distinct letter.
    package func program(seed: UInt64) -> [StoreCall] {
        var generator = SplitMix64(seed: seed)
        let length = Int.random(in: 3...10, using: &generator)
        return (0..<length).map { call(letter: 0x61 + UInt8($0), using: &generator) }
    }

    /// Two calls determined by the seed, with letters that programs do not use.
    func continuation(seed: UInt64) -> [StoreCall] {
        var generator = SplitMix64(seed: seed)
        return (0..<2).map { call(letter: 0x6B + UInt8($0), using: &generator) }
    }

    private func call(letter: UInt8, using generator: inout SplitMix64) -> StoreCall {
        func any<Element>(of elements: [Element], or fallback: Element) -> Element {
            elements.randomElement(using: &generator) ?? fallback
        }
        let name = any(of: names, or: "a")
        let value = StoreValue(letter: letter, count: any(of: Self.sizes, or: 0))
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<10 where creates: return .create(name, value)
        case 10..<25 where batches: return .batch(changes(letter: letter, using: &generator))
        case 0..<55: return .set(name, value)
        case 55..<70: return .remove(name)
        case 70..<80 where !trees.isEmpty: return .removeTree(any(of: trees, or: name))
        default: return any(of: others, or: .reopen)
        }
    }

    private func changes(letter: UInt8, using generator: inout SplitMix64) -> [StoreChange] {
        (0..<Int.random(in: 1...4, using: &generator)).map { index in
            let name = names.randomElement(using: &generator) ?? "a"
            guard Int.random(in: 0..<4, using: &generator) > 0 else { return StoreChange(name, nil) }
            // A distinct letter for each value, so that no two batches can be confused.
            let count = Self.sizes.randomElement(using: &generator) ?? 0
            return StoreChange(name, StoreValue(letter: letter - UInt8(0x10 * index), count: count))
        }
    }
}

/// The content of a store that was opened after a crash, as a mark between calls.
package struct RecoveredContents: Hashable, Sendable {
    /// The depth of the crash.
    let depth: Int
    /// The contents that a later power cut may leave if no durable call follows; the found content is the last.
    let mayHold: [[String: StoreValue]]
    /// The contents that interrupted calls of `removeAll` began to remove; a later power cut may leave any part of
    /// them.
    var mayHoldPartOf: [[String: StoreValue]] = []
}

/// The possible contents of a store after a crash: all durable calls, then any number of the following calls, in order.
/// After a kill, all acknowledged calls.
package struct PossibleContents {
    /// The possible contents of the store.
    private var candidates: [[String: StoreValue]] = []
    /// The contents that a power cut may leave instead of `candidates`; more only after a kill.
    private var afterPowerCut: [[String: StoreValue]] = []
    private var partOf: [[String: StoreValue]] = []
    /// Whether a part has all values of a directory of the root or none.
    private let partsHaveWholeDirectories: Bool

    package init<Store: StoreUnderCrash>(after crash: Crash<StoreCall>, in _: Store.Type) {
        partsHaveWholeDirectories = Store.removesDirectoriesAtOnce
        let (base, begun) = Self.lastRun(crash.begun)
        let (acknowledgedBase, calls) = Self.lastRun(crash.acknowledged)
        let acknowledged = acknowledgedBase == base ? calls : []
        let durableCount = acknowledged.lastIndex(where: Store.isDurable).map { $0 + 1 } ?? 0
        let requiredCount = crash.kind == .processKill ? acknowledged.count : durableCount
        let start = base?.mayHold ?? [[:]]
        var contents = start.last ?? [:]
        if durableCount == 0 {
            afterPowerCut = start
            partOf = base?.mayHoldPartOf ?? []
        }
        if requiredCount == 0 { candidates = crash.kind == .processKill ? [contents] : start }
        for (place, call) in begun.enumerated() {
            if call == .removeAll, place >= acknowledged.count, !Store.removesAllAtOnce { partOf.append(contents) }
            call.apply(to: &contents)
            if place + 1 >= requiredCount { candidates.append(contents) }
            if place + 1 >= durableCount { afterPowerCut.append(contents) }
        }
    }

    /// The state at the start of the last run, and the calls of that run.
    private static func lastRun(_ calls: [StoreCall]) -> (RecoveredContents?, [StoreCall]) {
        for (place, call) in calls.enumerated().reversed() {
            if case .recovered(let recovered) = call { return (recovered, Array(calls[(place + 1)...])) }
        }
        return (nil, calls)
    }

    package func allow(_ found: [String: StoreValue]) -> Bool {
        candidates.contains(found) || partOf.contains { isPart(found, of: $0) }
    }

    private func isPart(_ found: [String: StoreValue], of contents: [String: StoreValue]) -> Bool {
        guard found.allSatisfy({ contents[$0.key] == $0.value }) else { return false }
        guard partsHaveWholeDirectories else { return true }
        func directory(_ name: String) -> Substring { name.prefix { $0 != "/" } }
        let kept = Set(found.keys.map(directory))
        return contents.keys.allSatisfy { found[$0] != nil || !kept.contains(directory($0)) }
    }

    /// The mark that records the found content.
    func recovered(_ found: [String: StoreValue], after crash: Crash<StoreCall>) -> RecoveredContents {
        guard crash.kind == .processKill else { return RecoveredContents(depth: crash.depth, mayHold: [found]) }
        // Contents after the found one are impossible.
        let end = afterPowerCut.lastIndex(of: found) ?? afterPowerCut.endIndex
        return RecoveredContents(
            depth: crash.depth, mayHold: afterPowerCut[..<end] + [found], mayHoldPartOf: partOf)
    }
}
