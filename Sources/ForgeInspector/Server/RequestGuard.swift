#if Inspector
import HTTPTypes
import Hummingbird
import HummingbirdCore

/// Decides before anything is read whether a request comes from the page of this server.
///
/// `Host` must be this server's, which a name that an attacker lets resolve to 127.0.0.1 is not (DNS rebinding).
/// `Origin` must be this server's if a browser sends it, and a write must have it, so no other page can write (CSRF).
/// All but the three files of the page needs the token, which no other user of the machine knows.
struct RequestGuard: Sendable {
    let token: AccessToken
    let port: Int

    private var hosts: [String] { ["127.0.0.1:\(port)", "localhost:\(port)"] }

    /// The status of the refusal of a request; nil if it is permitted. A public request is for a file of the page.
    func refusal(of request: HTTPRequest, isPublic: Bool) -> HTTPResponse.Status? {
        guard let host = request.authority, hosts.contains(host) else { return .forbidden }
        // The first is the authority. A second one stays in the fields (RFC 9112, section 3.2).
        if let name = HTTPField.Name("Host"), request.headerFields[name] != nil { return .badRequest }
        // A second header would be joined to the first, and equal neither.
        let origin = request.headerFields[.origin]
        if let origin, origin != "http://\(host)" { return .forbidden }
        guard !isPublic else { return request.method == .get ? nil : .methodNotAllowed }
        guard token.matches(request.headerFields[.authorization]) else { return .unauthorized }
        guard request.method != .get else { return nil }
        guard request.method == .post else { return .methodNotAllowed }
        return origin == nil ? .forbidden : nil
    }
}
#endif
