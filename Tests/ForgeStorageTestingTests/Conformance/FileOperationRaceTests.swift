import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

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

    @Test("find two steps of a call that another one may come between, each time", arguments: races, 0..<4)
    func found(_ defect: FileOperationDefect, _ run: Int) async throws {
        let check = try #require(ConformanceChecks.fileOperations.first { $0.description == defect.check.rawValue })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: defect.subject()) }
    }
}

/// The time between two steps of a call, in which another thread may run.
private func passTime() {
    let end = ContinuousClock.now + .microseconds(50)
    while ContinuousClock.now < end { sched_yield() }
}
