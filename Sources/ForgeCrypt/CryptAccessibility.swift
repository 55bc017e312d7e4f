/// When a secret may be read: the classes of the Keychain (`kSecAttrAccessible…`).
///
/// ``KeychainCrypt`` has the operating system enforce it. ``VaultCrypt`` stores it with the value, authenticated, but
/// nothing enforces it there: the vault's key opens every value at any time.
public enum CryptAccessibility: String, Hashable, Sendable, CaseIterable, Codable {
    /// While the device is unlocked; moves to a new device with an encrypted backup.
    case whenUnlocked

    /// From the first unlocking after a start until the next start, so in the background too; moves to a new device.
    case afterFirstUnlock

    /// While the device is unlocked, and only if it has a passcode; gone when the passcode is removed. Stays on this
    /// device.
    case whenPasscodeSetThisDeviceOnly

    /// While the device is unlocked; stays on this device.
    case whenUnlockedThisDeviceOnly

    /// From the first unlocking after a start until the next start; stays on this device.
    case afterFirstUnlockThisDeviceOnly
}
