import Dispatch
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Synchronization
import SystemPackage
import TestDepth

/// File operations in memory with one defect, to test that the corresponding check fails.
final class BrokenFileOperations: FileSystemProtocol {
    /// The raw value is the description of the check that detects the defect.
    enum Defect: String, CaseIterable, Sendable {
        case readsOnce = "a written file has its content at every reading"
        case ignoresEmptyData = "a file can be empty, also instead of another content"
        case cutsLargeFiles = "every byte and every size round-trips"
        case ignoresSlices = "a slice of data is written as the slice"
        case keepsTheTail = "writing replaces the whole content, by a longer and by a shorter one"
        case leavesTemporaryFile = "writing a file changes no other and leaves no other entry"
        case createsParentsOfFiles = "a file is not written in a missing directory, which is not created"
        case replacesEmptyDirectories = "a directory is not replaced by a file, not even an empty one"
        case replacesFilesByParents = "nothing is written below a file, which is kept"
        case readsDirectoriesAsEmpty = "a missing file, a directory and a path below a file cannot be read"
        case truncatesFirst = "a write that fails on a full device keeps the old content and leaves no file"
        case losesFailures = "a write without space on a full device throws and changes no other file"
        case returnsBuffers = "what was read does not change with its file, nor the file with it"
        case dropsEqualContents = "files of equal content are independent of each other"
        case findsFilesOnly = "fileExists is true for files and directories alone, and false where the lookup fails"
        case createsWithHiddenFile = "a created directory is empty and can hold files and directories"
        case alwaysCreatesParents = "missing parents are created only on request"
        case acceptsExisting =
            "an existing directory is an error without its parents and a success with them, and is kept"
        case takesFilesForDirectories = "a directory is not created in place of a file or below one"
        case hidesDotFiles = "a listing has every entry of one level once, hidden ones included"
        case listsUnescapedURLs = "the listed URLs lead to the entries"
        case listsMissingAsEmpty = "a missing directory and a file cannot be listed"
        case removesFilesByPrefix = "a removed file is gone, and every other is kept"
        case removesDirectoriesByPrefix = "a removed directory is gone with its tree, and every other is kept"
        case removesNothing = "removing what does not exist is an error and changes nothing"
        case buriesNames = "a name can be used again after its removal, for a file and for a directory"
        case findsRemovedTrees =
            "no path below a removed directory leads to what was there, also once the directory is created again"
        case findsLinksToNothing = "fileExists follows a link, and a link to nothing does not exist"
        case removesTargets = "a removed link is gone, and its target is kept"
        case removesThroughLinks = "a tree is removed without what links in it lead to"
        case decodesTwice = "a name is used byte for byte, and a percent escape is decoded once"
        case setsAsideUnderLongerNames = "a name of 255 bytes is replaced, listed and removed like any other"
        case ignoresSchemes = "a URL that is not a path is refused by every call"
        case foldsNames = "canonically equivalent names, and names of another case, are different files"
        case repairsNames = "the listed URL of a name that is not UTF-8 leads to the file"
        case ignoresBases = "a URL with a base leads where its absolute path does"
        case hidesReasons = "a URL that is not a path is refused with EINVAL"
        case findsCycles = "links that form a cycle lead to nothing, and can be removed"
        case resolvesDotsFirst = "two dots after a link lead to the parent of its target"
        case replacesLinks = "a write through a link replaces the target's content and keeps the link"
        case sharesTemporaryFile = "concurrent writers of different files in one directory lose none"
        case createsAfterLooking =
            "a directory that several threads create at once with its parents is a success for each"
        case mindsSlashes = "a directory is the same with and without a final slash"
        case losesParallelWrites = "concurrent writers of different files do not interfere"
        case keepsBuffers = "a file does not change with the memory that its content was written from"
        case listsOnePage = "a directory of 1,200 entries and a tree of 40 levels are listed and removed whole"
        case readsLinksToNothing = "a link to nothing cannot be read or listed, and is removed like any other"
        case followsOneLink = "a file is read and replaced through every link of a chain, which is kept"
        case listsOneLink =
            "a directory is listed and changed through every link of a chain, and is not replaced"
        case refusesLinksPassedTwice = "a path may lead several times through one link"
        case followsFewLinks = "a path may lead through 32 links"
        case cachesByPath = "what changes through a link is seen at its target's path, and the other way round"
        case skipsMissingNames = "two dots after a missing name or a file lead nowhere"
        case restoresSiblings = "concurrent removals in one directory remove their own entries and no other"
        case createsTwice = "of several threads that create one directory without its parents, one succeeds"
        case removesTwice = "of several threads that remove one item, one succeeds"
        case restoresDirectories =
            "a file that is written while its directory is removed is not in one that is created next"
        case listsVanishedEntries = "a directory that is listed while entries come and go has each entry that stays"
        case emptiesDots = "removing a path that ends in one or two dots is an error and removes nothing"
        case takesLinksForDirectories = "a link to a file is not taken for a directory, and is kept"
        case takesLinksToNothing = "a link to nothing is not taken for a directory"
        case followsLinksInText = "a relative link is followed from its own directory, however that is reached"
        case refusesLocalhost = "a URL of the host localhost leads where its path does"
        case refusesSlashes = "a file is the same with and without a final slash in its URL"
        case writesInPlace = "a file that is read while it is replaced has the old content or the new"
    }

