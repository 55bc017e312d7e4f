import Dispatch
public import ForgeFileSystem
public import Foundation
import Synchronization

/// An implementation of `FileSystemProtocol` and what the checks do with it.
///
/// ```swift
/// import ForgeFileSystem
/// import ForgeStorageTesting
/// import Foundation
///
/// let report = await ConformanceSuite.fileOperations.run(
///     on: "InMemoryFileSystem",
///     having: [.symbolicLinks, .atomicReplacement, .bytewiseNames, .namesOfAnyBytes, .limitedSpace]
/// ) {
///     let fileSystem = InMemoryFileSystem()
///     let directory = URL(filePath: "/checks", directoryHint: .isDirectory)
///     try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
///     var subject = FileOperationsUnderTest(fileSystem, directory: directory)
///     subject.makeSymbolicLink = { url, target in
///         let isRelative = target.baseURL != nil
///         try fileSystem.createSymbolicLink(
///             POSIXPath(url), to: isRelative ? POSIXPath(target.relativePath) : POSIXPath(target))
///     }
///     subject.fillDevice = { try fileSystem.setQuota(.init(sizeInBytes: 65_536)) }
///     return subject
/// }
/// ```
public struct FileOperationsUnderTest: Sendable {
    /// The implementation.
    public var fileSystem: any FileSystemProtocol

    /// The URL of an empty directory for the check, with or without a final slash. No check goes outside;
    /// what it leaves there, up to 17 MiB, is for the caller to remove.
    public var directory: URL

    /// Creates a symbolic link at a URL to another, for the checks that need ``ConformanceCapability/symbolicLinks``.
    ///
    /// A target with a base is relative, and its base the directory of the link: the target of the link is then
    /// `target.relativePath`, such as `../a`. A hook that stores the absolute path of every target creates links that
    /// lead to the same places, but leaves the resolution of relative links unchecked.
    ///
    /// These checks run, and need it, unless `having:` names the capabilities and this one is not among them.
    public var makeSymbolicLink: (@Sendable (_ url: URL, _ target: URL) throws -> Void)?

    /// Leaves less than a mebibyte free on the device, for the checks that need ``ConformanceCapability/limitedSpace``.
    /// Nothing else may use the device: fill a small one of your own, such as an `InMemoryFileSystem` with a quota
    /// (`setQuota(_:)`), or a tmpfs.
    ///
    /// It may leave nothing at all: afterwards, the checks write contents of a little more than a mebibyte, which must fail,
    /// read and list. One expects an error and other files unchanged. Another one expects the old content too, and runs
    /// only together with ``ConformanceCapability/atomicReplacement``.
    ///
    /// These checks run, and need it, unless `having:` names the capabilities and this one is not among them.
    public var fillDevice: (@Sendable () throws -> Void)?

    /// Creates a subject.
    public init(_ fileSystem: any FileSystemProtocol, directory: URL) {
        self.fileSystem = fileSystem
        self.directory = directory
    }
}

extension ConformanceCapability {
    /// There are symbolic links (``FileOperationsUnderTest/makeSymbolicLink``), of which a path may pass 32.
    public static let symbolicLinks = ConformanceCapability("symbolic links")

    /// A file is replaced atomically, which `FileSystemProtocol` recommends, but does not require.
    public static let atomicReplacement = ConformanceCapability("atomic replacement of files")

    /// Names are compared byte for byte: canonically equivalent names, and names of another case, are different files.
    public static let bytewiseNames = ConformanceCapability("names compared byte for byte")

    /// A name can be of any bytes, also such that are not UTF-8, which APFS refuses.
    public static let namesOfAnyBytes = ConformanceCapability("names that are not UTF-8")
}

// MARK: URLs

extension FileOperationsUnderTest {
    /// The URL of a relative path below the directory, byte for byte.
    func url(_ name: String, isDirectory: Bool = false) -> URL {
        let components = name.utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
        return components.enumerated().reduce(directory) { url, component in
            let isLast = component.offset == components.count - 1
            return url.appending(
                component: component.element,
                directoryHint: isLast && !isDirectory ? .notDirectory : .isDirectory)
        }
    }

    /// The URL of a relative path below the directory with percent escapes, which may be invalid; nil if Foundation
    /// refuses it. `prefix` replaces scheme and host.
    func url(escaped path: String, prefix: String = "file://") -> URL? {
        let root = directory.absoluteURL.path(percentEncoded: true)
        return URL(string: prefix + root + (root.utf8.last == UInt8(ascii: "/") ? "" : "/") + path)
    }

