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
/// A secret that does not exist is nil, also on a locked device.
///
/// Items are unique by service, account and access group. Data is accessible only in the device states that the item's
/// accessibility allows (`errSecInteractionNotAllowed` otherwise); existence checks and deletions are possible from the
/// first unlock on. The device starts unlocked, with a passcode.
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

        /// The status that denies access to an item of this class at present; nil if access is allowed.
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

    /// Locks the device.
    public func lock() {
        state.withLock { if $0.device == .unlocked { $0.device = .locked } }
    }

    /// Unlocks the device.
    public func unlock() {
        state.withLock { $0.device = .unlocked }
    }

    /// Restarts the device: no item is accessible until it is unlocked.
    public func reboot() {
        state.withLock { $0.device = .beforeFirstUnlock }
    }

    /// Removes the passcode and every item that requires one.
    public func removePasscode() {
        state.withLock {
            $0.hasPasscode = false
            $0.items.removeAll { $0.value.accessibility == .whenPasscodeSetThisDeviceOnly }
        }
    }

    /// Moves all items to a new device, except those bound to the old one.
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

    /// The content of an encrypted backup: all items but those that require a passcode.
    package struct Backup: Sendable {
        fileprivate var items: [(address: Address, value: SecItemValue)]
    }

    package func backUp() -> Backup {
        Backup(
            items: state.withLock { state in
                state.items.filter { $0.value.accessibility != .whenPasscodeSetThisDeviceOnly }
            })
    }

    /// Replaces all items by those of a backup; device-bound items are readable only on their own device.
    package func restore(_ backup: Backup, toNewDevice: Bool) {
        state.withLock { state in
            state.items = backup.items
            state.hasPasscode = true
        }
        if toNewDevice { moveToNewDevice() }
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
