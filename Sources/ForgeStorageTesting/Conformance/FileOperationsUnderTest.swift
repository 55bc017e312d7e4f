import Dispatch
public import ForgeFileSystem
public import Foundation
import Synchronization

/// An implementation of `FileSystemProtocol` and what the checks do with it.
public struct FileOperationsUnderTest: Sendable {
    /// The implementation.
    public var fileSystem: any FileSystemProtocol

    /// The URL of an empty directory for the check, with or without a final slash. No check leaves it.
    public var directory: URL

    /// Creates a symbolic link at a URL to another, for the checks that need ``ConformanceCapability/symbolicLinks``.
    public var makeSymbolicLink: (@Sendable (_ url: URL, _ target: URL) throws -> Void)?

    /// Leaves less than a mebibyte free on the device, for the check that needs ``ConformanceCapability/limitedSpace``.
    public var fillDevice: (@Sendable () throws -> Void)?

    /// Creates a subject.
    public init(_ fileSystem: any FileSystemProtocol, directory: URL) {
        self.fileSystem = fileSystem
        self.directory = directory
    }
}

extension ConformanceCapability {
    /// There are symbolic links (``FileOperationsUnderTest/makeSymbolicLink``).
    public static let symbolicLinks = ConformanceCapability("symbolic links")

    /// A file is replaced atomically, which `FileSystemProtocol` recommends, but does not require.
    public static let atomicReplacement = ConformanceCapability("atomic replacement of files")

    /// Names are compared byte for byte: canonically equivalent names, and names of another case, are different files.
    public static let bytewiseNames = ConformanceCapability("names compared byte for byte")

    /// A name can be of any bytes, also such that are not UTF-8, which APFS refuses.
    public static let namesOfAnyBytes = ConformanceCapability("names that are not UTF-8")
}

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

    /// The calls that must refuse their URL, which is no path. A URL that is wrongly accepted does not lead out of the
    /// directory.
    func refusedCalls() -> [(String, () throws -> Void)] {
        let urls = [
            url(escaped: "a", prefix: "https://example.com"), url(escaped: "a", prefix: "file://example.com"),
            url(escaped: "a%00"), url(escaped: "d%2Fa"), url(escaped: "d/%2E%2E%2Fa"),
        ]
        var calls: [(String, () throws -> Void)] = []
        for case let url? in urls {
            calls.append(("write(…, to: \(url))", { try fileSystem.write(Data("new".utf8), to: url) }))
            calls.append(("read(from: \(url))", { _ = try fileSystem.read(from: url) }))
            calls.append(
                ("contentsOfDirectory(at: \(url))", { _ = try fileSystem.contentsOfDirectory(at: url) }))
            calls.append(
                (
                    "createDirectory(at: \(url), withIntermediateDirectories: true)",
                    { try fileSystem.createDirectory(at: url, withIntermediateDirectories: true) }
                ))
            calls.append(("removeItem(at: \(url))", { try fileSystem.removeItem(at: url) }))
        }
        return calls
    }

    /// The path of the directory, followed by a suffix.
    func path(_ suffix: String) throws -> String { String(try POSIXPath(directory)) + suffix }

    func write(_ content: String, _ name: String) throws {
        try fileSystem.write(Data(content.utf8), to: url(name))
    }

    func content(_ name: String) throws -> String {
        String(decoding: try fileSystem.read(from: url(name)), as: UTF8.self)
    }

    func createDirectory(_ name: String, parents: Bool = false) throws {
        try fileSystem.createDirectory(at: url(name, isDirectory: true), withIntermediateDirectories: parents)
    }

    func remove(_ name: String) throws { try fileSystem.removeItem(at: url(name)) }

    func link(_ name: String, to target: String) throws {
        guard let makeSymbolicLink else { throw ConformanceViolation("makeSymbolicLink is nil") }
        try makeSymbolicLink(url(name), url(target))
    }

    /// The last component of a URL, decoded.
    func name(of url: URL) throws -> String {
        String(decoding: try POSIXPath(url).bytes.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    func names(in name: String) throws -> [String] {
        try fileSystem.contentsOfDirectory(at: url(name, isDirectory: true)).map(self.name(of:))
    }

    func expectNames(
        _ expected: [String], in name: String = "", file: StaticString = #fileID, line: UInt = #line
    ) throws {
        try expectNames(expected, at: url(name, isDirectory: true), file: file, line: line)
    }

    func expectNames(
        _ expected: [String], at url: URL, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let found = try fileSystem.contentsOfDirectory(at: url).map(name(of:))
        let (missing, extra) = (expected.without(found), found.without(expected))
        guard !missing.isEmpty || !extra.isEmpty else { return }
        func shown(_ names: [String]) -> String {
            names.count > 12
                ? "\(names.count) names" : "[" + names.map(\.escaped).sorted().joined(separator: ", ") + "]"
        }
        throw ConformanceViolation(
            "contentsOfDirectory(at: \(url)): expected \(shown(expected)), got \(shown(found)); "
                + "missing: \(shown(missing)), too many: \(shown(extra))", file: file, line: line)
    }

    func expectContent(
        _ expected: String, _ name: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let found: String
        do {
            found = try content(name)
        } catch {
            throw ConformanceViolation(
                "read(from: \(name)): expected \(expected.escaped), got \(error)", file: file, line: line)
        }
        try expect(
            found.utf8.elementsEqual(expected.utf8),
            "read(from: \(name)): expected \(expected.escaped), got \(found.escaped)", file: file, line: line)
    }

    func expectExists(
        _ expected: Bool, _ suffix: String, file: StaticString = #fileID, line: UInt = #line
    ) throws {
        let path = try path(suffix)
        try expectEqual(
            fileSystem.fileExists(atPath: path), expected, "fileExists(atPath: \(path))", file: file, line: line)
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
            return error
        }
        let returned = result is Void ? "success" : "\(result)"
        throw ConformanceViolation("\(call): expected an error, got \(returned)", file: file, line: line)
    }

    /// Runs `body` on several threads, which begin together.
    func atOnce(
        _ count: Int, _ call: String, file: StaticString = #fileID, line: UInt = #line,
        _ body: @escaping @Sendable (_ thread: Int) throws -> Void
    ) throws {
        let (start, end, failures) = (StartingLine(count), DispatchGroup(), SecretSamples.Failures())
        for thread in 0..<count {
            // A serial queue gets a thread at once, however many are blocked.
            DispatchQueue(label: "ConformanceCheck").async(group: end) {
                start.wait()
                do { try body(thread) } catch { failures.append("\(error)") }
            }
        }
        end.wait()
        guard let failure = failures.all.first else { return }
        throw ConformanceViolation(
            "\(call) by \(count) threads at once: expected success, got \(failure)", file: file, line: line)
    }
}

/// Threads that wait here begin together.
private final class StartingLine: Sendable {
    private let count: Int
    private let arrived = Mutex(0)
    private let start = DispatchSemaphore(value: 0)

    init(_ count: Int) { self.count = count }

    func wait() {
        let isLast = arrived.withLock { arrived in
            arrived += 1
            return arrived == count
        }
        guard isLast else { return start.wait() }
        for _ in 1..<count { start.signal() }
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
