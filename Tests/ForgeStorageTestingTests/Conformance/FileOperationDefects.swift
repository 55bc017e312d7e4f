import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import Testing

/// A defect that an implementation of the six calls may have, and the check that finds it.
///
/// Each is one that the documentation excludes and a check of another case of the same promise would not find.
struct FileOperationDefect: Sendable, CustomTestStringConvertible {
    let testDescription: String

    /// Named by the defect that only this check finds.
    let check: BrokenFileOperations.Defect

    private let plant: @Sendable (inout ReplacedFileOperations) -> Void

    init(
        _ name: String, _ check: BrokenFileOperations.Defect,
        _ plant: @escaping @Sendable (inout ReplacedFileOperations) -> Void
    ) {
        (testDescription, self.check, self.plant) = (name, check, plant)
    }

    /// The subject of a check.
    func subject() throws -> FileOperationsUnderTest {
        var operations = ReplacedFileOperations()
        plant(&operations)
        let (base, directory) = (operations.base, BrokenFileOperations.directory)
        try base.createDirectory(at: directory, withIntermediateDirectories: true)
        var subject = FileOperationsUnderTest(operations, directory: directory)
        subject.makeSymbolicLink = { try base.makeSymbolicLink(at: $0, to: $1) }
        return subject
    }

    static let all = ofContent + ofDirectories + ofLinks + ofURLs + ofStoredContents + caches

    private static let ofContent: [FileOperationDefect] =
        [65_536, 1 << 20].map { size in
            FileOperationDefect("a read loses the last of each \(size) bytes", .cutsLargeFiles) {
                $0.read = { base, url in
                    let content = try base.read(from: url)
                    return content.isEmpty || content.count % size > 0 ? content : content.dropLast()
                }
            }
        }
        + [1 << 20, 4 << 20, 16 << 20].map { size in
            FileOperationDefect("a read ends after \(size) bytes", .cutsLargeFiles) {
                $0.read = { base, url in try base.read(from: url).prefix(size) }
            }
        }
        + [
            FileOperationDefect("the temporary file is one of the app's", .leavesTemporaryFile) {
                $0.write = { base, data, url in
                    let temporary = URL(filePath: url.path(percentEncoded: false) + ".tmp")
                    try base.write(data, to: temporary)
                    try base.rename(POSIXPath(temporary), to: POSIXPath(url))
                }
            },
            FileOperationDefect("a refused write leaves its temporary file", .replacesEmptyDirectories) {
                $0.write = { base, data, url in
                    if base.type(url) == .directory {
                        try base.write(data, to: url.deletingLastPathComponent().appending(component: ".write"))
                    }
                    try base.write(data, to: url)
                }
            },
            FileOperationDefect("a write below a file leaves its temporary file", .replacesFilesByParents) {
                $0.write = { base, data, url in
                    if base.type(url.deletingLastPathComponent()) == .regular {
                        try base.write(data, to: BrokenFileOperations.directory.appending(component: ".write"))
                    }
                    try base.write(data, to: url)
                }
            },
        ]