    private struct Memory {
        var temporary = Data()
        var read: Set<String> = []
        var removed: Set<String> = []
        var kept: [String: Data] = [:]
    }

    static let directory = URL(filePath: "/root/d", directoryHint: .isDirectory)

    private let defect: Defect?
    private let base: InMemoryFileSystem
    private let memory = Mutex(Memory())
    private let meeting = Meeting()
    private let buffers = FileBuffers(.byReplacement)
    private let equalContents = EqualContents()
    private let orphans = OrphanedFiles()

    init(_ defect: Defect?) throws {
        self.defect = defect
        base = InMemoryFileSystem()
        try base.createDirectory(at: Self.directory, withIntermediateDirectories: true)
    }

    /// The subject of a check.
    static func subject(_ defect: Defect?) throws -> FileOperationsUnderTest {
        let broken = try BrokenFileOperations(defect)
        var subject = FileOperationsUnderTest(broken, directory: directory)
        subject.makeSymbolicLink = { [base = broken.base] in try base.makeSymbolicLink(at: $0, to: $1) }
        subject.fillDevice = { [base = broken.base] in
            try base.setQuota(.init(sizeInBytes: base.usage().sizeInBytes + 65_536))
        }
        return subject
    }

    private func type(_ url: URL, followsLinks: Bool = true) -> FileType? {
        do { return type(try POSIXPath(url), followsLinks: followsLinks) } catch { return nil }
    }

    private func type(_ path: POSIXPath, followsLinks: Bool = true) -> FileType? {
        do { return try base.status(path, followsSymbolicLinks: followsLinks).type } catch { return nil }
    }

    private func isPath(_ url: URL) -> Bool {
        do { return try !POSIXPath(url).isEmpty } catch { return false }
    }

    private func isCycle(_ path: String) -> Bool {
        do {
            _ = try base.status(POSIXPath(path))
            return false
        } catch {
            return error.errno == .tooManySymbolicLinkLevels
        }
    }

    /// Whether the links of a path are taken for a cycle.
    private func refusesLinks(_ path: POSIXPath) -> Bool {
        switch defect {
        case .refusesLinksPassedTwice: base.linksPassed(path).areSomeTwice
        case .followsFewLinks: base.linksPassed(path).count > 31
        default: false
        }
    }

    private func expectFollowed(_ url: URL, toTheLast: Bool = true) throws {
        guard defect == .refusesLinksPassedTwice || defect == .followsFewLinks else { return }
        let path = try POSIXPath(url)
        guard !refusesLinks(toTheLast ? path : path.splitLast().parent) else {
            throw FileSystemError(.resolve, .tooManySymbolicLinkLevels)
        }
    }

    /// Replaces every error by one without a reason.
    private func hidingReasons<Result>(_ url: URL, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch  where defect == .hidesReasons && !isPath(url) {
            throw CocoaError(.fileReadUnknown)
        }
    }

    private func discard(_ body: () throws -> Void) {
        do { try body() } catch {}
    }

    /// The URL of the file that a call uses.
    private func used(_ url: URL) -> URL {
        switch defect {
        case .decodesTwice where isPath(url) && url.baseURL == nil && !url.path(percentEncoded: false).isEmpty:
            url.path(percentEncoded: false).removingPercentEncoding.map { URL(filePath: $0) } ?? url
        case .foldsNames where isPath(url): folded(url)
        case .ignoresBases where url.baseURL?.lastPathComponent == "d" && !url.relativePath.hasPrefix("/"):
            URL(filePath: "/root/d/x/" + url.relativePath)
        case .resolvesDotsFirst where url.path(percentEncoded: false).contains("to e/../"):
            Self.directory.appending(component: url.lastPathComponent)
        case .skipsMissingNames where url.path(percentEncoded: false).contains("missing/../"):
            Self.directory.appending(component: url.lastPathComponent)
        case .followsLinksInText where isRelativeLink(url): textualTarget(of: url)
        case .refusesLocalhost where url.host(percentEncoded: true) == "localhost":
            URL(string: url.absoluteString.replacing("localhost", with: "example.com")) ?? url
        case .ignoresSchemes where url.scheme == "https": URL(filePath: url.path(percentEncoded: false))
        default: url
        }
    }

