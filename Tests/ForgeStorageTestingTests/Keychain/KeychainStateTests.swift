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
                    switch row.state {
                    case "locked": keychain.lock()
                    case "rebooted": keychain.reboot()
                    case "noPasscode": keychain.removePasscode()
                    default: #expect(row.state == "unlocked")
                    }
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

    @Test("in a table of every call, state, new class and present item")
    func completeness() {
        #expect(Self.rows.count == (5 + 2 * 3) * 4)
        #expect(Set(Self.rows.map(\.testDescription)).count == Self.rows.count)
        #expect(Self.rows.allSatisfy { $0.results.count == ($0.state == "noPasscode" ? 3 : 4) })
    }
}
