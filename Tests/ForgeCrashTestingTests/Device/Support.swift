import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting

/// Brings a device into a lock state, by restarting it if necessary.
func bring(_ device: SimulatedDevice, to lock: LockState) {
    switch lock {
    case .beforeFirstUnlock: device.reboot()
    case .locked:
        device.unlock()
        device.lock()
    case .unlocked: device.unlock()
    }
}

/// The unavailability that an error of any store reports, if it does.
func unavailability(_ error: any Error) -> Unavailability? {
    switch error {
    case let error as KVStoreError: return error.code.unavailability
    case let error as FileStoreError:
        guard case .unavailable(let reason) = error.code else { return nil }
        return reason
    case let error as CryptError:
        guard case .unavailable(let reason) = error.code else { return nil }
        return reason
    case let error as FileSystemError: return error.isLocked ? .locked : nil
    default: return nil
    }
}

let isLocked: @Sendable (any Error) -> Bool = { unavailability($0) == .locked }
let isEnded: @Sendable (any Error) -> Bool = { unavailability($0) == .inputOutput }

/// Whether the error of a file store for a file that it must not overwrite is that it exists, or that the device is
/// locked.
let isLockedOrThere: @Sendable (any Error) -> Bool = { error in
    isLocked(error) || (error as? FileStoreError)?.code == .alreadyExists
}

func hasCode(_ code: CryptError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? CryptError)?.code == code }
}

func hasCode(_ code: FileStoreError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileStoreError)?.code == code }
}
