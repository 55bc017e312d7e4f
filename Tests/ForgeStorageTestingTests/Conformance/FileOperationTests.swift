import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth
import Testing

@Suite("The checks of the six file operations")
struct FileOperationTests {
    private static let checks = ConformanceChecks.fileOperations

    /// Defects that other checks detect too, since a broken basic operation shows wherever it is used.
    private static let alsoFoundBy: [BrokenFileOperations.Defect: Set<BrokenFileOperations.Defect>] = [
        .createsParentsOfFiles: [.skipsMissingNames, .restoresDirectories],
        .readsDirectoriesAsEmpty: [.listsOneLink],
        .findsFilesOnly: [.resolvesDotsFirst, .listsOneLink],
        .alwaysCreatesParents: [.skipsMissingNames],
        .acceptsExisting: [.listsOneLink, .createsTwice],
        .ignoresSchemes: [.hidesReasons],
        .findsLinksToNothing: [.findsCycles, .readsLinksToNothing, .followsLinksInText],
        .readsLinksToNothing: [.followsLinksInText],
        .hidesDotFiles: [.leavesTemporaryFile, .removesFilesByPrefix, .removesDirectoriesByPrefix],
        .listsMissingAsEmpty: [
            .removesDirectoriesByPrefix, .findsCycles, .removesFilesByPrefix, .readsLinksToNothing, .cachesByPath,
            .followsLinksInText, .findsRemovedTrees,
        ],
        .removesFilesByPrefix: [.foldsNames, .decodesTwice],
        .removesDirectoriesByPrefix: [.decodesTwice],
        .removesNothing: [.skipsMissingNames, .removesTwice],
        .buriesNames: [.sharesTemporaryFile, .restoresSiblings, .removesTwice, .listsVanishedEntries],
        .removesTargets: [.followsOneLink, .listsOneLink],
        .replacesLinks: [.followsOneLink, .listsOneLink, .followsLinksInText, .findsCycles, .followsFewLinks],
        .followsOneLink: [.followsFewLinks],
        .listsOneLink: [.followsFewLinks],
        .losesFailures: [.truncatesFirst],
        .takesLinksToNothing: [.findsCycles],
    ]

    /// The checks of many rounds, many entries or large contents.
    private static let slow: [BrokenFileOperations.Defect] = [
        .losesParallelWrites, .sharesTemporaryFile, .restoresSiblings, .createsAfterLooking, .createsTwice,
        .removesTwice,
        .listsVanishedEntries, .restoresDirectories, .writesInPlace, .listsOnePage, .cutsLargeFiles,
    ]

    /// The suite; but for a deep run only the checks that are expected to fail, and a quarter of the quick ones in turn.
    private static func suite(
        with expected: Set<BrokenFileOperations.Defect>, _ turn: Int = 0
    ) -> ConformanceSuite<FileOperationsUnderTest> {
        let expected = Set(expected.map(\.rawValue))
        let candidates = checks.filter { TestDepth.isDeep || expected.contains($0.description) || isQuick($0) }
        return ConformanceSuite(
            "file operations", TestDepth.checks(candidates, turn: turn) { expected.contains($0.description) })
    }

    /// The checks of few calls.
    private static let quick: [ConformanceCheck<FileOperationsUnderTest>] = {
        let left = Set(slow.map(\.rawValue))
        return checks.filter { !left.contains($0.description) }
    }()

    @Test("a wrapper without a defect passes", arguments: TestDepth.isDeep ? checks : quick)
    func sound(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        try await check.run(on: BrokenFileOperations.subject(nil))
    }

    @Test("each detect their defect, and no other check does", arguments: BrokenFileOperations.Defect.allCases)
    func defects(_ defect: BrokenFileOperations.Defect) async throws {
        let expected = Set([defect]).union(Self.alsoFoundBy[defect] ?? [])
        let turn = BrokenFileOperations.Defect.allCases.firstIndex(of: defect) ?? 0
        let report = await Self.suite(with: expected, turn).run(on: defect.rawValue) {
            try BrokenFileOperations.subject(defect)
        }
        #expect(Set(report.violations.map(\.check)) == Set(expected.map(\.rawValue)), "\(report)")
    }