    private static let ofDirectories: [FileOperationDefect] =
        [100, 500, 1_000].map { count in
            FileOperationDefect("a listing ends after \(count) entries", .listsOnePage) {
                $0.list = { base, url in Array(try base.contentsOfDirectory(at: url).prefix(count)) }
            }
        }
        + [
            FileOperationDefect("more than 1,000 entries are not removed", .listsOnePage) {
                $0.remove = { base, url in
                    if base.type(url) == .directory, try base.contentsOfDirectory(at: url).count > 1_000 {
                        throw FileSystemError(.removeDirectory, .directoryNotEmpty)
                    }
                    try base.removeItem(at: url)
                }
            },
            FileOperationDefect("more than eight levels are not removed", .listsOnePage) {
                $0.remove = { base, url in
                    var (below, levels) = (url, 0)
                    while base.type(below) == .directory, let next = try base.contentsOfDirectory(at: below).first {
                        (below, levels) = (next, levels + 1)
                    }
                    guard levels <= 8 else { throw FileSystemError(.removeDirectory, .directoryNotEmpty) }
                    try base.removeItem(at: url)
                }
            },
            FileOperationDefect("parents are removed after a failure", .alwaysCreatesParents) {
                $0.create = { base, url, parents in
                    let names = try base.contentsOfDirectory(at: BrokenFileOperations.directory)
                    do {
                        try base.createDirectory(at: url, withIntermediateDirectories: parents)
                    } catch {
                        for new in try base.contentsOfDirectory(at: BrokenFileOperations.directory)
                        where !names.contains(new) {
                            try base.removeItem(at: new)
                        }
                        throw error
                    }
                }
            },
            FileOperationDefect("the missing names before two dots are removed afterwards", .alwaysCreatesParents) {
                $0.create = { base, url, parents in
                    try base.createDirectory(at: url, withIntermediateDirectories: parents)
                    let parts = url.path(percentEncoded: false).split(separator: "/../")
                    if parents, parts.count == 2 { try base.removeItem(at: URL(filePath: String(parts[0]))) }
                }
            },
            FileOperationDefect("a file with a final slash exists", .findsFilesOnly) {
                $0.exists = { base, path in
                    base.fileExists(atPath: path.hasSuffix("/") ? String(path.dropLast()) : path)
                }
            },
            FileOperationDefect("a path with a final slash does not exist", .findsFilesOnly) {
                $0.exists = { base, path in !path.hasSuffix("/") && base.fileExists(atPath: path) }
            },
        ]

    private typealias Checks = (
        BrokenFileOperations.Defect, BrokenFileOperations.Defect, BrokenFileOperations.Defect
    )

