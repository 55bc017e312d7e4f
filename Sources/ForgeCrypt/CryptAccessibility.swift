/// The conditions for reading a secret: the classes of the Keychain (`kSecAttrAccessible…`).
///
/// ``KeychainCrypt`` relies on the operating system to enforce it. ``VaultCrypt`` stores it, authenticated, with the
/// value, but cannot enforce it: the vault's key opens every value at any time.
public enum CryptAccessibility: String, Hashable, Sendable, CaseIterable, Codable {
    /// While the device is unlocked; moves to a new device with an encrypted backup.
    case whenUnlocked

    /// From the first unlock after a start until the next start, also in the background; moves to a new device.
    case afterFirstUnlock

    /// While the device is unlocked, and only if it has a passcode; deleted when the passcode is removed. Stays on this
    /// device.
    case whenPasscodeSetThisDeviceOnly

    /// While the device is unlocked; stays on this device.
    case whenUnlockedThisDeviceOnly

    /// From the first unlock after a start until the next start; stays on this device.
    case afterFirstUnlockThisDeviceOnly
}