    private func isRelativeLink(_ url: URL) -> Bool {
        do { return try !base.readSymbolicLink(POSIXPath(url)).isAbsolute } catch { return false }
    }

    /// The target of a link, whose `..` is resolved in the text of its path.
    private func textualTarget(of url: URL) -> URL {
        do {
            let target = String(try base.readSymbolicLink(POSIXPath(url)))
            return URL(filePath: target, relativeTo: url.deletingLastPathComponent()).absoluteURL.standardized
        } catch {
            return url
        }
    }

    /// The URL of the composed form of a path that has another.
    private func folded(_ url: URL) -> URL {
        let path = url.path(percentEncoded: false)
        let composed = path.precomposedStringWithCanonicalMapping
        return path.utf8.elementsEqual(composed.utf8) ? url : URL(filePath: composed)
    }

    func fileExists(atPath path: String) -> Bool {
        if refusesLinks(POSIXPath(path)) { return false }
        return switch defect {
        case .findsFilesOnly:
            base.fileExists(atPath: path) && type(POSIXPath(path), followsLinks: false) != .directory
        case .findsCycles where isCycle(path): true
        case .findsLinksToNothing: type(POSIXPath(path), followsLinks: false) != nil
        case .findsRemovedTrees: base.fileExists(atPath: path) || memory.withLock { $0.removed.contains(path) }
        default: base.fileExists(atPath: path)
        }
    }

    func createDirectory(at url: URL, withIntermediateDirectories parents: Bool) throws {
        let url = used(url)
        try expectFollowed(url)
        switch defect {
        case .alwaysCreatesParents where type(url) == nil && type(url.deletingLastPathComponent()) == nil:
            try base.createDirectory(at: url, withIntermediateDirectories: true)
        case .acceptsExisting where type(url) == .directory: break
        case .createsAfterLooking
        where parents && type(url) == nil && url.path(percentEncoded: false).contains("shared"):
            meeting.meet()
            try base.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try base.createDirectory(at: url, withIntermediateDirectories: false)
        case .takesLinksForDirectories
        where parents && type(url, followsLinks: false) == .symbolicLink && type(url) == .regular:
            break
        case .takesLinksToNothing
        where parents && type(url, followsLinks: false) == .symbolicLink && type(url) == nil:
            break
        case .takesFilesForDirectories where type(url, followsLinks: false) == .regular: break
        case .createsTwice where url.lastPathComponent == "once" && type(url) == nil:
            meeting.meet()
            discard { try base.createDirectory(at: url, withIntermediateDirectories: false) }
        case .mindsSlashes where parents && type(url) == .directory && !url.hasDirectoryPath:
            throw FileSystemError(.createDirectory, .fileExists)
        default:
            try hidingReasons(url) { try base.createDirectory(at: url, withIntermediateDirectories: parents) }
        }
        if defect == .createsWithHiddenFile, url.lastPathComponent == "f" {
            try base.write(Data(), to: url.appending(component: ".hidden"))
        }
        if defect == .restoresDirectories { try orphans.restore(in: url, of: base) }
    }