    private static let ofLinks: [FileOperationDefect] =
        [1, 2, 8, 31].flatMap { limit in
            let (content, listing, existence): Checks =
                limit > 9
                ? (.followsFewLinks, .followsFewLinks, .followsFewLinks)
                : (.followsOneLink, .listsOneLink, .findsLinksToNothing)
            return [
                FileOperationDefect("a read follows \(limit) links at most", content) {
                    $0.read = { base, url in
                        try base.expectLinks(at: url, limit)
                        return try base.read(from: url)
                    }
                },
                FileOperationDefect("a write follows \(limit) links at most", content) {
                    $0.write = { base, data, url in
                        try base.expectLinks(at: url, limit)
                        try base.write(data, to: url)
                    }
                },
                FileOperationDefect("a listing follows \(limit) links at most", listing) {
                    $0.list = { base, url in
                        try base.expectLinks(at: url, limit)
                        return try base.contentsOfDirectory(at: url)
                    }
                },
                FileOperationDefect("fileExists follows \(limit) links at most", existence) {
                    $0.exists = { base, path in
                        do { try base.expectLinks(at: URL(POSIXPath(path)), limit) } catch { return false }
                        return base.fileExists(atPath: path)
                    }
                },
            ]
        }
        + [
            FileOperationDefect("fileExists follows each link once", .refusesLinksPassedTwice) {
                $0.exists = { !$0.linksPassed(POSIXPath($1)).areSomeTwice && $0.fileExists(atPath: $1) }
            },
            FileOperationDefect("createDirectory follows each link once", .refusesLinksPassedTwice) {
                $0.create = { base, url, parents in
                    try base.expectNoLinkTwice(in: url)
                    try base.createDirectory(at: url, withIntermediateDirectories: parents)
                }
            },
            FileOperationDefect("a write follows each link once", .refusesLinksPassedTwice) {
                $0.write = { base, data, url in
                    try base.expectNoLinkTwice(in: url)
                    try base.write(data, to: url)
                }
            },
            FileOperationDefect("a read follows each link once", .refusesLinksPassedTwice) {
                $0.read = { base, url in
                    try base.expectNoLinkTwice(in: url)
                    return try base.read(from: url)
                }
            },
            FileOperationDefect("a removal follows each link once", .refusesLinksPassedTwice) {
                $0.remove = { base, url in
                    try base.expectNoLinkTwice(in: url)
                    try base.removeItem(at: url)
                }
            },
            FileOperationDefect("a listing follows each link once", .refusesLinksPassedTwice) {
                $0.list = { base, url in
                    try base.expectNoLinkTwice(in: url)
                    return try base.contentsOfDirectory(at: url)
                }
            },
            FileOperationDefect("a link to nothing is replaced by no directory", .takesLinksToNothing) {
                $0.create = { base, url, parents in
                    if base.isLink(url), base.type(url) == nil { return }
                    try base.createDirectory(at: url, withIntermediateDirectories: parents)
                }
            },
            FileOperationDefect("a write follows each link from the directory of the first", .followsLinksInText) {
                $0.write = { base, data, url in
                    var target = url
                    while base.isLink(target) {
                        let text = String(try base.readSymbolicLink(POSIXPath(target)))
                        target = URL(filePath: text, relativeTo: url.deletingLastPathComponent()).absoluteURL
                    }
                    try base.write(data, to: target)
                }
            },
            FileOperationDefect("a listing follows a relative link from the path of the call", .followsLinksInText) {
                $0.list = { base, url in
                    guard base.isLink(url) else { return try base.contentsOfDirectory(at: url) }
                    let target = String(try base.readSymbolicLink(POSIXPath(url)))
                    let directory = url.deletingLastPathComponent()
                    return try base.contentsOfDirectory(
                        at: URL(filePath: target, relativeTo: directory).absoluteURL.standardized)
                }
            },
            FileOperationDefect("a link of a cycle is replaced by a file", .findsCycles) {
                $0.write = { base, data, url in
                    do {
                        try base.write(data, to: url)
                    } catch let error as FileSystemError where error.errno == .tooManySymbolicLinkLevels {
                        try base.removeItem(at: url)
                        try base.write(data, to: url)
                    }
                }
            },
            FileOperationDefect("a cycle of links is taken for a directory", .findsCycles) {
                $0.create = { base, url, parents in
                    if parents, base.isLink(url), !base.fileExists(atPath: url.path) { return }
                    try base.createDirectory(at: url, withIntermediateDirectories: parents)
                }
            },
            FileOperationDefect("an empty directory behind a link is replaced by a file", .listsOneLink) {
                $0.write = { base, data, url in
                    if base.isLink(url), base.type(url) == .directory, try base.contentsOfDirectory(at: url).isEmpty {
                        try base.removeItem(at: url)
                    }
                    try base.write(data, to: url)
                }
            },
            FileOperationDefect("a tree with a link to nothing is not removed", .removesThroughLinks) {
                $0.remove = { base, url in
                    if base.type(url) == .directory, !base.isLink(url) {
                        for entry in try base.contentsOfDirectory(at: url) where base.type(entry) == nil {
                            throw FileSystemError(.removeDirectory, .directoryNotEmpty)
                        }
                    }
                    try base.removeItem(at: url)
                }
            },
            FileOperationDefect("a link with a final slash is removed with its target", .removesTargets) {
                $0.remove = { base, url in
                    if url.hasDirectoryPath, base.isLink(url) {
                        try base.removeItem(at: URL(base.readSymbolicLink(POSIXPath(url))))
                    }
                    try base.removeItem(at: url)
                }
            },
        ]

