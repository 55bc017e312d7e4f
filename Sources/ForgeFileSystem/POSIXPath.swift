public import Foundation
public import SystemPackage

// Memory safety: The array of a path ends with a NUL, and is valid while a closure reads it.

/// A POSIX path: a string of bytes, kept unchanged.
///
/// Unlike `FilePath` it is never normalised: `link/` is not `link` (a trailing slash follows a symbolic link), and
/// bytes that are not UTF-8 are kept. It may contain a NUL, so that the call that receives it refuses it.
public struct POSIXPath: Hashable, Sendable {
    /// The bytes and a terminating NUL, as system calls require.
    @usableFromInline let terminated: [UInt8]

    @usableFromInline init(terminated: [UInt8]) {
        self.terminated = terminated
    }

    /// A path of these bytes.
    @inlinable public init(_ bytes: some Sequence<UInt8>) {
        var terminated = [UInt8](bytes)
        terminated.append(0)
        self.terminated = terminated
    }

    /// A path of the UTF-8 bytes of a string.
    @inlinable public init(_ string: String) {
        self.init(string.utf8)
    }

    /// A path of the bytes of a `FilePath`.
    public init(_ path: FilePath) {
        self = unsafe path.withPlatformString { start in
            unsafe POSIXPath(UnsafeRawBufferPointer(start: start, count: path.length))
        }
    }

    /// A path of the bytes in a span.
    package init(_ bytes: Span<UInt8>) {
        self.init(unsafe bytes.withUnsafeBufferPointer { unsafe [UInt8]($0) })
    }

    /// The bytes of the path.
    @inlinable public var bytes: ArraySlice<UInt8> { terminated.dropLast() }

    /// The number of bytes.
    @inlinable public var count: Int { terminated.count - 1 }

    /// Whether the path has no bytes; such a path cannot be resolved (`ENOENT`).
    @inlinable public var isEmpty: Bool { terminated.count == 1 }

    /// Whether the path starts from the root.
    @inlinable public var isAbsolute: Bool { terminated[0] == UInt8(ascii: "/") }

    /// Whether the path contains a NUL; no file system accepts such a path.
    public var containsNUL: Bool {
        unsafe terminated.withUnsafeBytes { bytes in
            var position = 0
            // Eight bytes at a time: only a zero byte borrows from above without having its own highest bit set.
            while position + 8 < bytes.count {
                let word = unsafe bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)
                if (word &- 0x0101_0101_0101_0101) & ~word & 0x8080_8080_8080_8080 != 0 { return true }
                position += 8
            }
            while position < bytes.count - 1 {
                if unsafe bytes[position] == 0 { return true }
                position += 1
            }
            return false
        }
    }

    /// Calls `body` with the bytes, without the terminating NUL.
    @inlinable public func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result
    {
        try unsafe terminated.withUnsafeBytes { bytes in
            try unsafe body(UnsafeRawBufferPointer(rebasing: bytes.dropLast()))
        }
    }

    /// This path, a slash unless it is empty or ends in one, and `component`.
    public func appending(_ component: POSIXPath) -> POSIXPath {
        var joined = [UInt8]()
        joined.reserveCapacity(terminated.count + component.terminated.count)
        joined.append(contentsOf: bytes)
        if let last = joined.last, last != UInt8(ascii: "/") { joined.append(UInt8(ascii: "/")) }
        joined.append(contentsOf: component.terminated)
        return POSIXPath(terminated: joined)
    }

    /// The path before its last component, and that component, without trailing slashes.
    ///
    /// The first part is empty for a relative path of one component, `/` for an absolute one; the second is empty only
    /// for `/` and for an empty path.
    public func splitLast() -> (parent: POSIXPath, name: POSIXPath) {
        let slash = UInt8(ascii: "/")
        var end = bytes.endIndex
        while end > bytes.startIndex, bytes[end - 1] == slash { end -= 1 }
        let trimmed = bytes[..<end]
        guard let last = trimmed.lastIndex(of: slash) else {
            return trimmed.isEmpty ? (POSIXPath(bytes), POSIXPath([])) : (POSIXPath([]), POSIXPath(trimmed))
        }
        var parentEnd = last
        while parentEnd > trimmed.startIndex, trimmed[parentEnd - 1] == slash { parentEnd -= 1 }
        let parent = parentEnd == trimmed.startIndex ? trimmed[...last].prefix(1) : trimmed[..<parentEnd]
        return (POSIXPath(parent), POSIXPath(trimmed[(last + 1)...]))
    }
}

