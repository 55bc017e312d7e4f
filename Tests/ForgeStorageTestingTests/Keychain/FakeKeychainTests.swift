import ForgeCrypt
import ForgeStorageTesting
import Testing

@Suite("The fake Keychain returns the statuses of Apple's")
struct FakeKeychainTests {
    /// Call, class of the new value, state of the device, then the status of the call if the keychain has no item, or an
    /// item of class A, C or P: `whenUnlocked…`, `afterFirstUnlock…` or `whenPasscodeSetThisDeviceOnly`. A cell ends in
    /// the letter of its source, a function of Security-61901 (`keychain/securityd`); the point is a state without such
    /// an item.
    ///
    /// | | function | |
    /// |-|-|-|
    /// | q | `s3dl_query`, SecItemDb.c | no row was found |
    /// | k | `s3dl_query_row`, SecItemDb.c; `ks_crypt`, SecKeybagSupport.c | the row is decrypted |
    /// | r | `s3dl_query_delete`, SecItemDb.c | nothing was deleted |
    /// | d | `SecDbItemNeedAuth`, SecItemDb.c | only a needed authentication stops a deletion |
    /// | e | `SecDbItemInsertBind`, SecDbItem.c | the new item is encrypted, then inserted |
    /// | p | `s3dl_query_add`, SecItemDb.c | `errSecDecode` of the passcode's class becomes `errSecAuthFailed` |
    /// | i | `s3dl_query_add`, SecItemDb.c | a broken constraint becomes `errSecDuplicateItem` |
    /// | c | `SecDbItemIsCorrupt`, SecDbItem.c | the existing item is decrypted |
    /// | u | `s3dl_query_update`, SecItemDb.c | nothing was updated |
    /// | w | `SecDbItemCopyWithUpdates`, SecDbItem.c | the existing item is decrypted |
    /// | x | `SecDbItemDoUpdate`, SecDbItem.c | the new item is encrypted |
    private static let golden = """
        call         new state       none      A         C         P
        copyData     -   unlocked    -25300q   0k        0k        0k
        copyData     -   locked      -25300q   -25308k   0k        -25308k
        copyData     -   rebooted    -25300q   -25308k   -25308k   -25308k
        copyData     -   noPasscode  -25300q   0k        0k        .
        copyAccounts -   unlocked    -25300q   0k        0k        0k
        copyAccounts -   locked      -25300q   -25308k   0k        -25308k
        copyAccounts -   rebooted    -25300q   -25308k   -25308k   -25308k
        copyAccounts -   noPasscode  -25300q   0k        0k        .
        delete       -   unlocked    -25300r   0d        0d        0d
        delete       -   locked      -25300r   0d        0d        0d
        delete       -   rebooted    -25300r   0d        0d        0d
        delete       -   noPasscode  -25300r   0d        0d        .
        add          A   unlocked    0e        -25299i   -25299i   -25299i
        add          A   locked      -25308e   -25308e   -25308e   -25308e
        add          A   rebooted    -25308e   -25308e   -25308e   -25308e
        add          A   noPasscode  0e        -25299i   -25299i   .
        add          C   unlocked    0e        -25299i   -25299i   -25299i
        add          C   locked      0e        -25308c   -25299i   -25308c
        add          C   rebooted    -25308e   -25308e   -25308e   -25308e
        add          C   noPasscode  0e        -25299i   -25299i   .
        add          P   unlocked    0e        -25299i   -25299i   -25299i
        add          P   locked      -25308e   -25308e   -25308e   -25308e
        add          P   rebooted    -25308e   -25308e   -25308e   -25308e
        add          P   noPasscode  -25293p   -25293p   -25293p   .
        update       A   unlocked    -25300u   0x        0x        0x
        update       A   locked      -25300u   -25308w   -25308x   -25308w
        update       A   rebooted    -25300u   -25308w   -25308w   -25308w
        update       A   noPasscode  -25300u   0x        0x        .
        update       C   unlocked    -25300u   0x        0x        0x
        update       C   locked      -25300u   -25308w   0x        -25308w
        update       C   rebooted    -25300u   -25308w   -25308w   -25308w
        update       C   noPasscode  -25300u   0x        0x        .
        update       P   unlocked    -25300u   0x        0x        0x
        update       P   locked      -25300u   -25308w   -25308x   -25308w
        update       P   rebooted    -25300u   -25308w   -25308w   -25308w
        update       P   noPasscode  -25300u   -26275x   -26275x   .
        """