    private static let ofURLs: [FileOperationDefect] =
        [.resolvesDotsFirst, .skipsMissingNames].flatMap { check in
            spelled("two dots are resolved in the text", check) { resolvingDots(in: $0) }
        }
        + spelled("escapes are decoded twice", .decodesTwice) { $0.removingPercentEncoding ?? $0 }
        + spelled("a plus is a space", .decodesTwice) { $0.replacing("+", with: " ") }
        + spelled("spaces at the end are removed", .decodesTwice) { path in
            String(path.reversed().drop { $0 == " " }.reversed())
        }
        + spelled("spaces after a slash are removed", .decodesTwice) { $0.replacing(/\/ +/, with: "/") }
        + [
            FileOperationDefect("the listed URLs of a relative one lose its base", .ignoresBases) {
                $0.list = { base, url in
                    try base.contentsOfDirectory(at: url).map { entry in
                        url.baseURL == nil
                            ? entry
                            : URL(filePath: "/\(url.relativePath)/").appending(component: entry.lastPathComponent)
                    }
                }
            },
            FileOperationDefect("the listed URLs are relative to the caller's", .listsUnescapedURLs) {
                $0.list = { base, url in try base.contentsOfDirectory(at: url).map { relative($0, to: url) } }
            },
            FileOperationDefect("the listed URLs are relative to the caller's, which has a base", .ignoresBases) {
                $0.list = { base, url in
                    try base.contentsOfDirectory(at: url).map { url.baseURL == nil ? $0 : relative($0, to: url) }
                }
            },
        ]

    /// The URL of an entry, relative to that of the directory as it was given.
    private static func relative(_ entry: URL, to directory: URL) -> URL {
        let name = entry.absoluteURL.path(percentEncoded: true).split(separator: "/").last ?? ""
        return URL(string: "./" + name, relativeTo: directory) ?? entry
    }

    /// A defect of each call: it uses another path than the URL's.
    private static func spelled(
        _ name: String, _ check: BrokenFileOperations.Defect, _ path: @escaping @Sendable (String) -> String
    ) -> [FileOperationDefect] {
        let used: @Sendable (URL) throws -> URL = { url in
            let text = String(try POSIXPath(url))
            let changed = path(text)
            return changed == text ? url : URL(POSIXPath(changed), isDirectory: url.hasDirectoryPath)
        }
        return [
            FileOperationDefect("\(name) by fileExists", check) {
                $0.exists = { base, text in base.fileExists(atPath: path(text)) }
            },
            FileOperationDefect("\(name) by createDirectory", check) {
                $0.create = { try $0.createDirectory(at: used($1), withIntermediateDirectories: $2) }
            },
            FileOperationDefect("\(name) by write", check) { $0.write = { try $0.write($1, to: used($2)) } },
            FileOperationDefect("\(name) by read", check) { $0.read = { try $0.read(from: used($1)) } },
            FileOperationDefect("\(name) by removeItem", check) { $0.remove = { try $0.removeItem(at: used($1)) } },
            FileOperationDefect("\(name) by contentsOfDirectory", check) {
                $0.list = { try $0.contentsOfDirectory(at: used($1)) }
            },
        ]
    }

    private static func resolvingDots(in path: String) -> String {
        var names: [Substring] = []
        for name in path.split(separator: "/") {
            if name == ".." { _ = names.popLast() } else { names.append(name) }
        }
        return "/" + names.joined(separator: "/")
    }

    /// Results are kept by path until a change of the same path.
    private static let caches: [FileOperationDefect] = [
        .cachesByPath, .removesDirectoriesByPrefix,
    ].flatMap { (check: BrokenFileOperations.Defect) in
        [
            FileOperationDefect("what was read is read again", check) {
                let kept = Kept<Data>()
                $0.read = { base, url in try kept.value(at: url) { try base.read(from: url) } }
                kept.forgetsChanges(of: &$0)
            },
            FileOperationDefect("what existed is found again", check) {
                let kept = Kept<Bool>()
                $0.exists = { base, path in
                    do {
                        return try kept.value(at: URL(POSIXPath(path))) { base.fileExists(atPath: path) }
                    } catch {
                        return false
                    }
                }
                kept.forgetsChanges(of: &$0)
            },
            FileOperationDefect("what was listed is listed again", check) {
                let kept = Kept<[URL]>()
                $0.list = { base, url in try kept.value(at: url) { try base.contentsOfDirectory(at: url) } }
                $0.write = { base, data, url in
                    kept.forget(url.deletingLastPathComponent())
                    try base.write(data, to: url)
                }
                $0.create = { base, url, parents in
                    kept.forget(url.deletingLastPathComponent())
                    try base.createDirectory(at: url, withIntermediateDirectories: parents)
                }
                $0.remove = { base, url in
                    for url in [url, url.deletingLastPathComponent()] { kept.forget(url) }
                    try base.removeItem(at: url)
                }
            },
        ]
    }
}

