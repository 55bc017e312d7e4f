public import ForgeCrypt
import Synchronization

/// An in-memory Keychain with the behaviour and status codes of Apple's, for every platform.
///
/// ```swift
/// let token = CryptKey<String>(key: "token", accessibility: .whenUnlocked)
/// let keychain = FakeKeychain()
/// let store = keychain.store(service: "com.example.app")
/// try store.set("abc", for: token)
/// keychain.lock()
/// #expect(throws: CryptError.self) { try store.get(token) }
/// ```
///
/// Items are unique by service, account and access group; a query without a group matches those of every group. The
/// statuses are those of Apple's published sources (Security-61901, `SecItemDb.c`, `SecDbItem.c`):
/// - Names and data are encrypted with the class of their item. A query that matches an item which is inaccessible in the
///   state of the device fails with `errSecInteractionNotAllowed`; so a list fails while one of its items is inaccessible.
/// - An absent item is `errSecItemNotFound` in every state.
/// - A new value needs access to its own class too, and one that requires a passcode needs a passcode.
/// - Deletions need no access.
///
/// The device starts unlocked, with a passcode; without a passcode it cannot be locked. Not simulated: items that are
/// synchronised between devices, access control lists (Touch ID, Face ID), persistent references, and the file-based
/// keychain of macOS, except that deletions can be limited to one item at a time (``deleteOneAtATime()``).
public final class FakeKeychain: Sendable {
    fileprivate struct Address: Sendable {
        var service: String
        var account: String
        var group: String
    }

    /// The identity of a device.
    fileprivate final class Hardware: Sendable {}

    private enum DeviceState {
        case beforeFirstUnlock, locked, unlocked
    }

    private struct State {
        var items: [(address: Address, value: SecItemValue)] = []
        var device = DeviceState.unlocked
        var hasPasscode = true
        var hardware = Hardware()
        var deletesOneAtATime = false
        var scripted: [FakeKeychainCall: [Int32]] = [:]
        var calls: [FakeKeychainCall] = []

        /// The status of decrypting an item of a class, its name included.
        func access(to accessibility: CryptAccessibility) -> KeychainStatus {
            let isAccessible =
                switch accessibility {
                case .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly: device == .unlocked
                case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: device != .beforeFirstUnlock
                }
            return isAccessible ? .success : .interactionNotAllowed
        }

        /// The status of encrypting a new value; `errSecDecode` if its class needs a passcode and there is none.
        func encryption(for accessibility: CryptAccessibility) -> KeychainStatus {
            guard hasPasscode || accessibility != .whenPasscodeSetThisDeviceOnly else { return .decode }
            return access(to: accessibility)
        }
    }

    /// The app's access groups; items without a group belong to the first.
    public let accessGroups: [String]

    private let state = Mutex(State())

    /// Creates an empty keychain.
    ///
    /// - Parameter accessGroups: The app's entitlements; if empty, every call fails with `errSecMissingEntitlement`.
    public init(accessGroups: [String] = ["app"]) {
        self.accessGroups = accessGroups
    }

    /// A `KeychainCrypt` on this keychain.
    public func store(service: String = "tests", accessGroup: String? = nil) -> KeychainCrypt {
        KeychainCrypt(service: service, accessGroup: accessGroup, calls: self)
    }

    // MARK: The device

    /// Locks the device; no effect without a passcode.
    public func lock() {
        state.withLock { if $0.device == .unlocked, $0.hasPasscode { $0.device = .locked } }
    }

    /// Unlocks the device.
    public func unlock() {
        state.withLock { $0.device = .unlocked }
    }

    /// Restarts the device: no item is accessible until it is unlocked; without a passcode it is unlocked at once.
    public func reboot() {
        state.withLock { $0.device = $0.hasPasscode ? .beforeFirstUnlock : .unlocked }
    }

    /// Removes the passcode, in the settings of the unlocked device, and every item that requires one.
    public func removePasscode() {
        state.withLock {
            $0.hasPasscode = false
            $0.device = .unlocked
            $0.items.removeAll { $0.value.accessibility == .whenPasscodeSetThisDeviceOnly }
        }
    }

    /// Sets a passcode, in the settings of the unlocked device.
    public func setPasscode() {
        state.withLock {
            $0.hasPasscode = true
            $0.device = .unlocked
        }
    }

    /// Whether the device has a passcode.
    public var hasPasscode: Bool { state.withLock { $0.hasPasscode } }

    /// Moves all items to a new device, except those bound to the old one.
    public func moveToNewDevice() {
        state.withLock { state in
            state.hardware = Hardware()
            state.items.removeAll { !$0.value.accessibility.movesToAnotherDevice }
        }
    }

    // MARK: Backups

    /// The content of a backup: all items but those that require a passcode.
    package struct Backup: Sendable {
        fileprivate var items: [(address: Address, value: SecItemValue)]
        fileprivate var hardware: Hardware
        fileprivate var isEncrypted: Bool
    }

    /// The items of an encrypted backup can be read on other devices, except those bound to this one. All items of an
    /// unencrypted backup are bound to this device.
    package func backUp(encrypted: Bool = true) -> Backup {
        state.withLock { state in
            let items = state.items.filter { $0.value.accessibility != .whenPasscodeSetThisDeviceOnly }
            return Backup(items: items, hardware: state.hardware, isEncrypted: encrypted)
        }
    }

