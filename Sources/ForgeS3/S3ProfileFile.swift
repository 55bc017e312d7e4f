#if S3
import Foundation

/// A credentials file of AWS: profiles in brackets, each with lines `name = value` ("Shared config and credentials
/// files", AWS SDKs and Tools Reference Guide).
struct S3ProfileFile {
    private var profiles: [String: [String: String]] = [:]

    init(path: String) throws(S3Error) {
        do {
            self.init(text: try String(contentsOfFile: path, encoding: .utf8))
        } catch {
            throw S3Error(.noCredentials, detail: "the credentials file cannot be read")
        }
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

    func credentials(of name: String) throws(S3Error) -> S3Credentials {
        guard let profile = profiles[name], let id = profile["aws_access_key_id"],
            let secret = profile["aws_secret_access_key"]
        else { throw S3Error(.noCredentials, detail: "the credentials file has no keys of the profile \(name)") }
        return S3Credentials(accessKeyID: id, secretAccessKey: secret, sessionToken: profile["aws_session_token"])
    }
}
#endif