    private struct Row: CustomTestStringConvertible {
        var call: FakeKeychainCall
        var new: Character
        var state: String
        /// By the letter of the item's class; none by `-`.
        var statuses: [Character: Int32]

        var testDescription: String { "\(call) \(new) \(state)" }

        init?(_ line: Substring) {
            let columns = line.split(separator: " ")
            guard columns.count == 7, let call = FakeKeychainCall(rawValue: String(columns[0])) else { return nil }
            self.call = call
            new = columns[1].first ?? "-"
            state = String(columns[2])
            statuses = [:]
            for (item, cell) in zip("-ACP", columns[3...]) { statuses[item] = Int32(cell.dropLast()) }
        }
    }

    private static let rows = golden.split(separator: "\n").compactMap(Row.init)

    private static let classes: [Character: [CryptAccessibility]] = [
        "A": [.whenUnlocked, .whenUnlockedThisDeviceOnly],
        "C": [.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly],
        "P": [.whenPasscodeSetThisDeviceOnly],
    ]

    private let query = SecItemQuery(service: "s", account: "a")

    private func value(_ accessibility: CryptAccessibility) -> SecItemValue {
        SecItemValue(data: [1], accessibility: accessibility)
    }

    private func keychain(in state: String, with item: CryptAccessibility?) -> FakeKeychain {
        let keychain = FakeKeychain()
        if let item { #expect(keychain.add(query, value(item)) == .success) }
        switch state {
        case "locked": keychain.lock()
        case "rebooted": keychain.reboot()
        case "noPasscode": keychain.removePasscode()
        default: #expect(state == "unlocked")
        }
        return keychain
    }

    private func status(of call: FakeKeychainCall, _ new: CryptAccessibility?, on keychain: FakeKeychain) -> Int32 {
        switch call {
        case .add: keychain.add(query, value(new ?? .whenUnlocked)).rawValue
        case .update: keychain.update(query, to: value(new ?? .whenUnlocked)).rawValue
        case .copyData: keychain.copyData(query).status.rawValue
        case .copyAccounts: keychain.copyAccounts(query).status.rawValue
        case .delete: keychain.delete(query).rawValue
        }
    }

    @Test("for each call, state of the device and class of the item", arguments: rows)
    private func statuses(_ row: Row) {
        for (item, status) in row.statuses {
            for present in Self.classes[item]?.map(Optional.init) ?? [nil] {
                for new in Self.classes[row.new]?.map(Optional.init) ?? [nil] {
                    let keychain = keychain(in: row.state, with: present)
                    let count = keychain.count
                    #expect(self.status(of: row.call, new, on: keychain) == status, "\(row) over \(item)")
                    let isAdded = row.call == .add && status == 0
                    let isDeleted = row.call == .delete && status == 0
                    #expect(keychain.count == count + (isAdded ? 1 : 0) - (isDeleted ? 1 : 0))
                    let isUpdated = row.call == .update && status == 0
                    let kept = isAdded || isUpdated ? new : isDeleted ? nil : present
                    #expect(keychain.accessibility(service: "s", account: "a") == kept)
                }
            }
        }
    }

    @Test("the table has every call, state, new class and present item")
    func completeness() {
        #expect(Self.rows.count == (3 + 2 * 3) * 4)
        #expect(Set(Self.rows.map(\.testDescription)).count == Self.rows.count)
        #expect(Self.rows.allSatisfy { $0.statuses.count == ($0.state == "noPasscode" ? 3 : 4) })
    }

    @Test("a list fails while one of its items is inaccessible, and one item is the one that was added first")
    func severalItems() {
        let keychain = FakeKeychain(accessGroups: ["app", "shared"])
        for (group, accessibility) in [("app", CryptAccessibility.afterFirstUnlock), ("shared", .whenUnlocked)] {
            let item = SecItemQuery(service: "s", account: "a", accessGroup: group)
            #expect(keychain.add(item, value(accessibility)) == .success)
        }
        keychain.lock()
        #expect(keychain.copyAccounts(SecItemQuery(service: "s")).status == .interactionNotAllowed)
        #expect(keychain.copyAccounts(SecItemQuery(service: "s", accessGroup: "app")).accounts == ["a"])
        #expect(keychain.copyData(query).status == .success)
        #expect(keychain.update(query, to: value(.afterFirstUnlock)) == .interactionNotAllowed)
        keychain.unlock()
        #expect(keychain.copyAccounts(SecItemQuery(service: "s")).accounts == ["a", "a"])
        #expect(keychain.update(query, to: SecItemValue(data: [2], accessibility: .afterFirstUnlock)) == .success)
        for group in ["app", "shared"] {
            let item = SecItemQuery(service: "s", account: "a", accessGroup: group)
            #expect(keychain.copyData(item).data == [2])
        }
        #expect(keychain.delete(query) == .success)
        #expect(keychain.count == 0)
    }

    @Test("a device without a passcode cannot be locked, and is unlocked after a restart")
    func noPasscode() {
        let keychain = keychain(in: "unlocked", with: .whenUnlocked)
        keychain.removePasscode()
        keychain.lock()
        #expect(keychain.copyData(query).status == .success)
        keychain.reboot()
        #expect(keychain.copyData(query).status == .success)
        keychain.setPasscode()
        keychain.lock()
        #expect(keychain.copyData(query).status == .interactionNotAllowed)
    }

    @Test("a change of the passcode and a restored backup leave the device unlocked, and a restart is no unlocking")
    func unlocking() {
        let keychain = self.keychain(in: "locked", with: .whenUnlocked)
        keychain.setPasscode()
        #expect(keychain.copyData(query).status == .success && keychain.hasPasscode)
        keychain.lock()
        keychain.removePasscode()
        #expect(keychain.copyData(query).status == .success && !keychain.hasPasscode)
        keychain.restore(keychain.backUp(), toNewDevice: false)
        #expect(keychain.hasPasscode)
        keychain.lock()
        keychain.restore(keychain.backUp(), toNewDevice: false)
        #expect(keychain.copyData(query).status == .success)
        let rebooted = self.keychain(in: "rebooted", with: .afterFirstUnlock)
        rebooted.lock()
        #expect(rebooted.copyData(query).status == .interactionNotAllowed)
    }

    @Test("an item needs a name, and is not that of another service or name")
    func names() {
        let keychain = self.keychain(in: "unlocked", with: .whenUnlocked)
        #expect(keychain.add(SecItemQuery(service: "s"), value(.whenUnlocked)) == .parameter)
        #expect(keychain.count == 1)
        #expect(keychain.accessibility(service: "other", account: "a") == nil)
        #expect(keychain.accessibility(service: "s", account: "other") == nil)
    }

    @Test("a backup can be read by its own device alone, except items that move, if it is encrypted")
    func backups() {
        let old = FakeKeychain()
        for accessibility in CryptAccessibility.allCases {
            #expect(
                old.add(SecItemQuery(service: "s", account: accessibility.rawValue), value(accessibility)) == .success)
        }
        func names(_ keychain: FakeKeychain) -> Set<String> {
            Set(keychain.copyAccounts(SecItemQuery(service: "s")).accounts)
        }
        let moving: Set = ["whenUnlocked", "afterFirstUnlock"]
        let all = moving.union(["whenUnlockedThisDeviceOnly", "afterFirstUnlockThisDeviceOnly"])
        let (encrypted, unencrypted) = (old.backUp(), old.backUp(encrypted: false))
        let other = FakeKeychain()
        other.restore(encrypted, toNewDevice: false)
        #expect(names(other) == moving)
        other.restore(unencrypted, toNewDevice: false)
        #expect(names(other) == [])
        for backup in [encrypted, unencrypted] {
            old.restore(backup, toNewDevice: false)
            #expect(names(old) == all)
        }
        old.restore(encrypted, toNewDevice: true)
        #expect(names(old) == moving)
        old.restore(encrypted, toNewDevice: false)
        #expect(names(old) == moving, "the hardware is another one since the last restore")
    }
}