    @Test("find what an implementer may get wrong", arguments: TestDepth.sample(FileOperationDefect.all, every: 3))
    func commonDefects(_ defect: FileOperationDefect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.check.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: defect.subject()) }
    }

    @Test("have a defect each")
    func completeness() {
        let planted = BrokenFileOperations.Defect.allCases.map(\.rawValue)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }

    @Test("name what a subject does not set that they need")
    func incomplete() async throws {
        let needed: [ConformanceCapability: String] = [
            .symbolicLinks: "set makeSymbolicLink of the FileOperationsUnderTest, or leave out .symbolicLinks",
            .limitedSpace: "set fillDevice of the FileOperationsUnderTest, or leave out .limitedSpace",
        ]
        for (capability, advice) in needed {
            for check in Self.checks where check.needs.contains(capability) {
                var subject = try BrokenFileOperations.subject(nil)
                if capability == .symbolicLinks { subject.makeSymbolicLink = nil } else { subject.fillDevice = nil }
                let report = await ConformanceSuite("file operations", [check]).run(on: "incomplete") { [subject] in
                    subject
                }
                #expect("\(report)".contains(advice), "\(report)")
            }
        }
    }

    @Test("pass for the file system in memory, also with folding names", arguments: checks)
    func inMemory(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        for options in [
            InMemoryFileSystem.Options(),
            .init(profile: .darwin, isCaseInsensitive: true, isNormalisationInsensitive: true),
        ]
        where !options.isNormalisationInsensitive
            || check.needs.isDisjoint(with: Self.ofBytes) && (TestDepth.isDeep || Self.isQuick(check))
        {
            let fileSystem = InMemoryFileSystem(options: options)
            try await check.run(on: subject(fileSystem, for: fileSystem, BrokenFileOperations.directory))
        }
    }

    @Test(
        "stay in their directory, also if its URL has no final slash", arguments: TestDepth.isDeep ? checks : quick)
    func containment(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        let fileSystem = InMemoryFileSystem()
        let recording = RecordingFileOperations(fileSystem, root: "/root/d")
        let directory = URL(filePath: "/root/d", directoryHint: .notDirectory)
        try await check.run(on: subject(recording, for: fileSystem, directory))
        #expect(recording.outside == [])
    }

    private static func isQuick(_ check: ConformanceCheck<FileOperationsUnderTest>) -> Bool {
        quick.contains { $0.description == check.description }
    }

    /// The capabilities of a file system whose names are bytes.
    private static let ofBytes: Set<ConformanceCapability> = [.bytewiseNames, .namesOfAnyBytes]

    /// A subject in a new directory of a file system in memory.
    private func subject(
        _ operations: any FileSystemProtocol, for fileSystem: InMemoryFileSystem, _ directory: URL
    ) throws -> FileOperationsUnderTest {
        try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
        var subject = FileOperationsUnderTest(operations, directory: directory)
        subject.makeSymbolicLink = { try fileSystem.makeSymbolicLink(at: $0, to: $1) }
        subject.fillDevice = { try fileSystem.setQuota(.init(sizeInBytes: fileSystem.usage().sizeInBytes)) }
        return subject
    }

    @Test("pass on the disk, for this package's file system and for one that calls Foundation", arguments: checks)
    func onDisk(_ check: ConformanceCheck<FileOperationsUnderTest>) async throws {
        guard !check.needs.contains(.limitedSpace) else { return }
        for fileSystem in [SystemFileSystem(), FoundationFileOperations()] as [any FileSystemProtocol] {
            let directory = FileManager.default.temporaryDirectory
                .appending(component: "FileOperations-\(UUID().uuidString)", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { do { try FileManager.default.removeItem(at: directory) } catch { Issue.record("\(error)") } }
            var subject = FileOperationsUnderTest(fileSystem, directory: directory)
            subject.makeSymbolicLink = {
                try FileManager.default.createSymbolicLink(at: $0, withDestinationURL: $1)
            }
            // Foundation's URLs lead to names that are UTF-8 only, and disks of Apple's systems fold names.
            if check.needs.contains(.namesOfAnyBytes), fileSystem is FoundationFileOperations { continue }
            if !TestDepth.isDeep, !Self.isQuick(check), fileSystem is FoundationFileOperations { continue }
            if try !check.needs.isDisjoint(with: Self.ofBytes) && foldsNames(in: directory) { continue }
            try await check.run(on: subject)
        }
    }

    private func foldsNames(in directory: URL) throws -> Bool {
        let (name, folded) = (directory.appending(component: "\u{E9}"), directory.appending(component: "e\u{301}"))
        try Data().write(to: name)
        defer { do { try FileManager.default.removeItem(at: name) } catch { Issue.record("\(error)") } }
        return FileManager.default.fileExists(atPath: folded.path(percentEncoded: false))
    }

    @Test("name the call, its arguments, what was expected and what came")
    func messages() async throws {
        let report = await ConformanceSuite("file operations", Self.quick).run(on: "broken") {
            try BrokenFileOperations.subject(.hidesDotFiles)
        }
        let messages = report.violations.map(\.description)
        #expect(messages.contains { $0.contains("contentsOfDirectory(at: file:///root/d/): expected [") }, "\(report)")
        let difference = "expected 66 names, got 63 names; missing: [\"...\", \".d\", \".hidden\"], too many: []"
        #expect(messages.contains { $0.contains(difference) }, "\(report)")
        #expect(messages.allSatisfy { $0.contains("ForgeStorageTesting/FileOperationChecks") })
        let empty = await Self.suite(with: []).run(on: "broken") {
            try BrokenFileOperations.subject(.readsOnce)
        }
        #expect("\(empty)".contains("read(from: again): expected \"content\", got \"\""), "\(empty)")
    }

    @Test("show the listed URLs of wrong names")
    func listedURLs() async throws {
        var operations = ReplacedFileOperations()
        operations.list = { base, url in
            try base.contentsOfDirectory(at: url).map { entry in
                URL(string: entry.absoluteString.replacing("%2541", with: "%41")) ?? entry
            }
        }
        let directory = BrokenFileOperations.directory
        try operations.base.createDirectory(at: directory, withIntermediateDirectories: true)
        let subject = FileOperationsUnderTest(operations, directory: directory)
        let name = BrokenFileOperations.Defect.decodesTwice.rawValue
        let check = try #require(Self.checks.first { $0.description == name })
        let error = await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject) }
        let message = try #require(error?.description)
        #expect(message.contains("too many: [\"A\"], listed as file:///root/d/%41, file:///root/d/A"), "\(message)")
    }

    @Test("name the change before a reading call that shows a broken promise")
    func changes() async throws {
        let report = await Self.suite(with: [.removesThroughLinks]).run(on: "broken") {
            try BrokenFileOperations.subject(.removesThroughLinks)
        }
        let message = try #require(report.violations.first?.description)
        #expect(message.contains(": after removeItem(at: tree): contentsOfDirectory(at: file:///root/d/): expected ["))
    }

    @Test("name the call of an unexpected error, with its line")
    func unexpectedErrors() async throws {
        var operations = ReplacedFileOperations()
        operations.write = { _, _, _ in throw CocoaError(.fileWriteUnknown) }
        let subject = FileOperationsUnderTest(operations, directory: BrokenFileOperations.directory)
        let check = try #require(Self.checks.first)
        let error = await #expect(throws: ConformanceViolation.self) { try await check.run(on: subject) }
        let message = try #require(error?.description)
        #expect(message.contains("write(7 bytes, to: again): unexpected error "), "\(message)")
        #expect(message.contains("ForgeStorageTesting/FileOperationChecks.swift:"), "\(message)")
    }
}

