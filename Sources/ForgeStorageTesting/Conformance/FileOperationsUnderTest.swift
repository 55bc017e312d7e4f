public import ForgeFileSystem
public import Foundation

/// An implementation of `FileSystemProtocol` and what the checks do with it.
///
/// ```swift
/// import ForgeFileSystem
/// import ForgeStorageTesting
/// import Foundation
///
/// let report = await ConformanceSuite.fileOperations.run(
///     on: "InMemoryFileSystem", having: [.symbolicLinks, .atomicReplacement, .bytewiseNames, .limitedSpace]
/// ) {
///     let fileSystem = InMemoryFileSystem()
///     let directory = URL(filePath: "/checks", directoryHint: .isDirectory)
///     try fileSystem.createDirectory(at: directory, withIntermediateDirectories: true)
///     var subject = FileOperationsUnderTest(fileSystem, directory: directory)
///     subject.makeSymbolicLink = { url, target in
///         try fileSystem.createSymbolicLink(POSIXPath(url), to: POSIXPath(target))
///     }
///     subject.fillDevice = { try fileSystem.setQuota(.init(sizeInBytes: 65_536)) }
///     return subject
/// }
/// ```
public struct FileOperationsUnderTest: Sendable {
    /// The implementation.
    public var fileSystem: any FileSystemProtocol

    /// The URL of an empty directory for the check, with or without a final slash. No check leaves it.
    public var directory: URL

    /// Creates a symbolic link at a URL to another, for the checks that need ``ConformanceCapability/symbolicLinks``.
    ///
    /// These checks run, and need it, unless `having:` names the capabilities and this one is not among them.
    public var makeSymbolicLink: (@Sendable (_ url: URL, _ target: URL) throws -> Void)?

    /// Leaves less than a mebibyte free on the device, for the check that needs ``ConformanceCapability/limitedSpace``.
    ///
    /// This check runs, and needs it, unless `having:` names the capabilities and this one is not among them.
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