/// File operations in memory, some of which are replaced.
struct ReplacedFileOperations: FileSystemProtocol {
    let base = InMemoryFileSystem()
    var exists: @Sendable (InMemoryFileSystem, String) -> Bool = { $0.fileExists(atPath: $1) }
    var create: @Sendable (InMemoryFileSystem, URL, Bool) throws -> Void = {
        try $0.createDirectory(at: $1, withIntermediateDirectories: $2)
    }
    var write: @Sendable (InMemoryFileSystem, Data, URL) throws -> Void = { try $0.write($1, to: $2) }
    var read: @Sendable (InMemoryFileSystem, URL) throws -> Data = { try $0.read(from: $1) }
    var remove: @Sendable (InMemoryFileSystem, URL) throws -> Void = { try $0.removeItem(at: $1) }
    var list: @Sendable (InMemoryFileSystem, URL) throws -> [URL] = { try $0.contentsOfDirectory(at: $1) }

    func fileExists(atPath path: String) -> Bool { exists(base, path) }

    func createDirectory(at url: URL, withIntermediateDirectories: Bool) throws {
        try create(base, url, withIntermediateDirectories)
    }

    func write(_ data: Data, to url: URL) throws { try write(base, data, url) }

    func read(from url: URL) throws -> Data { try read(base, url) }

    func removeItem(at url: URL) throws { try remove(base, url) }

    func contentsOfDirectory(at url: URL) throws -> [URL] { try list(base, url) }
}

/// Results of a call by path.
private final class Kept<Value: Sendable>: Sendable {
    private let values = Mutex<[String: Value]>([:])

    private func path(_ url: URL) -> String { resolvingFinalSlash(url.absoluteURL.path(percentEncoded: true)) }

    private func resolvingFinalSlash(_ path: String) -> String { path.hasSuffix("/") ? String(path.dropLast()) : path }

    func value(at url: URL, _ value: () throws -> Value) throws -> Value {
        let path = path(url)
        if let kept = values.withLock({ $0[path] }) { return kept }
        let new = try value()
        values.withLock { $0[path] = new }
        return new
    }

    func forget(_ url: URL) {
        values.withLock { _ = $0.removeValue(forKey: path(url)) }
    }

    /// Forgets the value of what a call writes or removes.
    func forgetsChanges(of operations: inout ReplacedFileOperations) {
        operations.write = { base, data, url in
            self.forget(url)
            try base.write(data, to: url)
        }
        operations.remove = { base, url in
            self.forget(url)
            try base.removeItem(at: url)
        }
    }
}

extension InMemoryFileSystem {
    /// The type of what a URL leads to, which nothing is if the lookup fails.
    fileprivate func type(_ url: URL) -> FileType? {
        do { return try status(POSIXPath(url)).type } catch { return nil }
    }

    fileprivate func isLink(_ url: URL) -> Bool {
        do { return try status(POSIXPath(url), followsSymbolicLinks: false).type == .symbolicLink } catch {
            return false
        }
    }

    /// Throws if a URL leads twice through one link.
    fileprivate func expectNoLinkTwice(in url: URL) throws {
        guard try !linksPassed(POSIXPath(url)).areSomeTwice else {
            throw FileSystemError(.resolve, .tooManySymbolicLinkLevels)
        }
    }

    /// Throws if a URL leads to more links than this, one after the other.
    fileprivate func expectLinks(at url: URL, _ limit: Int) throws {
        var (target, count) = (url, 0)
        while isLink(target), count <= limit {
            target = URL(try readSymbolicLink(POSIXPath(target)))
            count += 1
        }
        if count > limit { throw FileSystemError(.resolve, .tooManySymbolicLinkLevels) }
    }
}
