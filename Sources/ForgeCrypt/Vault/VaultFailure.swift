/// A failure to seal, parse or open the bytes of a vault; the store adds operation, secret and path.
struct VaultFailure: Error {
    let code: CryptError.Code
    let detail: String?

    init(_ code: CryptError.Code, _ detail: String? = nil) {
        self.code = code
        self.detail = detail
    }
}
