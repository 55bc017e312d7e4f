import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Testing

@Suite("A Keychain store gives what its documentation says in every state of the device")
struct KeychainStateTests {
    /// Call, class of the new value, state of the device, then the result if the keychain has no item, or an item of
    /// class A, C or P: `whenUnlocked…`, `afterFirstUnlock…` or `whenPasscodeSetThisDeviceOnly`. The result is `ok`, a
    /// value, or an error: `locked`, or the number of a status. The point is a state without such an item.
    private static let golden = """
        call      new state       none     A        C        P
        get       -   unlocked    nil      old      old      old
        get       -   locked      nil      locked   old      locked
        get       -   rebooted    nil      locked   locked   locked
        get       -   noPasscode  nil      old      old      .
        contains  -   unlocked    false    true     true     true
        contains  -   locked      false    locked   true     locked
        contains  -   rebooted    false    locked   locked   locked
        contains  -   noPasscode  false    true     true     .
        keys      -   unlocked    none     a        a        a
        keys      -   locked      none     locked   a        locked
        keys      -   rebooted    none     locked   locked   locked
        keys      -   noPasscode  none     a        a        .
        delete    -   unlocked    ok       ok       ok       ok
        delete    -   locked      ok       ok       ok       ok
        delete    -   rebooted    ok       ok       ok       ok
        delete    -   noPasscode  ok       ok       ok       .
        deleteAll -   unlocked    ok       ok       ok       ok
        deleteAll -   locked      ok       ok       ok       ok
        deleteAll -   rebooted    ok       ok       ok       ok
        deleteAll -   noPasscode  ok       ok       ok       .
        set       A   unlocked    ok       ok       ok       ok
        set       A   locked      locked   locked   locked   locked
        set       A   rebooted    locked   locked   locked   locked
        set       A   noPasscode  ok       ok       ok       .
        set       C   unlocked    ok       ok       ok       ok
        set       C   locked      ok       locked   ok       locked
        set       C   rebooted    locked   locked   locked   locked
        set       C   noPasscode  ok       ok       ok       .
        set       P   unlocked    ok       ok       ok       ok
        set       P   locked      locked   locked   locked   locked
        set       P   rebooted    locked   locked   locked   locked
        set       P   noPasscode  -25293   -26275   -26275   .
        create    A   unlocked    true     false    false    false
        create    A   locked      locked   locked   false    locked
        create    A   rebooted    locked   locked   locked   locked
        create    A   noPasscode  true     false    false    .
        create    C   unlocked    true     false    false    false
        create    C   locked      true     locked   false    locked
        create    C   rebooted    locked   locked   locked   locked
        create    C   noPasscode  true     false    false    .
        create    P   unlocked    true     false    false    false
        create    P   locked      locked   locked   false    locked
        create    P   rebooted    locked   locked   locked   locked
        create    P   noPasscode  -25293   false    false    .
        """

    private struct Row: CustomTestStringConvertible {
        var call: String
        var new: Character
        var state: String
        /// By the letter of the item's class; none by `-`.
        var results: [Character: String] = [:]

        var testDescription: String { "\(call) \(new) \(state)" }

        init?(_ line: Substring) {
            let columns = line.split(separator: " ").map(String.init)
            guard columns.count == 7, columns[0] != "call" else { return nil }
            (call, new, state) = (columns[0], columns[1].first ?? "-", columns[2])
            for (item, cell) in zip("-ACP", columns[3...]) where cell != "." { results[item] = cell }
        }
    }

    private static let rows = golden.split(separator: "\n").compactMap(Row.init)

    private static let classes: [Character: [CryptAccessibility]] = [
        "A": [.whenUnlocked, .whenUnlockedThisDeviceOnly],
        "C": [.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly],
        "P": [.whenPasscodeSetThisDeviceOnly],
    ]

    private func result(of call: String, _ new: CryptAccessibility, on store: KeychainCrypt) -> String {
        let key = CryptKey<String>(key: "a", accessibility: new)
        do {
            switch call {
            case "get": return try store.get(key) ?? "nil"
            case "contains": return "\(try store.contains(key))"
            case "keys":
                let names = try store.keys()
                return names.isEmpty ? "none" : names.joined(separator: " ")
            case "delete": try store.delete(key)
            case "deleteAll": try store.deleteAll()
            case "set": try store.set("new", for: key)
            default: return "\(try store.createIfAbsent("new", for: key))"
            }
            return "ok"
        } catch {
            switch error.code {
            case .unavailable(.locked): return "locked"
            case .system(let status): return "\(status)"
            default: return "\(error)"
            }
        }
    }

