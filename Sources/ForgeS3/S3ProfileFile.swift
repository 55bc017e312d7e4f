#if S3
import Foundation

/// A credentials file of AWS: profiles in brackets, each with lines `name = value` ("Shared config and credentials
/// files", AWS SDKs and Tools Reference Guide).
struct S3ProfileFile {
    private var profiles: [String: [String: String]] = [:]

    /// Whether the absence of a profile is a failure.
    private var isRequired = false

    /// - Throws: ``S3Error``: `noCredentials` if there is no file and none is required, or `credentialsUnavailable`.
    init(path: String, isRequired: Bool) throws(S3Error) {
        do {
            self.init(text: try String(contentsOfFile: path, encoding: .utf8))
        } catch {
            let isAbsent = (error as? CocoaError)?.code == .fileReadNoSuchFile
            throw S3Error(
                isAbsent && !isRequired ? .noCredentials : .credentialsUnavailable,
                detail: "the credentials file cannot be read")
        }
        self.isRequired = isRequired
    }

    init(text: String) {
        var profile: String?
        for line in text.split(whereSeparator: \.isNewline).map({ $0.trimmingCharacters(in: .whitespaces) }) {
            if line.hasPrefix("[") {
                profile = line.hasSuffix("]") ? line.dropFirst().dropLast().trimmingCharacters(in: .whitespaces) : nil
            } else if let profile, !line.hasPrefix("#"), !line.hasPrefix(";"), let sign = line.firstIndex(of: "=") {
                let name = line[..<sign].trimmingCharacters(in: .whitespaces)
                profiles[profile, default: [:]][name] =
                    line[line.index(after: sign)...].trimmingCharacters(in: .whitespaces)
            }
        }
    }

    /// Settings of profiles whose credentials come from elsewhere.
    private static let unsupported = [
        "credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file",
    ]

    /// - Throws: ``S3Error``: `noCredentials` if the file has no keys of the profile and none are required, or
    ///   `credentialsUnavailable`.
    func credentials(of name: String) throws(S3Error) -> S3Credentials {
        let profile = profiles[name] ?? [:]
        guard let id = profile["aws_access_key_id"], let secret = profile["aws_secret_access_key"], !id.isEmpty,
            !secret.isEmpty
        else {
            let isConfigured = (Self.unsupported + ["aws_access_key_id", "aws_secret_access_key"])
                .contains { profile[$0] != nil }
            throw S3Error(
                isRequired || isConfigured ? .credentialsUnavailable : .noCredentials,
                detail: "the credentials file has no keys of the profile \(name)")
        }
        return S3Credentials(accessKeyID: id, secretAccessKey: secret, sessionToken: profile["aws_session_token"])
    }
}
#endif
