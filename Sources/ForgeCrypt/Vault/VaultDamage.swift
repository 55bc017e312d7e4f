/// A failure to seal, parse or open the bytes of a vault; the store adds operation, secret and path.
struct VaultDamage: Error {
    let code: CryptError.Code
    let detail: String?

    init(_ code: CryptError.Code, _ detail: String? = nil) {
        self.code = code
        self.detail = detail
    }
}
