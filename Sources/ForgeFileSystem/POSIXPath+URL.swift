public import Foundation
import SystemPackage

extension POSIXPath {
    /// The path of a file URL, with every percent escape decoded exactly once.
    ///
    /// Foundation's own conversions keep `%00` as text and turn bytes that are not UTF-8 into an empty path, so the
    /// decoding is done here (RFC 3986 section 2.1, RFC 8089).
    ///
    /// - Throws: ``FileSystemError`` with `EINVAL` for another scheme, a host other than this one, an escaped slash, a
    ///   NUL, or an invalid escape.
    public init(_ url: URL) throws(FileSystemError) {
        let absolute = url.absoluteURL
        let text = absolute.absoluteString
        func invalid() -> FileSystemError { FileSystemError(.resolve, .invalidArgument, path: POSIXPath(text)) }
        guard absolute.isFileURL else { throw invalid() }
        if let host = absolute.host(percentEncoded: true), !host.isEmpty, host != "localhost" { throw invalid() }
        var encoded = Substring(absolute.path(percentEncoded: true)).utf8[...]
        var decoded: [UInt8] = []
        decoded.reserveCapacity(encoded.count + 1)
        while let byte = encoded.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                guard byte != 0 else { throw invalid() }
                decoded.append(byte)
                continue
            }
            guard let high = encoded.popFirst()?.hexDigitValue, let low = encoded.popFirst()?.hexDigitValue else {
                throw invalid()
            }
            let value = high << 4 | low
            guard value != 0, value != UInt8(ascii: "/") else { throw invalid() }
            decoded.append(value)
        }
        if decoded.count > 1, decoded.last == UInt8(ascii: "/") { decoded.removeLast() }
        decoded.append(0)
        self.init(terminated: decoded)
    }
}

extension URL {
    /// The file URL of an absolute path; a relative path is resolved from the process's working directory.
    ///
    /// - Parameters:
    ///   - path: The path, of any bytes.
    ///   - isDirectory: Whether the URL ends in a slash, as Foundation marks directories.
    public init(_ path: POSIXPath, isDirectory: Bool = false) {
        if let text = String(validating: path) {
            // Foundation expands a leading `~` to a home directory.
            let literal = path.isAbsolute ? text : "./" + text
            self.init(filePath: literal, directoryHint: isDirectory ? .isDirectory : .notDirectory)
            return
        }
        var encoded = "file://"
        for byte in path.bytes {
            switch byte {
            case UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                encoded += byte < 16 ? "%0" : "%"
                encoded += String(byte, radix: 16, uppercase: true)
            }
        }
        if isDirectory, !encoded.hasSuffix("/") { encoded += "/" }
        self = URL(string: encoded) ?? URL(filePath: String(path))
    }
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