    @Test("for each call and class of the item, and it keeps what it refuses to change", arguments: rows)
    private func table(_ row: Row) throws {
        for (item, expected) in row.results {
            for present in Self.classes[item]?.map(Optional.init) ?? [nil] {
                for new in Self.classes[row.new] ?? [.whenUnlocked] {
                    let keychain = FakeKeychain()
                    let store = keychain.store()
                    if let present { try store.set("old", for: CryptKey(key: "a", accessibility: present)) }
                    change(keychain, to: row.state)
                    #expect(result(of: row.call, new, on: store) == expected, "\(row.testDescription) over \(item)")
                    let isWritten = row.call == "set" && expected == "ok" || expected == "true" && row.new != "-"
                    let isDeleted = row.call.hasPrefix("delete")
                    let kept = isWritten ? new : isDeleted ? nil : present
                    #expect(keychain.accessibility(account: "a") == kept)
                    keychain.unlock()
                    let value = kept == nil ? "nil" : isWritten ? "new" : "old"
                    #expect(result(of: "get", new, on: store) == value, "\(row.testDescription) over \(item), later")
                }
            }
        }
    }

    private func change(_ keychain: FakeKeychain, to state: String) {
        switch state {
        case "locked": keychain.lock()
        case "rebooted": keychain.reboot()
        case "noPasscode": keychain.removePasscode()
        default: #expect(state == "unlocked")
        }
    }

    /// A cell of the fake's table with another status than in Apple's sources.
    private struct WrongCell: SecItemCalls, CustomTestStringConvertible {
        var call: FakeKeychainCall
        var state: String
        /// The class of the present item.
        var item: Character
        var status: Int32
        var base = FakeKeychain()

        static let all = [
            WrongCell(call: .copyData, state: "locked", item: "A", status: -25300),
            WrongCell(call: .copyData, state: "rebooted", item: "-", status: -25308),
            WrongCell(call: .copyAccounts, state: "locked", item: "P", status: -25300),
            WrongCell(call: .add, state: "noPasscode", item: "-", status: -25291),
            WrongCell(call: .update, state: "locked", item: "A", status: 0),
            WrongCell(call: .delete, state: "rebooted", item: "C", status: -25308),
        ]

        var testDescription: String { "\(call) \(state) over \(item): \(status)" }

        private func answer(_ call: FakeKeychainCall, _ body: () -> KeychainStatus) -> KeychainStatus {
            call == self.call ? KeychainStatus(rawValue: status) : body()
        }

        func add(_ item: SecItemQuery, _ value: SecItemValue) -> KeychainStatus {
            answer(.add) { base.add(item, value) }
        }

        func copyData(_ query: SecItemQuery) -> (status: KeychainStatus, data: [UInt8]) {
            let (status, data) = base.copyData(query)
            return (answer(.copyData) { status }, data)
        }

        func copyAccounts(_ query: SecItemQuery) -> (status: KeychainStatus, accounts: [String]) {
            let (status, accounts) = base.copyAccounts(query)
            return (answer(.copyAccounts) { status }, accounts)
        }

        func update(_ query: SecItemQuery, to value: SecItemValue) -> KeychainStatus {
            answer(.update) { base.update(query, to: value) }
        }

        func delete(_ query: SecItemQuery) -> KeychainStatus { answer(.delete) { base.delete(query) } }
    }

    @Test("so that a wrong cell in the table of the Keychain's calls is found", arguments: WrongCell.all)
    private func wrongCells(_ cell: WrongCell) throws {
        var differences = 0
        for row in Self.rows where row.state == cell.state {
            guard let expected = row.results[cell.item] else { continue }
            for new in Self.classes[row.new] ?? [.whenUnlocked] {
                var cell = cell
                cell.base = FakeKeychain()
                if let present = Self.classes[cell.item]?.first {
                    try cell.base.store().set("old", for: CryptKey(key: "a", accessibility: present))
                }
                change(cell.base, to: row.state)
                let store = KeychainCrypt(service: "tests", accessGroup: nil, calls: cell)
                let found = result(of: row.call, new, on: store)
                // A call that succeeds must also have an effect.
                let isLost = row.call == "set" && found == "ok" && cell.base.accessibility(account: "a") != new
                if found != expected || isLost { differences += 1 }
            }
        }
        #expect(differences > 0)
    }

    @Test("in a table of every call, state, new class and present item")
    func completeness() {
        #expect(Self.rows.count == (5 + 2 * 3) * 4)
        #expect(Set(Self.rows.map(\.testDescription)).count == Self.rows.count)
        #expect(Self.rows.allSatisfy { $0.results.count == ($0.state == "noPasscode" ? 3 : 4) })
    }
}