    func write(_ data: Data, to url: URL) throws {
        let url = used(url)
        try expectFollowed(url)
        if defect == .refusesSlashes, url.hasDirectoryPath, type(url) != .directory {
            throw FileSystemError(.write, .isDirectory)
        }
        let parent = url.deletingLastPathComponent()
        var data = data
        switch defect {
        case .ignoresEmptyData where data.isEmpty && type(url) == .regular: return
        case .cutsLargeFiles: data = data.prefix(1 << 20)
        case .ignoresSlices where data.startIndex > 0: data = Data(count: data.count)
        case .keepsTheTail where type(url) == .regular && data.count == 1:
            data += try base.read(from: url).dropFirst(data.count).prefix(8)
        case .leavesTemporaryFile where type(url) == .regular && data.count == 21:
            try base.write(data, to: parent.appending(component: "a2"))
        case .createsParentsOfFiles where type(parent) == nil:
            try base.createDirectory(at: parent, withIntermediateDirectories: true)
        case .replacesEmptyDirectories where type(url, followsLinks: false) == .directory:
            if try base.contentsOfDirectory(at: url).isEmpty { try base.removeItem(at: url) }
        case .replacesFilesByParents where type(parent) == .regular:
            try base.removeItem(at: parent)
            try base.createDirectory(at: parent, withIntermediateDirectories: false)
        case .truncatesFirst where data.count >= 1 << 20:
            if type(url) == .regular { try base.write(Data(), to: url) }
        case .losesFailures where data.count >= 1 << 20: return discard { try base.write(data, to: url) }
        case .returnsBuffers where url.lastPathComponent.hasPrefix("rewritten"): buffers.store(data, at: url)
        case .dropsEqualContents: equalContents.store(data)
        case .setsAsideUnderLongerNames where type(url) == .regular && url.lastPathComponent.utf8.count > 254:
            throw FileSystemError(.rename, .fileNameTooLong)
        case .restoresDirectories where url.path(percentEncoded: false).contains("/vanishing/"):
            return try orphans.write(data, to: url, of: base) {
                // Until the removal begins.
                for _ in 0..<100 where type(parent) != nil { passTime() }
            }
        case .replacesLinks where type(url, followsLinks: false) == .symbolicLink: try base.removeItem(at: url)
        case .sharesTemporaryFile where parent.lastPathComponent == "shared":
            memory.withLock { $0.temporary = data }
            meeting.meet()
            data = memory.withLock { $0.temporary }
        case .losesParallelWrites where url.path(percentEncoded: false).hasSuffix("d3/7"): return
        case .keepsBuffers where url.lastPathComponent == "buffer":
            memory.withLock { $0.kept[url.path(percentEncoded: false)] = data }
        case .cachesByPath: memory.withLock { $0.kept[url.path(percentEncoded: false)] = nil }
        case .followsOneLink where type(url) == .regular && type(url, followsLinks: false) == .symbolicLink:
            let target = URL(try base.readSymbolicLink(POSIXPath(url)))
            if type(target, followsLinks: false) == .symbolicLink { try base.removeItem(at: target) }
        case .writesInPlace where type(url) == .regular && [230_000, 300_000].contains(data.count):
            let middle = data.count / 2
            data = try base.read(from: url).prefix(middle) + data.dropFirst(middle)
        default: break
        }
        if defect == .buriesNames, memory.withLock({ $0.removed.contains(url.path(percentEncoded: false)) }) { return }
        memory.withLock { _ = $0.read.remove(url.path(percentEncoded: false)) }
        try hidingReasons(url) { try base.write(data, to: url) }
    }

    func read(from url: URL) throws -> Data {
        let url = used(url)
        try expectFollowed(url)
        if let content = buffers.content(at: url) { return content }
        if defect == .readsDirectoriesAsEmpty, type(url) == .directory { return Data() }
        if defect == .readsOnce, url.lastPathComponent == "again" {
            let isFirst = memory.withLock { $0.read.insert(url.path(percentEncoded: false)).inserted }
            guard isFirst else { return Data() }
        }
        if defect == .readsLinksToNothing, type(url, followsLinks: false) == .symbolicLink, type(url) == nil,
            !isCycle(url.path(percentEncoded: false))
        {
            return Data()
        }
        let path = url.path(percentEncoded: false)
        if let kept = memory.withLock({ $0.kept[path] }) { return kept }
        let content = try hidingReasons(url) { try base.read(from: url) }
        guard defect != .dropsEqualContents || equalContents.has(content) else { throw CocoaError(.fileReadUnknown) }
        if defect == .cachesByPath, path.contains("/to d/") { memory.withLock { $0.kept[path] = content } }
        return content
    }