extension POSIXPath: ExpressibleByStringLiteral {
    @inlinable public init(stringLiteral value: String) {
        self.init(value)
    }
}

extension POSIXPath: CustomStringConvertible {
    /// The path as one line of text that differs from that of every other path.
    ///
    /// A backslash is doubled. Bytes that are not UTF-8 are shown as `\xNN`, and so are those of characters that control
    /// a terminal, reorder text or have no form (the general categories Cc, Cf, Cn, Co, Zl and Zp).
    public var description: String {
        var text = ""
        var rest = bytes
        while let byte = rest.first {
            var decoder = UTF8()
            var iterator = rest.makeIterator()
            if case .scalarValue(let scalar) = decoder.decode(&iterator), scalar.isVisible {
                text += scalar == "\\" ? "\\\\" : String(scalar)
                rest = rest.dropFirst(UTF8.width(scalar))
            } else {
                let digits = String(byte, radix: 16)
                text += digits.count == 1 ? "\\x0\(digits)" : "\\x\(digits)"
                rest = rest.dropFirst()
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    fileprivate var isVisible: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: false
        default: true
        }
    }
}

extension String {
    /// Calls `body` with the UTF-8 of the string.
    package func withUTF8Span<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        if let result = unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0.span) }) { return result }
        var copy = self
        return copy.withUTF8 { unsafe body($0.span) }
    }

    /// The path as a string; bytes that are not UTF-8 become U+FFFD, so it may not refer to the same file.
    public init(_ path: POSIXPath) {
        self = String(decoding: path.bytes, as: UTF8.self)
    }

    /// The path as a string, or nil if it is not UTF-8.
    public init?(validating path: POSIXPath) {
        self.init(validating: path.bytes, as: UTF8.self)
    }
}

extension POSIXPath {
    /// The path of a file URL, with every percent escape decoded exactly once, without its final slash.
    ///
    /// The slash marks the URL of a directory (`URL.hasDirectoryPath`), and does not mean that a link is followed. The
    /// path of a relative URL is appended to the directory of its base, and `..` is kept: `URL.absoluteURL` would remove
    /// it with the component before it, which may be a link (RFC 3986 section 5.2.4, `path_resolution(7)`).
    ///
    /// Foundation's own conversions keep `%00` as text and turn bytes that are not UTF-8 into an empty path, so the
    /// decoding is done here (RFC 3986 section 2.1, RFC 8089).
    ///
    /// - Throws: ``FileSystemError`` with `EINVAL` for another scheme, a host other than `localhost`, an escaped slash, a
    ///   NUL, or an invalid escape.
    public init(_ url: URL) throws(FileSystemError) {
        let absolute = url.absoluteURL
        func invalid() -> FileSystemError {
            FileSystemError(.resolve, .invalidArgument, path: POSIXPath(absolute.absoluteString))
        }
        guard absolute.isFileURL else { throw URL.unknownStart(of: absolute) ?? invalid() }
        if let host = absolute.host(percentEncoded: true), !host.isEmpty, host != "localhost" { throw invalid() }
        guard let decoded = Self.decodingPercentEscapes(Self.encodedPath(of: url), refusing: "/"),
            !decoded.contains(0)
        else { throw invalid() }
        var path = POSIXPath(decoded)
        if path.count > 1, decoded.last == UInt8(ascii: "/") { path = POSIXPath(decoded.dropLast()) }
        self = path
    }

    /// The percent-encoded path of a URL; that of a relative URL follows the directory of its base.
    private static func encodedPath(of url: URL) -> String {
        let path = url.absoluteURL.path(percentEncoded: true)
        guard let base = url.baseURL,
            let relative = URLComponents(url: url, resolvingAgainstBaseURL: false)?.percentEncodedPath,
            let first = relative.utf8.first, first != UInt8(ascii: "/")
        else { return path }
        let above = Array(encodedPath(of: base).utf8)
        guard let slash = above.lastIndex(of: UInt8(ascii: "/")) else { return path }
        let below = POSIXPath(relative).withoutLeadingDots.bytes
        return String(decoding: above[...slash] + below, as: UTF8.self)
    }

