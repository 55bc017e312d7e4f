#if S3
import Crypto
package import Foundation

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
#endif