/// Each defect shows only if two calls overlap, so each check runs several times.
@Suite("The checks of concurrent file operations")
struct FileOperationRaceTests {
    private static let races: [FileOperationDefect] = [
        FileOperationDefect("a missing parent replaces the one that was created meanwhile", .createsAfterLooking) {
            $0.create = { base, url, parents in
                var directory = URL(filePath: "/", directoryHint: .isDirectory)
                for name in url.path(percentEncoded: false).split(separator: "/") where parents {
                    directory.append(component: String(name), directoryHint: .isDirectory)
                    guard !base.fileExists(atPath: directory.path(percentEncoded: false)) else { continue }
                    passTime()
                    do { try base.removeItem(at: directory) } catch {}
                    try base.createDirectory(at: directory, withIntermediateDirectories: true)
                }
                if !parents { try base.createDirectory(at: url, withIntermediateDirectories: false) }
            }
        },
        FileOperationDefect("a large content is replaced in two steps", .writesInPlace) {
            $0.write = { base, data, url in
                if data.count > 65_536, base.fileExists(atPath: url.path(percentEncoded: false)) {
                    try base.write(data.prefix(65_536) + base.read(from: url).dropFirst(65_536), to: url)
                    passTime()
                }
                try base.write(data, to: url)
            }
        },
        FileOperationDefect("a content of the old one's length is replaced in two steps", .writesInPlace) {
            $0.write = { base, data, url in
                var old = Data()
                do { old = try base.read(from: url) } catch {}
                if data.count > 65_536, data.count == old.count {
                    try base.write(data.prefix(65_536) + old.dropFirst(65_536), to: url)
                    passTime()
                }
                try base.write(data, to: url)
            }
        },
        FileOperationDefect("a write stores its file after its directory was removed", .restoresDirectories) {
            let orphans = OrphanedFiles()
            $0.write = { try orphans.write($1, to: $2, of: $0) { passTime() } }
            $0.create = { base, url, parents in
                try base.createDirectory(at: url, withIntermediateDirectories: parents)
                try orphans.restore(in: url, of: base)
            }
        },
        FileOperationDefect("a write stores its file in the directory that was created last", .restoresDirectories) {
            let created = Mutex<[URL]>([])
            $0.write = { base, data, url in
                let parent = url.deletingLastPathComponent()
                let count = created.withLock(\.count)
                guard base.fileExists(atPath: parent.path(percentEncoded: false)) else {
                    return try base.write(data, to: url)
                }
                for _ in 0..<10 { passTime() }
                let new = created.withLock(\.self)
                guard new.count > count, let last = new.last,
                    !base.fileExists(atPath: parent.path(percentEncoded: false))
                else { return try base.write(data, to: url) }
                try base.write(data, to: last.appending(component: url.lastPathComponent))
            }
            $0.create = { base, url, parents in
                try base.createDirectory(at: url, withIntermediateDirectories: parents)
                created.withLock { $0.append(url) }
            }
        },
        FileOperationDefect("a read takes the size first", .writesInPlace) {
            $0.read = { base, url in
                let size = try base.read(from: url).count
                passTime()
                return try base.read(from: url).prefix(size)
            }
        },
        FileOperationDefect("writers of one file share its temporary file", .writesInPlace) {
            $0.write = { base, data, url in
                let temporary = URL(filePath: url.path(percentEncoded: false) + ".tmp")
                try base.write(data, to: temporary)
                passTime()
                try base.rename(POSIXPath(temporary), to: POSIXPath(url))
            }
        },
        FileOperationDefect("a write stores the directory that it has read before", .sharesTemporaryFile) {
            $0.write = { base, data, url in
                let parent = url.deletingLastPathComponent()
                let names = Set(try base.contentsOfDirectory(at: parent).map(\.lastPathComponent))
                passTime()
                try base.write(data, to: url)
                for entry in try base.contentsOfDirectory(at: parent)
                where !names.contains(entry.lastPathComponent) && entry.lastPathComponent != url.lastPathComponent {
                    do { try base.removeItem(at: entry) } catch {}
                }
            }
        },
        FileOperationDefect("a removal stores the directory that it has read before", .restoresSiblings) {
            $0.remove = { base, url in
                let entries = try base.contentsOfDirectory(at: url.deletingLastPathComponent())
                passTime()
                try base.removeItem(at: url)
                for entry in entries where entry.lastPathComponent != url.lastPathComponent {
                    if !base.fileExists(atPath: entry.path(percentEncoded: false)) { try base.write(Data(), to: entry) }
                }
            }
        },
        FileOperationDefect("a directory is created if it was missing before", .createsTwice) {
            $0.create = { base, url, parents in
                guard !base.fileExists(atPath: url.path(percentEncoded: false)) else {
                    throw FileSystemError(.createDirectory, .fileExists)
                }
                passTime()
                try base.createDirectory(at: url, withIntermediateDirectories: true)
            }
        },
        FileOperationDefect("an item is removed if it existed before", .removesTwice) {
            $0.remove = { base, url in
                guard base.fileExists(atPath: url.path(percentEncoded: false)) else {
                    throw FileSystemError(.unlink, .noSuchFileOrDirectory)
                }
                passTime()
                do { try base.removeItem(at: url) } catch {}
            }
        },
        FileOperationDefect("a listing fails if an entry is gone", .listsVanishedEntries) {
            $0.list = { base, url in
                let entries = try base.contentsOfDirectory(at: url)
                passTime()
                for entry in entries { _ = try base.status(POSIXPath(entry), followsSymbolicLinks: false) }
                return entries
            }
        },
    ]

    /// A listing takes a batch of entries in order, and continues at the position after it.
    private static let listings: [FileOperationDefect] = [4, 8, 16, 32].flatMap { size in
        [false, true].map { isDescending in
            let order = isDescending ? "descending" : "ascending"
            return FileOperationDefect(
                "a listing continues by the position in \(order) order, \(size) at a time", .listsVanishedEntries
            ) {
                $0.list = { base, url in
                    var listed: [URL] = []
                    while true {
                        let entries = try base.contentsOfDirectory(at: url).sorted {
                            ($0.absoluteString < $1.absoluteString) != isDescending
                        }
                        let batch = entries.dropFirst(listed.count).prefix(size)
                        guard !batch.isEmpty else { return listed }
                        listed += batch
                    }
                }
            }
        }
    }

    @Test("find a listing that continues by position", arguments: listings)
    func found(_ defect: FileOperationDefect) async throws { try await found(defect, 0) }

    @Test("find two steps of a call that another one may come between, each time", arguments: races, 0..<4)
    func found(_ defect: FileOperationDefect, _ run: Int) async throws {
        let check = try #require(ConformanceChecks.fileOperations.first { $0.description == defect.check.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: defect.subject()) }
    }
}