    /// The bytes of a text with percent escapes (RFC 3986, section 2.1); nil for an invalid escape, and for an escaped
    /// `refused` character, such as a slash, which would become a separator.
    package static func decodingPercentEscapes(_ text: String, refusing refused: Unicode.Scalar? = nil) -> [UInt8]? {
        var encoded = Substring(text).utf8[...]
        var decoded: [UInt8] = []
        decoded.reserveCapacity(encoded.count + 1)
        while let byte = encoded.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                decoded.append(byte)
                continue
            }
            guard let high = encoded.popFirst()?.hexDigitValue, let low = encoded.popFirst()?.hexDigitValue else {
                return nil
            }
            guard refused.map({ $0.value != UInt32(high << 4 | low) }) ?? true else { return nil }
            decoded.append(high << 4 | low)
        }
        return decoded
    }

    /// The path with every byte escaped that a URL's path cannot contain (RFC 3986, section 3.3).
    package var percentEncoded: String {
        var encoded = ""
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            case _ where "/-._~!$&'()*+,;=:@".utf8.contains(byte):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                encoded += byte < 16 ? "%0" : "%"
                encoded += String(byte, radix: 16, uppercase: true)
            }
        }
        return encoded
    }

    /// The path without `.` components at its beginning, which name the directory that the path starts from; empty for
    /// that directory itself.
    private var withoutLeadingDots: POSIXPath {
        let (dot, slash) = (UInt8(ascii: "."), UInt8(ascii: "/"))
        var rest = bytes
        while rest.first == dot, rest.count == 1 || rest[rest.startIndex + 1] == slash {
            rest = rest.dropFirst().drop { $0 == slash }
        }
        return POSIXPath(rest)
    }

    /// The path followed from the process's working directory if it is relative, without any other change: `..` and `~`
    /// are kept; nil if the path of the working directory is not known, as after that directory was removed.
    fileprivate var absolute: POSIXPath? {
        guard !isAbsolute else { return self }
        guard let directory = sysWorkingDirectory() else { return nil }
        let path = withoutLeadingDots
        return path.isEmpty ? directory : directory.appending(path)
    }
}

extension URL {
    /// The file URL of an absolute path; a relative path starts from the process's present working directory.
    ///
    /// The bytes are kept: no `..` is resolved, no `~` expanded and nothing normalised. Of a relative path, only `.`
    /// components at the beginning are left out. If the path of the working directory is not known (`getcwd(3)`), the
    /// result is no file URL, and every call that receives it fails with `EINVAL`.
    ///
    /// - Parameters:
    ///   - path: The path, of any bytes.
    ///   - isDirectory: Whether the URL ends in a slash, as Foundation marks directories.
    public init(_ path: POSIXPath, isDirectory: Bool = false) {
        var encoded = path.absolute.map { "file://" + $0.percentEncoded } ?? Self.relativePrefix + path.percentEncoded
        if isDirectory, !encoded.hasByteSuffix("/") { encoded += "/" }
        // The text has only characters that a URL may contain, so that the alternative is never used.
        self = URL(string: encoded) ?? URL(filePath: String(path))
    }

    /// The beginning of the URL of a relative path whose start is not known.
    private static let relativePrefix = "relative:"

    /// The error for the URL of a relative path whose start is not known; nil for any other URL.
    fileprivate static func unknownStart(of url: URL) -> FileSystemError? {
        guard let escaped = url.absoluteString.droppingBytePrefix(relativePrefix),
            let path = POSIXPath.decodingPercentEscapes(escaped)
        else { return nil }
        return FileSystemError(
            .resolve, .invalidArgument, path: POSIXPath(path), underlying: UnknownWorkingDirectory())
    }
}

/// The system does not know the path of the working directory (`getcwd(3)`).
private struct UnknownWorkingDirectory: Error, CustomStringConvertible {
    var description: String { "the working directory was removed, or its path cannot be read" }
}

extension UInt8 {
    fileprivate var hexDigitValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
