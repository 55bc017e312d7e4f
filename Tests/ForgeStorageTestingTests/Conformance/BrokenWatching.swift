import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import Testing

/// The defects of ``BrokenWatching``, by the check that must find them.
enum WatchingDefect: String, CaseIterable {
    case missesConditionalSaves = "every kind of save is reported under its key"
    case missesRemovals = "the removal of a file is reported"
    case showsWriters = "a written file is reported when it is committed, and no temporary file ever"
    case isShallow = "the files of a new directory are reported, on all levels"
    case missesDirectories = "the removal of a directory is reported once, as the removal of everything in it"
    case missesTopLevelRemovals = "deleteAll is reported"
    case ignoresScope = "only changes in the given directory are reported, whenever it is created"
    case watchesTheDirectory = "the changes of a single file are reported, and no others"
    case startsLate = "the first change is resync, and covers what happened before"
    case needsTheRoot = "the changes of a store without files begin at once, and its first file is one"
    case keepsEverything = "the changes that a slow consumer does not take become one resync"
    case missesEveryTenth = "applied to a listing, the changes give the present listing"
    case sharesChanges = "every iteration has all changes"
    case hasAnExtraChange = "a cancelled iteration ends"
    case watchesInvalidKeys = "a directory whose key is invalid cannot be watched"
    case repeatsErrors, deliversLate, missesRecreated

    /// The description of the check that must find the defect.
    var check: String {
        switch self {
        case .repeatsErrors: Self.watchesInvalidKeys.rawValue
        case .deliversLate: Self.hasAnExtraChange.rawValue
        case .missesRecreated: Self.missesEveryTenth.rawValue
        default: rawValue
        }
    }
}

/// A file store in memory whose changes have one defect, to test that the corresponding check fails.
final class BrokenWatching: StreamingFileStoreWrapper {
    let defect: WatchingDefect?
    let base = InMemoryFileStore()
    private let started = Mutex(false)

    init(_ defect: WatchingDefect?) { self.defect = defect }

    func changes(in directory: String) -> FileChanges {
        switch defect {
        case .ignoresScope: return base.changes()
        case .watchesTheDirectory where directory == "d/f": return base.changes(in: "d")
        case .watchesInvalidKeys where directory.contains(".."): return base.changes()
        case .repeatsErrors where directory.contains(".."):
            return FileChanges { { throw FileStoreError(.invalidKey(.dotComponent), .watch, key: directory) } }
        default: break
        }
        let all = base.changes(in: directory)
        return FileChanges { [self] in
            var iterator = all.makeAsyncIterator()
            var count = 0
            var kept: [FileChange] = []
            let isSecond = started.withLock { isStarted in
                defer { isStarted = true }
                return isStarted
            }
            return { [self] in
                while true {
                    count += 1
                    switch defect {
                    case .startsLate where count == 1: return .changed("f")
                    case .needsTheRoot where count == 2: return nil
                    case .sharesChanges where isSecond && count == 2: return .resync
                    case .hasAnExtraChange where count == 2:
                        _ = try await iterator.next()
                        return .resync
                    case .deliversLate where count == 3: return .changed("late")
                    case .keepsEverything:
                        if kept.isEmpty, count == 1 { break }
                        if kept.isEmpty { kept = try await base.list(recursive: true).map { .changed($0.key) } }
                        return kept.removeFirst()
                    default: break
                    }
                    guard let change = try await iterator.next() else { return nil }
                    if !isDropped(change, count) { return change }
                }
            }
        }
    }

    private func isDropped(_ change: FileChange, _ count: Int) -> Bool {
        switch (defect, change) {
        case (.missesConditionalSaves, .changed("conditional")), (.missesRemovals, .removed),
            (.showsWriters, .changed("f")), (.missesDirectories, .removed("d")),
            (.missesRecreated, .changed("again")):
            true
        case (.missesTopLevelRemovals, .removed(let key)): !key.contains("/")
        case (.isShallow, .changed(let key)): key.contains("c/")
        case (.missesEveryTenth, .changed(let key)): !key.hasPrefix("marker") && count.isMultiple(of: 10)
        default: false
        }
    }
}

@Suite("Every check of the changes of a file store detects its defect")
struct WatchingDefectTests {
    private static let checks = ConformanceChecks.fileWatching

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<any StreamingFileStoring>) async throws {
        try await check.run(on: BrokenWatching(nil))
    }

    @Test(arguments: WatchingDefect.allCases)
    func defects(_ defect: WatchingDefect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.check })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenWatching(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        #expect(Set(WatchingDefect.allCases.map(\.check)).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("the changes of a store that reports none are an error, and then end")
    func unsupported() async throws {
        var changes = BrokenStreamingFileStore(nil).changes().makeAsyncIterator()
        let error = await #expect(throws: FileStoreError.self) { try await changes.next() }
        #expect(error?.code == .unsupported)
        #expect(try await changes.next() == nil)
    }
}