    /// The URL of a relative path below the directory with valid percent escapes, `..` unresolved.
    func spelledURL(_ path: String) throws -> URL {
        guard let url = url(escaped: path) else { throw ConformanceViolation("Foundation refuses the URL of \(path)") }
        return url
    }

    /// The path of the directory, followed by a suffix.
    func path(_ suffix: String) throws -> String { String(try POSIXPath(directory)) + suffix }

    /// The last component of a URL, decoded.
    func name(of url: URL) throws -> String {
        String(decoding: try POSIXPath(url).bytes.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    /// The calls that must refuse their URL, which is no path. A URL that is wrongly accepted does not lead out of the
    /// directory.
    func refusedCalls() -> [(String, () throws -> Void)] {
        let urls = [
            url(escaped: "a", prefix: "https://example.com"), url(escaped: "a", prefix: "file://example.com"),
            url(escaped: "a%00"), url(escaped: "d%2Fa"), url(escaped: "d/%2E%2E%2Fa"),
        ]
        var calls: [(String, () throws -> Void)] = []
        for case let url? in urls {
            calls.append(("write(…, to: \(url))", { try write(Data("new".utf8), to: url) }))
            calls.append(("read(from: \(url))", { _ = try content(at: url) }))
            calls.append(("contentsOfDirectory(at: \(url))", { _ = try entries(at: url) }))
            calls.append(
                (
                    "createDirectory(at: \(url), withIntermediateDirectories: true)",
                    { try createDirectory(at: url, parents: true) }
                ))
            calls.append(("removeItem(at: \(url))", { try remove(at: url) }))
        }
        return calls
    }
}

// MARK: Calls, traced for the messages of violations

extension FileOperationsUnderTest {
    func write(_ content: Data, to url: URL, file: StaticString = #fileID, line: UInt = #line) throws {
        let call = "write(\(content.count) bytes, to: \(text(of: url)))"
        try CallTrace.calling(call, changes: true, file: file, line: line) {
            try fileSystem.write(content, to: url)
        }
    }

    func write(_ content: String, _ name: String, file: StaticString = #fileID, line: UInt = #line) throws {
        try write(Data(content.utf8), to: url(name), file: file, line: line)
    }

    func content(at url: URL, file: StaticString = #fileID, line: UInt = #line) throws -> Data {
        try CallTrace.calling("read(from: \(text(of: url)))", changes: false, file: file, line: line) {
            try fileSystem.read(from: url)
        }
    }

    func content(_ name: String, file: StaticString = #fileID, line: UInt = #line) throws -> String {
        String(decoding: try content(at: url(name), file: file, line: line), as: UTF8.self)
    }

    func createDirectory(
        at url: URL, parents: Bool, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let call = "createDirectory(at: \(text(of: url)), withIntermediateDirectories: \(parents))"
        try CallTrace.calling(call, changes: true, file: file, line: line) {
            try fileSystem.createDirectory(at: url, withIntermediateDirectories: parents)
        }
    }

    func createDirectory(
        _ name: String, parents: Bool = false, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        try createDirectory(at: url(name, isDirectory: true), parents: parents, file: file, line: line)
    }

    func remove(at url: URL, file: StaticString = #fileID, line: UInt = #line) throws {
        try CallTrace.calling("removeItem(at: \(text(of: url)))", changes: true, file: file, line: line) {
            try fileSystem.removeItem(at: url)
        }
    }

    func remove(_ name: String, file: StaticString = #fileID, line: UInt = #line) throws {
        try remove(at: url(name), file: file, line: line)
    }

    func entries(at url: URL, file: StaticString = #fileID, line: UInt = #line) throws -> [URL] {
        try CallTrace.calling("contentsOfDirectory(at: \(text(of: url)))", changes: false, file: file, line: line) {
            try fileSystem.contentsOfDirectory(at: url)
        }
    }

    func names(in name: String, file: StaticString = #fileID, line: UInt = #line) throws -> [String] {
        try entries(at: url(name, isDirectory: true), file: file, line: line).map(self.name(of:))
    }

    func exists(atPath path: String, file: StaticString = #fileID, line: UInt = #line) throws -> Bool {
        let call = "fileExists(atPath: \(path.debugDescription))"
        return try CallTrace.calling(call, changes: false, file: file, line: line) {
            fileSystem.fileExists(atPath: path)
        }
    }

    func link(_ name: String, to target: String, file: StaticString = #fileID, line: UInt = #line) throws {
        guard let makeSymbolicLink else {
            throw ConformanceViolation(
                "set makeSymbolicLink of the FileOperationsUnderTest, or leave out .symbolicLinks")
        }
        let call = "makeSymbolicLink(\(name), to: \(target))"
        try CallTrace.calling(call, changes: true, file: file, line: line) {
            try makeSymbolicLink(url(name).absoluteURL, url(target).absoluteURL)
        }
    }

    /// Creates a link to a path that starts from the directory of the link.
    func relativeLink(_ name: String, to target: String, file: StaticString = #fileID, line: UInt = #line) throws {
        guard let makeSymbolicLink else { return try link(name, to: target, file: file, line: line) }
        let link = url(name).absoluteURL
        guard let url = URL(string: target, relativeTo: link.deletingLastPathComponent()) else {
            throw ConformanceViolation("Foundation refuses the relative URL \(target)", file: file, line: line)
        }
        let call = "makeSymbolicLink(\(name), to: the relative \(target))"
        try CallTrace.calling(call, changes: true, file: file, line: line) { try makeSymbolicLink(link, url) }
    }

    /// Leaves less than a mebibyte free on the device.
    func fill(file: StaticString = #fileID, line: UInt = #line) throws {
        guard let fillDevice else {
            throw ConformanceViolation(
                "set fillDevice of the FileOperationsUnderTest, or leave out .limitedSpace", file: file, line: line)
        }
        try fillDevice()
    }

    /// Creates links, the first one to `target`, each other one to the link before it; returns their names.
    func links(
        _ name: String, _ count: Int, to target: String, file: StaticString = #fileID, line: UInt = #line
    ) throws -> [String] {
        let names = (1...count).map { "\(name)\($0)" }
        for (link, target) in zip(names, [target] + names) { try self.link(link, to: target, file: file, line: line) }
        return names
    }

    /// A URL below the directory as its path from there, also with `..`; any other URL unchanged.
    private func text(of url: URL) -> String {
        let root = directory.absoluteString
        let text = url.absoluteString
        guard url.baseURL == directory.baseURL, text.utf8.starts(with: root.utf8), text.utf8.count > root.utf8.count
        else { return text }
        let name = String(decoding: text.utf8.dropFirst(root.utf8.count), as: UTF8.self)
        return name.utf8.first == UInt8(ascii: "/") ? String(name.dropFirst()) : name
    }
}

// MARK: Expectations

extension FileOperationsUnderTest {
    func expectNames(
        _ expected: [String], in name: String = "", file: StaticString = #fileID, line: UInt = #line
    ) throws {
        try expectNames(expected, at: url(name, isDirectory: true), file: file, line: line)
    }

    func expectNames(
        _ expected: [String], at url: URL, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let entries: [URL]
        let found: [String]
        do {
            entries = try self.entries(at: url, file: file, line: line)
            found = try entries.map(name(of:))
        } catch {
            throw ConformanceViolation(
                "contentsOfDirectory(at: \(url)): expected \(text(of: expected)), got \(cause(of: error))",
                file: file, line: line)
        }
        let (missing, extra) = (expected.without(found), found.without(expected))
        guard !missing.isEmpty || !extra.isEmpty else { return }
        // A name that is escaped wrongly shows in its URL alone.
        let listed = zip(entries, found).filter { extra.contains($0.1) }.map(\.0.absoluteString)
        throw ConformanceViolation(
            "contentsOfDirectory(at: \(url)): expected \(text(of: expected)), got \(text(of: found)); "
                + "missing: \(text(of: missing)), too many: \(text(of: extra))"
                + (listed.isEmpty ? "" : ", listed as \(listed.prefix(12).sorted().joined(separator: ", "))"),
            file: file, line: line)
    }

    private func text(of names: [String]) -> String {
        names.count > 12
            ? "\(names.count) names" : "[" + names.map(\.escaped).sorted().joined(separator: ", ") + "]"
    }

    func expectContent(
        _ expected: String, _ name: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        try expectContent(expected, at: url(name), file: file, line: line)
    }

    func expectContent(
        _ expected: String, at url: URL, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let found: String
        do {
            found = String(decoding: try content(at: url, file: file, line: line), as: UTF8.self)
        } catch {
            throw ConformanceViolation(
                "read(from: \(text(of: url))): expected \(expected.escaped), got \(cause(of: error))", file: file,
                line: line)
        }
        try expect(
            found.utf8.elementsEqual(expected.utf8),
            "read(from: \(text(of: url))): expected \(expected.escaped), got \(found.escaped)", file: file, line: line)
    }

    func expectExists(
        _ expected: Bool, _ suffix: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let path = try path(suffix)
        try expectEqual(
            exists(atPath: path, file: file, line: line), expected, "fileExists(atPath: \(path))", file: file,
            line: line)
    }

    /// Throws a violation unless `body` throws an error, which is returned.
    @discardableResult
    func expectFailure<Result>(
        _ call: String, file: StaticString = #fileID, line: UInt = #line, _ body: () throws -> Result
    ) throws -> any Error {
        let result: Result
        do {
            result = try body()
        } catch {
            return cause(of: error)
        }
        let returned = result is Void ? "success" : shown(result)
        // The call that broke the promise is this one, unless it changes nothing.
        if result is Void { CallTrace.current?.setLastChange(nil) }
        throw ConformanceViolation("\(call): expected an error, got \(returned)", file: file, line: line)
    }

    /// Throws a violation if a file or a directory is found at this name by any call that changes nothing.
    func expectNothing(at name: String, file: StaticString = #fileID, line: UInt = #line) throws {
        try expectExists(false, "/" + name, file: file, line: line)
        try expectFailure("read(from: \(name))", file: file, line: line) { try content(name) }
        try expectFailure("contentsOfDirectory(at: \(name))", file: file, line: line) { try names(in: name) }
    }

    /// Throws a violation unless a content that is too large for a full device is refused.
    func expectNoSpace(_ name: String, file: StaticString = #fileID, line: UInt = #line) throws {
        // More than a mebibyte, of which the space of the old content may be a part.
        let content = Data(count: 1 << 20 + 1024)
        try expectFailure("write(\(content.count) bytes, to: \(name)) on a full device", file: file, line: line) {
            try write(content, to: url(name), file: file, line: line)
        }
    }

    private func cause(of error: any Error) -> any Error { (error as? FailedCall)?.error ?? error }
}

// MARK: Threads

extension FileOperationsUnderTest {
    /// Runs `body` on several threads, which begin together, until each has returned.
    func atOnce(
        _ count: Int, _ call: String, file: StaticString = #fileID, line: UInt = #line,
        _ body: @escaping @Sendable (_ thread: Int) throws -> Void
    ) throws {
        let (start, end, failures) = (StartingLine(count), DispatchGroup(), Failures())
        let trace = CallTrace.current
        for thread in 0..<count {
            // A serial queue gets a thread at once, however many are blocked.
            DispatchQueue(label: "ConformanceCheck").async(group: end) {
                CallTrace.$current.withValue(trace) {
                    start.wait()
                    do { try body(thread) } catch { failures.append(error) }
                }
            }
        }
        end.wait()
        trace?.setLastChange("\(call) by \(count) threads at once")
        guard let failure = failures.first else { return }
        trace?.setLastChange(nil)
        let reason = (failure as? FailedCall).map { "\($0.error) of \($0.call.text)" } ?? "\(failure)"
        throw ConformanceViolation(
            "\(call) by \(count) threads at once: expected success, got \(reason)", file: file, line: line)
    }

    /// Calls `body` with the number of the round, at least `rounds` times and for a tenth of a second: threads interrupt
    /// each other in some of many rounds only.
    func repeatedly(_ rounds: Int = 4, _ body: (_ round: Int) throws -> Void) rethrows {
        let end = ContinuousClock.now + .milliseconds(100)
        var round = 0
        while !Task.isCancelled, round < rounds || ContinuousClock.now < end {
            try body(round)
            round += 1
        }
    }
}

/// The errors of several threads.
final class Failures: Sendable {
    private let all = Mutex<[any Error]>([])

    var first: (any Error)? { all.withLock { $0.first } }

    func append(_ error: any Error) { all.withLock { $0.append(error) } }
}

/// Threads that wait here begin together.
private final class StartingLine: Sendable {
    private let missing: Atomic<Int>

    init(_ count: Int) { missing = Atomic(count) }

    /// Waits without blocking: a thread that has to be woken would begin after the last one.
    func wait() {
        missing.subtract(1, ordering: .acquiringAndReleasing)
        while missing.load(ordering: .acquiring) > 0 { sched_yield() }
    }
}

extension [String] {
    /// The elements that are left when each of `others` is removed once, byte for byte.
    fileprivate func without(_ others: [String]) -> [String] {
        var counts: [[UInt8]: Int] = [:]
        for other in others { counts[Array<UInt8>(other.utf8), default: 0] += 1 }
        return filter { name in
            let left = counts[Array<UInt8>(name.utf8), default: 0]
            counts[Array<UInt8>(name.utf8)] = left - 1
            return left <= 0
        }
    }
}