    func removeItem(at url: URL) throws {
        let url = used(url)
        try expectFollowed(url, toTheLast: false)
        let kind = type(url, followsLinks: false)
        buffers.remove(at: url)
        let dropped = defect == .dropsEqualContents && kind == .directory ? base.contents(at: url) : []
        defer { if type(url, followsLinks: false) == nil { equalContents.drop(dropped) } }
        if defect == .emptiesDots, kind == .directory, try [".", ".."].contains(POSIXPath(url).splitLast().name) {
            for entry in try base.contentsOfDirectory(at: url) { try base.removeItem(at: entry) }
        }
        let below = url.path(percentEncoded: false) + "/b/c/f"
        if defect == .findsRemovedTrees, base.fileExists(atPath: below) {
            memory.withLock { _ = $0.removed.insert(below) }
        }
        if defect == .buriesNames, kind == .regular {
            memory.withLock { _ = $0.removed.insert(url.path(percentEncoded: false)) }
        }
        if kind == .symbolicLink, defect == .removesTargets {
            let target = URL(try base.readSymbolicLink(POSIXPath(url)))
            if type(target) != nil { return try base.removeItem(at: target) }
        }
        if kind == .directory, defect == .removesThroughLinks {
            for entry in try base.contentsOfDirectory(at: url) where type(entry, followsLinks: false) == .symbolicLink {
                discard { try base.removeItem(at: URL(base.readSymbolicLink(POSIXPath(entry)))) }
            }
        }
        memory.withLock { _ = $0.kept.removeValue(forKey: url.path(percentEncoded: false)) }
        if defect == .removesTwice, kind != nil, url.lastPathComponent == "removed once" {
            meeting.meet()
            return discard { try base.removeItem(at: url) }
        }
        if defect == .restoresSiblings, url.deletingLastPathComponent().lastPathComponent == "removals" {
            return try removeRestoringSiblings(of: url)
        }
        let removesPrefix: FileType? =
            switch defect {
            case .removesFilesByPrefix: .regular
            case .removesDirectoriesByPrefix: .directory
            default: nil
            }
        if kind == nil, defect == .removesNothing, isPath(url) { return }
        try hidingReasons(url) { try base.removeItem(at: url) }
        guard let kind, kind == removesPrefix else { return }
        for entry in try base.contentsOfDirectory(at: url.deletingLastPathComponent())
        where entry.lastPathComponent.hasPrefix(url.lastPathComponent) && type(entry) == kind {
            try base.removeItem(at: entry)
        }
    }

    /// Two threads that meet each restore what the other one removes.
    private func removeRestoringSiblings(of url: URL) throws {
        let siblings = try base.contentsOfDirectory(at: url.deletingLastPathComponent())
        let hasMet = meeting.meet()
        try base.removeItem(at: url)
        guard hasMet else { return }
        for sibling in siblings where type(sibling) == nil && sibling.lastPathComponent != url.lastPathComponent {
            try base.write(Data(), to: sibling)
        }
    }

    func contentsOfDirectory(at url: URL) throws -> [URL] {
        let url = used(url)
        try expectFollowed(url)
        if defect == .listsMissingAsEmpty, isPath(url), type(url) == nil,
            type(url.deletingLastPathComponent()) == .directory
        {
            return []
        }
        if defect == .mindsSlashes, isPath(url), url.lastPathComponent.hasPrefix("d"), !url.hasDirectoryPath {
            throw FileSystemError(.list, .notDirectory)
        }
        let entries = try hidingReasons(url) { try base.contentsOfDirectory(at: url) }
        switch defect {
        case .repairsNames:
            return entries.map { url in
                url.absoluteString.contains("%FF") ? Self.directory.appending(component: "a\u{FFFD}b") : url
            }
        case .listsOnePage: return Array(entries.prefix(1_000))
        case .listsOneLink where type(url, followsLinks: false) == .symbolicLink:
            let target = URL(try base.readSymbolicLink(POSIXPath(url)))
            guard type(target, followsLinks: false) != .symbolicLink else {
                throw FileSystemError(.list, .notDirectory)
            }
            return entries
        case .listsVanishedEntries where url.lastPathComponent == "listed":
            guard let new = entries.first(where: { $0.lastPathComponent.hasSuffix("new") }) else { return entries }
            for _ in 0..<100_000 where type(new) == nil { throw FileSystemError(.status, .noSuchFileOrDirectory) }
            return entries
        case .hidesDotFiles: return entries.filter { !$0.lastPathComponent.hasPrefix(".") }
        case .listsUnescapedURLs:
            return entries.map { $0.lastPathComponent.contains("%") ? URL(filePath: "/" + $0.lastPathComponent) : $0 }
        default: return entries
        }
    }
}

extension InMemoryFileSystem {
    /// Creates a symbolic link; to a relative path if the target has a base.
    func makeSymbolicLink(at url: URL, to target: URL) throws {
        let path = target.baseURL == nil ? try POSIXPath(target) : POSIXPath(target.relativePath)
        try createSymbolicLink(POSIXPath(url), to: path)
    }
}

/// Two threads meet here once; afterwards no thread waits.
private final class Meeting: Sendable {
    private let count = Mutex(0)
    private let second = DispatchSemaphore(value: 0)

    /// The first caller waits for the second one, at most five seconds; returns whether this is one of both.
    @discardableResult
    func meet() -> Bool {
        let number = count.withLock { count in
            count += 1
            return count
        }
        if number == 1 { _ = second.wait(timeout: .now() + 5) }
        if number == 2 { second.signal() }
        return number <= 2
    }
}