    /// Replaces all items by those of a backup that this device, or the new one in its place, can read. The device is
    /// then unlocked, with a passcode.
    package func restore(_ backup: Backup, toNewDevice: Bool) {
        state.withLock { state in
            if toNewDevice { state.hardware = Hardware() }
            let isOwn = backup.hardware === state.hardware
            state.items = backup.items.filter { item in
                isOwn || backup.isEncrypted && item.value.accessibility.movesToAnotherDevice
            }
            state.hasPasscode = true
            state.device = .unlocked
        }
    }

    // MARK: Faults

    /// Scripts the result of the next call of a kind, after those already scripted: it returns `status` and has no
    /// effect.
    public func fail(_ call: FakeKeychainCall, with status: Int32) {
        state.withLock { $0.scripted[call, default: []].append(status) }
    }

    /// Makes a deletion remove a single matching item, as the file-based keychain on macOS does.
    public func deleteOneAtATime() {
        state.withLock { $0.deletesOneAtATime = true }
    }

    /// The calls so far, including scripted ones.
    public var calls: [FakeKeychainCall] { state.withLock { $0.calls } }

    /// The number of items of all services.
    public var count: Int { state.withLock { $0.items.count } }

    /// The accessibility of an item; nil if it does not exist.
    public func accessibility(service: String = "tests", account: String) -> CryptAccessibility? {
        state.withLock { state in
            state.items.first { $0.address.service == service && $0.address.account == account }?.value.accessibility
        }
    }
}

/// A call of ``FakeKeychain``, named after the function of the Security framework.
public enum FakeKeychainCall: String, Hashable, Sendable, CaseIterable {
    /// `SecItemAdd`.
    case add

    /// `SecItemCopyMatching` for the data of one item.
    case copyData

    /// `SecItemCopyMatching` for attributes.
    case copyAccounts

    /// `SecItemUpdate`.
    case update

    /// `SecItemDelete`.
    case delete
}

extension FakeKeychain: SecItemCalls {
    package func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus {
        call(.add, item) { state in
            guard let account = item.account, let group = item.accessGroup ?? accessGroups.first else {
                return .parameter
            }
            var exact = item
            exact.accessGroup = group
            // The value is encrypted before the database refuses a duplicate.
            let encryption = state.encryption(for: value.accessibility)
            guard encryption == .success else { return encryption == .decode ? .authFailed : encryption }
            if let index = matches(exact, state).first {
                // The existing item is decrypted to see whether it is corrupt.
                let access = state.access(to: state.items[index].value.accessibility)
                return access == .success ? .duplicateItem : access
            }
            state.items.append((Address(service: item.service, account: account, group: group), value))
            return .success
        }
    }

    package func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8]) {
        var data: [UInt8] = []
        let status = call(.copyData, query) { state in
            guard let index = matches(query, state).first else { return .itemNotFound }
            let value = state.items[index].value
            let access = state.access(to: value.accessibility)
            if access == .success { data = value.data }
            return access
        }
        return (status, data)
    }

    package func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String]) {
        var accounts: [String] = []
        let status = call(.copyAccounts, query) { state in
            let indices = matches(query, state)
            guard !indices.isEmpty else { return .itemNotFound }
            for index in indices {
                let access = state.access(to: state.items[index].value.accessibility)
                guard access == .success else { return access }
            }
            accounts = indices.map { state.items[$0].address.account }
            return .success
        }
        return (status, accounts)
    }

    package func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus {
        call(.update, query) { state in
            let indices = matches(query, state)
            guard !indices.isEmpty else { return .itemNotFound }
            for index in indices {
                let access = state.access(to: state.items[index].value.accessibility)
                guard access == .success else { return access }
                let encryption = state.encryption(for: value.accessibility)
                guard encryption == .success else { return encryption }
            }
            for index in indices { state.items[index].value = value }
            return .success
        }
    }

    package func delete(_ query: SecItemQuery) -> KeychainStatus {
        call(.delete, query) { state in
            var indices = matches(query, state)
            guard !indices.isEmpty else { return .itemNotFound }
            if state.deletesOneAtATime { indices = [indices[0]] }
            for index in indices.reversed() { state.items.remove(at: index) }
            return .success
        }
    }

    private func call(
        _ call: FakeKeychainCall, _ query: SecItemQuery, _ body: (inout State) -> KeychainStatus
    ) -> KeychainStatus {
        state.withLock { state in
            state.calls.append(call)
            if let scripted = state.scripted[call]?.first {
                state.scripted[call]?.removeFirst()
                return KeychainStatus(rawValue: scripted)
            }
            let isEntitled = query.accessGroup.map(accessGroups.contains) ?? !accessGroups.isEmpty
            guard isEntitled else { return .missingEntitlement }
            return body(&state)
        }
    }

    /// Compares names by bytes.
    private func matches(_ query: SecItemQuery, _ state: borrowing State) -> [Int] {
        state.items.indices.filter { index in
            let address = state.items[index].address
            return address.service.utf8.elementsEqual(query.service.utf8)
                && (query.account.map { address.account.utf8.elementsEqual($0.utf8) } ?? true)
                && (query.accessGroup.map { $0 == address.group } ?? true)
        }
    }
}

extension FakeKeychain: CustomReflectable {
    /// Hides the content.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension CryptAccessibility {
    fileprivate var movesToAnotherDevice: Bool { self == .whenUnlocked || self == .afterFirstUnlock }
}
