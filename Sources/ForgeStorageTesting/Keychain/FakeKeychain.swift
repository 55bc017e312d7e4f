public import ForgeCrypt
import Synchronization

/// A Keychain in memory that behaves as Apple's does, with the same status codes, on every platform.
///
/// ```swift
/// let keychain = FakeKeychain()
/// let store = keychain.store(service: "com.example.app")
/// keychain.lock()
/// #expect(throws: CryptError.self) { try store.get(AuthKeys.accessToken) }
/// ```
///
/// Items are unique by service, account and access group. Data can be read and written only in the states of the
/// device that the item's accessibility allows (`errSecInteractionNotAllowed` otherwise); that an item exists can be
/// asked, and an item deleted, from the first unlocking on. The device starts unlocked, with a passcode.
public final class FakeKeychain: Sendable {
    fileprivate struct Address: Sendable {
        var service: String
        var account: String
        var group: String
    }

    private enum DeviceState {
        case beforeFirstUnlock, locked, unlocked
    }

    private struct State {
        var items: [(address: Address, value: SecItemValue)] = []
        var device = DeviceState.unlocked
        var hasPasscode = true
        var deletesOneAtATime = false
        var scripted: [FakeKeychainCall: [Int32]] = [:]
        var calls: [FakeKeychainCall] = []

        /// The status that forbids to read or write an item of this class just now; nil if it is allowed.
        func refusal(of accessibility: CryptAccessibility) -> KeychainStatus? {
            switch accessibility {
            case .whenUnlocked, .whenUnlockedThisDeviceOnly:
                device == .unlocked ? nil : .interactionNotAllowed
            case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly:
                device == .beforeFirstUnlock ? .interactionNotAllowed : nil
            case .whenPasscodeSetThisDeviceOnly:
                !hasPasscode ? .notAvailable : device == .unlocked ? nil : .interactionNotAllowed
            }
        }
    }

    /// The access groups that the app is entitled to; items go to the first one if no group is named.
    public let accessGroups: [String]

    private let state = Mutex(State())

    /// An empty keychain.
    ///
    /// - Parameter accessGroups: What the app is entitled to; none makes every call fail with `errSecMissingEntitlement`.
    public init(accessGroups: [String] = ["app"]) {
        self.accessGroups = accessGroups
    }

    /// The store under test: `KeychainCrypt` on this keychain.
    public func store(service: String = "tests", accessGroup: String? = nil) -> KeychainCrypt {
        KeychainCrypt(service: service, accessGroup: accessGroup, calls: self)
    }

    // MARK: The device

    /// Locks the device.
    public func lock() {
        state.withLock { if $0.device == .unlocked { $0.device = .locked } }
    }

    /// Unlocks the device.
    public func unlock() {
        state.withLock { $0.device = .unlocked }
    }

    /// Starts the device anew: nothing can be reached until it is unlocked.
    public func reboot() {
        state.withLock { $0.device = .beforeFirstUnlock }
    }

    /// Takes the passcode away, and with it every item that needs one.
    public func removePasscode() {
        state.withLock {
            $0.hasPasscode = false
            $0.items.removeAll { $0.value.accessibility == .whenPasscodeSetThisDeviceOnly }
        }
    }

    /// Moves everything to a new device, which leaves behind what stays on its own.
    public func moveToNewDevice() {
        state.withLock {
            $0.items.removeAll {
                switch $0.value.accessibility {
                case .whenUnlocked, .afterFirstUnlock: false
                default: true
                }
            }
        }
    }

    // MARK: Backups

    /// What an encrypted backup holds of a keychain: everything but what needs a passcode.
    struct Backup: Sendable {
        fileprivate var items: [(address: Address, value: SecItemValue)]
    }

    func backUp() -> Backup {
        Backup(
            items: state.withLock { state in
                state.items.filter { $0.value.accessibility != .whenPasscodeSetThisDeviceOnly }
            })
    }

    /// Replaces everything by what a backup holds; only the device that it was made on can read what is bound to it.
    func restore(_ backup: Backup, toNewDevice: Bool) {
        state.withLock { state in
            state.items = backup.items
            state.hasPasscode = true
        }
        if toNewDevice { moveToNewDevice() }
    }

    // MARK: Faults

    /// Makes the next call of a kind, or the one after those already scripted, return a status and do nothing.
    public func fail(_ call: FakeKeychainCall, with status: Int32) {
        state.withLock { $0.scripted[call, default: []].append(status) }
    }

    /// Makes a deletion remove one matching item at a time, as a keychain file on macOS does.
    public func deleteOneAtATime() {
        state.withLock { $0.deletesOneAtATime = true }
    }

    /// The calls so far, scripted ones included.
    public var calls: [FakeKeychainCall] { state.withLock { $0.calls } }

    /// How many items there are, of all services.
    public var count: Int { state.withLock { $0.items.count } }

    /// The accessibility that an item has; nil if there is no such item.
    public func accessibility(service: String = "tests", account: String) -> CryptAccessibility? {
        state.withLock { state in
            state.items.first { $0.address.service == service && $0.address.account == account }?.value.accessibility
        }
    }
}

/// The calls of ``FakeKeychain``, by the function of the Security framework that each stands for.
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
            guard matches(exact, state).isEmpty else { return .duplicateItem }
            if let refusal = state.refusal(of: value.accessibility) { return refusal }
            state.items.append((Address(service: item.service, account: account, group: group), value))
            return .success
        }
    }

    package func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8]) {
        var data: [UInt8] = []
        let status = call(.copyData, query) { state in
            guard let index = matches(query, state).first else { return .itemNotFound }
            let value = state.items[index].value
            if let refusal = state.refusal(of: value.accessibility) { return refusal }
            data = value.data
            return .success
        }
        return (status, data)
    }

    package func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String]) {
        var accounts: [String] = []
        let status = call(.copyAccounts, query) { state in
            guard state.device != .beforeFirstUnlock else { return .interactionNotAllowed }
            accounts = matches(query, state).map { state.items[$0].address.account }
            return accounts.isEmpty ? .itemNotFound : .success
        }
        return (status, accounts)
    }

    package func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus {
        call(.update, query) { state in
            let indices = matches(query, state)
            guard !indices.isEmpty else { return .itemNotFound }
            for index in indices {
                if let refusal = state.refusal(of: state.items[index].value.accessibility) { return refusal }
                if let refusal = state.refusal(of: value.accessibility) { return refusal }
            }
            for index in indices { state.items[index].value = value }
            return .success
        }
    }

    package func delete(_ query: SecItemQuery) -> KeychainStatus {
        call(.delete, query) { state in
            guard state.device != .beforeFirstUnlock else { return .interactionNotAllowed }
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

    /// Names are compared byte by byte, not as Swift compares strings.
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
    /// Shows nothing of what is stored.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
