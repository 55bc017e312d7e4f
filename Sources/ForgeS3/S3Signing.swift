#if S3
import Crypto
package import Foundation
import NIOCore

/// Signatures of requests: AWS Signature Version 4 for S3.
///
/// A request has its signature in a header, with the SHA-256 of its body: a server detects a body that was changed on
/// the way. The store computes that digest anyway, as the checksum that it keeps with a file. `UNSIGNED-PAYLOAD` is
/// used by presigned URLs alone, because their body is not known when they are signed.
///
/// Source: "Signature Calculations for the Authorization Header" and "Authenticating Requests: Using Query Parameters"
/// in the Amazon S3 API Reference.
package struct S3Signer: Sendable {
    static let unsignedPayload = "UNSIGNED-PAYLOAD"
    private static let algorithm = "AWS4-HMAC-SHA256"

    var credentials: S3Credentials
    var region: String
    var service: String

    package init(credentials: S3Credentials, region: String, service: String = "s3") {
        self.credentials = credentials
        self.region = region
        self.service = service
    }

    /// Adds the date, the digest of the body, the token and the signature to the headers of a request.
    ///
    /// - Parameters:
    ///   - request: The request. All of its headers are signed.
    ///   - payload: The SHA-256 of the body in hexadecimal digits.
    ///   - date: The time, as the server knows it.
    package func sign(_ request: inout S3Wire, payload: String, at date: Date) {
        request.headers.append(("x-amz-content-sha256", payload))
        request.headers.append(("x-amz-date", S3Date.stamp(date)))
        if let token = credentials.sessionToken { request.headers.append(("x-amz-security-token", token)) }
        let headers = canonicalHeaders(request)
        let names = headers.map(\.name).joined(separator: ";")
        let signature = signature(of: request, headers, payload, at: date)
        request.headers.append(
            (
                "Authorization",
                "\(Self.algorithm) Credential=\(credentials.accessKeyID)/\(scope(date)),"
                    + "SignedHeaders=\(names),Signature=\(signature)"
            ))
    }

    /// Adds a signature to the query of a request, which makes its URL usable by others for a while.
    ///
    /// Only the host is signed, and headers that the request has: the user of the URL must send them too.
    func presign(_ request: inout S3Wire, validFor seconds: Int, at date: Date) {
        let headers = canonicalHeaders(request)
        request.query += [
            ("X-Amz-Algorithm", Self.algorithm), ("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope(date))"),
            ("X-Amz-Date", S3Date.stamp(date)), ("X-Amz-Expires", String(seconds)),
            ("X-Amz-SignedHeaders", headers.map(\.name).joined(separator: ";")),
        ]
        if let token = credentials.sessionToken { request.query.append(("X-Amz-Security-Token", token)) }
        let signature = signature(of: request, headers, Self.unsignedPayload, at: date)
        request.query.append(("X-Amz-Signature", signature))
    }

    private func scope(_ date: Date) -> String {
        "\(S3Date.stamp(date).prefix(8))/\(region)/\(service)/aws4_request"
    }

    private func canonicalHeaders(_ request: S3Wire) -> [(name: String, value: String)] {
        (request.headers + [("host", request.host)])
            .map { ($0.0.lowercased(), $0.1.split(separator: " ").joined(separator: " ")) }
            .sorted { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
    }

    private func signature(
        of request: S3Wire, _ headers: [(name: String, value: String)], _ payload: String, at date: Date
    ) -> String {
        let canonical =
            [request.method, request.path, request.encodedQuery]
            + headers.map { "\($0.name):\($0.value)" } + ["", headers.map(\.name).joined(separator: ";"), payload]
        let hash = S3Encoding.hexadecimal(SHA256.hash(data: Data(canonical.joined(separator: "\n").utf8)))
        let text = [Self.algorithm, S3Date.stamp(date), scope(date), hash].joined(separator: "\n")
        var key = SymmetricKey(data: Data("AWS4\(credentials.secretAccessKey)".utf8))
        for part in scope(date).split(separator: "/") {
            key = SymmetricKey(data: HMAC<SHA256>.authenticationCode(for: Data(part.utf8), using: key))
        }
        return S3Encoding.hexadecimal(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }
}

/// A request as it is sent, but for its body.
package struct S3Wire: Sendable {
    var method: String
    var scheme: String

    /// The host, with a port that is not that of the scheme.
    var host: String

    /// The path, encoded.
    var path: String

    /// Names and values, not encoded.
    var query: [(String, String)]

    package var headers: [(String, String)]

    package init(
        method: String, scheme: String = "https", host: String, path: String, query: [(String, String)] = [],
        headers: [(String, String)] = []
    ) {
        self.method = method
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The query in the order that signatures need, encoded.
    var encodedQuery: String {
        query.map { (S3Encoding.component($0.0), S3Encoding.component($0.1)) }
            .sorted {
                $0.0 == $1.0
                    ? $0.1.utf8.lexicographicallyPrecedes($1.1.utf8) : $0.0.utf8.lexicographicallyPrecedes($1.0.utf8)
            }
            .map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    }

    package var url: String { "\(scheme)://\(host)\(path)" + (query.isEmpty ? "" : "?\(encodedQuery)") }
}

/// Percent-encoding as S3 requires it.
///
/// Every byte is encoded but `A`–`Z`, `a`–`z`, `0`–`9`, `-`, `.`, `_` and `~`, with upper-case digits; a slash stays in
/// the path and is encoded elsewhere. Paths are encoded once, unlike those of other AWS services, and are not
/// normalised ("Create a signed AWS API request", AWS IAM User Guide).
package enum S3Encoding {
    package static func path(_ text: String) -> String { encode(text, keepingSlashes: true) }

    static func component(_ text: String) -> String { encode(text, keepingSlashes: false) }

    /// The text of a name in an answer with `encoding-type=url`, where a space is `+`; nil if it is not valid.
    static func decodingListed(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let digits = String(rest.prefix(2)), digits.utf8.count == 2, let value = UInt8(digits, radix: 16)
                else { return nil }
                rest = rest.dropFirst(2)
                bytes.append(value)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Bytes as lower-case hexadecimal digits.
    package static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        var digits: [UInt8] = []
        digits.reserveCapacity(2 * bytes.underestimatedCount)
        for byte in bytes {
            digits.append(Self.digits[Int(byte >> 4)])
            digits.append(Self.digits[Int(byte & 15)])
        }
        return String(decoding: digits, as: UTF8.self)
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func encode(_ text: String, keepingSlashes: Bool) -> String {
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                encoded.append(byte)
            case UInt8(ascii: "/") where keepingSlashes: encoded.append(byte)
            default: encoded += Array("%\(hexadecimal(CollectionOfOne(byte)).uppercased())".utf8)
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}

/// The forms of times in requests and answers.
enum S3Date {
    /// `20130524T000000Z`, the form in signatures.
    static func stamp(_ date: Date) -> String {
        let parts = utc.dateComponents([.year, .month, .day, .hour, .minute, .second], from: date)
        return padded(parts.year, 4) + padded(parts.month, 2) + padded(parts.day, 2) + "T" + padded(parts.hour, 2)
            + padded(parts.minute, 2) + padded(parts.second, 2) + "Z"
    }

    /// Reads `Fri, 24 May 2013 00:00:00 GMT`, as in the headers of HTTP (RFC 9110, 5.6.7).
    static func header(_ text: String?) -> Date? {
        guard let words = text?.split(separator: " "), words.count == 6, words[5] == "GMT",
            let month = months.firstIndex(of: words[2])
        else { return nil }
        return date([words[3], Substring("\(month + 1)"), words[1]], words[4].split(separator: ":"))
    }

    /// Reads `2013-05-24T00:00:00.000Z`, as in listings and credentials, also with a difference from UTC such as
    /// `+01:00` instead of `Z` (RFC 3339, 5.6); fractions of a second are ignored.
    static func listed(_ text: String?) -> Date? {
        guard let halves = text?.split(separator: "T"), halves.count == 2,
            let zone = halves[1].firstIndex(where: { "Z+-".contains($0) }),
            let difference = seconds(halves[1][zone...])
        else { return nil }
        let time = halves[1][..<zone].prefix { $0 != "." }
        return date(halves[0].split(separator: "-"), time.split(separator: ":")).map { $0 - difference }
    }

    /// The difference of a zone from UTC: `Z`, or hours and minutes.
    private static func seconds(_ zone: Substring) -> TimeInterval? {
        guard zone != "Z" else { return 0 }
        let parts = zone.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hours = UInt8(parts[0]), hours < 24,
            let minutes = UInt8(parts[1]), minutes < 60
        else { return nil }
        let seconds = TimeInterval(Int(hours) * 3600 + Int(minutes) * 60)
        return zone.first == "-" ? -seconds : seconds
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .map { Substring($0) }

    private static let utc: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }()

    private static func date(_ days: [Substring], _ times: [Substring]) -> Date? {
        let numbers = (days + times).compactMap { Int($0) }
        guard days.count == 3, times.count == 3, numbers.count == 6, 1970...9999 ~= numbers[0], 1...12 ~= numbers[1],
            1...31 ~= numbers[2], 0...23 ~= numbers[3], 0...59 ~= numbers[4], 0...60 ~= numbers[5]
        else { return nil }
        return utc.date(
            from: DateComponents(
                year: numbers[0], month: numbers[1], day: numbers[2], hour: numbers[3], minute: numbers[4],
                second: numbers[5]))
    }

    private static func padded(_ number: Int?, _ count: Int) -> String {
        let digits = String(number ?? 0)
        return String(repeating: "0", count: max(0, count - digits.count)) + digits
    }
}

extension SHA256 {
    mutating func update(_ bytes: ByteBuffer) {
        update(data: bytes.readableBytesView)
    }

    /// The digest in hexadecimal digits.
    func hexadecimalDigest() -> String { S3Encoding.hexadecimal(finalize()) }

    /// The digest of bytes in hexadecimal digits.
    static func hexadecimalDigest(of bytes: ByteBuffer) -> String {
        var hash = SHA256()
        hash.update(bytes)
        return hash.hexadecimalDigest()
    }
}
#endif
