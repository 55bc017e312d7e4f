import ForgeCrashTesting
import ForgeCrypt
import ForgeFileStore
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting

/// Brings a device into a state of its lock, by restarting it if need be.
func bring(_ device: SimulatedDevice, to lock: LockState) {
    switch lock {
    case .beforeFirstUnlock: device.reboot()
    case .locked:
        device.unlock()
        device.lock()
    case .unlocked: device.unlock()
    }
}

/// Why an error of any of the stores says that the store is unavailable, if it does.
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

/// Whether a file store says of a file that it may not overwrite that it is there, or that the device is locked.
let isLockedOrThere: @Sendable (any Error) -> Bool = { error in
    isLocked(error) || (error as? FileStoreError)?.code == .alreadyExists
}

func hasCode(_ code: CryptError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? CryptError)?.code == code }
}

func hasCode(_ code: FileStoreError.Code) -> @Sendable (any Error) -> Bool {
    { ($0 as? FileStoreError)?.code == code }
}
