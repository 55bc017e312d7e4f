import Crypto
import Foundation

/// The keys that seal a vault: one for each purpose, derived from the caller's key and the vault's id.
///
/// HKDF (RFC 5869) with SHA-256, the vault's id as salt. The caller's key itself seals nothing, and two vaults under
/// one key have different derived keys.
struct VaultSubkeys: Sendable {
    /// The length of the authentication code at the end of a vault file.
    static let macLength = 32

    /// Seals names and values, by AES-256-GCM.
    let entry: SymmetricKey

    /// Authenticates the header, by HMAC-SHA-256, which detects a wrong key at once.
    let header: SymmetricKey

    /// Authenticates the whole file, by HMAC-SHA-256.
    let file: SymmetricKey

    init(_ key: SymmetricKey, vaultID: [UInt8]) {
        func derive(_ purpose: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: key, salt: vaultID, info: Array("ForgeStorage vault v1 \(purpose)".utf8),
                outputByteCount: 32)
        }
        entry = derive("entry")
        header = derive("header")
        file = derive("file")
    }
}
