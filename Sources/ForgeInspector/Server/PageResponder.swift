#if Inspector
import ForgeStorage
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore
import Synchronization

/// Answers the requests of the page.
final class PageResponder: HTTPResponder {
    typealias Context = BasicRequestContext

    let inspector: Inspector
    private let token: AccessToken

    /// The port, known once the server runs.
    private let port = Mutex<Int?>(nil)

    /// The number of bytes of a write's body that are read.
    private static let bodyLimit = 4 << 20

    init(_ inspector: Inspector, token: AccessToken) {
        (self.inspector, self.token) = (inspector, token)
    }

    /// Begins to answer; returns the URL of the page.
    func start(_ port: Int) -> URL? {
        self.port.withLock { $0 = port }
        return URL(string: "http://127.0.0.1:\(port)/#\(token.text)")
    }

    func respond(to request: Request, context: Context) async throws -> Response {
        guard let port = port.withLock({ $0 }) else { return Self.response(.serviceUnavailable) }
        let file = PageFile.file(at: request.uri.path)
        let requestGuard = RequestGuard(token: token, port: port)
        if let status = requestGuard.refusal(of: request.head, isPublic: file != nil) { return Self.response(status) }
        if let file { return Self.response(.ok, file.type, file.content) }
        inspector.didReceiveRequest()
        do {
            let query = try Query(request.uri)
            if request.method == .get { return try await get(request.uri.path, query) }
            return try await post(request.uri.path, try await body(of: request))
        } catch is CancellationError {
            return Self.response(.serviceUnavailable)
        } catch let error as PageFailure {
            return try Self.response(error.status, json: ["error": error.reason])
        } catch {
            let failure = PageFailure(error)
            return try Self.response(failure.status, json: ["error": failure.reason])
        }
    }

    private func body(of request: Request) async throws -> Data {
        var data = Data()
        for try await chunk in request.body {
            data.append(contentsOf: chunk.readableBytesView)
            guard data.count <= Self.bodyLimit else {
                throw PageFailure(.contentTooLarge, "a request has at most \(Self.bodyLimit) bytes")
            }
        }
        return data
    }

    static func response(_ status: HTTPResponse.Status, json value: some Encodable) throws -> Response {
        response(status, "application/json", Array(try JSONEncoder().encode(value)))
    }

    /// A response with the headers of every response; a refusal has no body.
    static func response(
        _ status: HTTPResponse.Status, _ type: String? = nil, _ content: [UInt8] = []
    ) -> Response {
        var headers = HTTPFields()
        headers[.contentType] = type
        headers[.cacheControl] = "no-store"
        headers[.contentSecurityPolicy] = """
            default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; \
            base-uri 'none'; frame-ancestors 'none'; form-action 'none'
            """
        headers[.xContentTypeOptions] = "nosniff"
        for (name, value) in [
            ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"), ("X-Frame-Options", "DENY"),
        ] {
            if let name = HTTPField.Name(name) { headers[name] = value }
        }
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: content)))
    }
}

/// A request that cannot be answered: the status and one line for the page.
struct PageFailure: Error {
    var status: HTTPResponse.Status
    var reason: String

    static let noSuchStore = PageFailure(.notFound, "there is no such store any more")

    init(_ status: HTTPResponse.Status, _ reason: String) {
        (self.status, self.reason) = (status, reason)
    }
}

/// The parameters of a request.
///
/// Decoded here: Foundation drops a U+FEFF at the beginning of a value, which is part of a name, and turns a value that
/// is not UTF-8 into an empty one.
struct Query {
    private var items: [String: String] = [:]

    /// - Throws: ``PageFailure`` with the status 400 for an invalid escape, and for escapes that are not UTF-8.
    init(_ uri: URI) throws(PageFailure) {
        for parameter in (uri.string.splitAtBytes("?")?.1 ?? "").utf8.split(separator: UInt8(ascii: "&")) {
            let parts = parameter.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            items[try Self.decoded(parts[0])] = parts.count > 1 ? try Self.decoded(parts[1]) : ""
        }
    }

    /// The text of a field of a form: "+" is a space, and a plus sign is "%2B".
    private static func decoded(_ field: Substring.UTF8View) throws(PageFailure) -> String {
        let bytes = field.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        guard let decoded = POSIXPath.decodingPercentEscapes(String(decoding: bytes, as: UTF8.self)),
            let text = String(validating: decoded, as: UTF8.self)
        else { throw PageFailure(.badRequest, "the request has escapes that are not UTF-8") }
        return text
    }

    subscript(name: String) -> String { items[name] ?? "" }

    /// A number that is not negative; the default if it is missing.
    func number(_ name: String, default value: Int, upTo limit: Int = .max) throws -> Int {
        guard let text = items[name] else { return value }
        guard let number = Int(text), number >= 0 else { throw PageFailure(.badRequest, "\(name) is not a number") }
        return min(number, limit)
    }
}

/// The files of the page, which contain no data.
struct PageFile: Sendable {
    var type: String
    var content: [UInt8]

    /// The file at a path of the server; nil if there is none.
    static func file(at path: String) -> PageFile? {
        switch path {
        case "/": PageFile(type: "text/html; charset=utf-8", content: PackageResources.index_html)
        case "/app.js": PageFile(type: "text/javascript; charset=utf-8", content: PackageResources.app_js)
        case "/style.css": PageFile(type: "text/css; charset=utf-8", content: PackageResources.style_css)
        default: nil
        }
    }
}
#endif
