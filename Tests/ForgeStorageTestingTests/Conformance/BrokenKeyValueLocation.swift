import ForgeKVStore
import ForgeStorageTesting
import Synchronization

/// A persistent key-value store with one defect, to test that the corresponding check fails.
final class BrokenKeyValueLocation: Sendable {
    /// The description of the check that must fail.
    enum Defect: String, CaseIterable, Sendable {
        case isNeverEmpty = "a new place is empty"
        case losesLargeNumbers = "values of every kind persist across reopening"
        case losesOddNames = "names of every kind persist across reopening"
        case goesBack = "the last of several values persists across reopening"
        case bringsBack = "a removed key stays absent after reopening"
        case emptiesLate = "removeAll and the values set after it persist across reopening"
        case wearsOut = "a store opened many times keeps the writes of each opening"
        case countsAnew = "revisions continue after reopening"
        case repeatsBatches = "a batch persists across reopening, in order"
        case roundsNumbers = "a value reads as another type after reopening as it did before, and is not changed"
        case dropsTexts = "a value of another type is still undecodable after reopening, and is kept"
    }

    private let defect: Defect?
    private let base = InMemoryKVStore()
    private let openings = Mutex(0)

    init(_ defect: Defect?) { self.defect = defect }

    var place: KeyValueStoreLocation<any KVTransactionalStoring> { KeyValueStoreLocation { [self] in try open() } }

    private func open() throws -> any KVTransactionalStoring {
        let number = openings.withLock { openings in
            openings += 1
            return openings
        }
        switch defect {
        case .isNeverEmpty: try base.set(KVKey<Int>("version"), value: 1)
        case .losesLargeNumbers: try base.remove(KVKey<UInt64>("large"))
        case .losesOddNames:
            for name in try base.keys() where !name.utf8.allSatisfy({ $0 < 0x80 }) {
                try base.removeValue(named: name)
            }
        case .goesBack where number > 1: try base.set(KVKey<Int>("a"), value: 98)
        case .bringsBack where number > 1: try base.set(KVKey<Int>("a"), value: 1)
        case .emptiesLate where number > 1: try base.removeAll()
        case .wearsOut where number > 5: try base.remove(KVKey<Int>("0"))
        case .countsAnew where number > 1:
            let copy = InMemoryKVStore()
            for name in try base.keys() { try copy.setRawValue(try base.rawValue(named: name) ?? [], named: name) }
            return copy
        case .repeatsBatches where number > 1: try base.set(KVKey<Int>("b"), value: 1)
        case .roundsNumbers where number > 1:
            for name in try base.keys() {
                guard name.hasPrefix("Double"), let number = base.get(KVKey<Float>(name)) else { continue }
                try base.set(KVKey<Float>(name), value: number)
            }
        case .dropsTexts where number > 1: try base.remove(KVKey<String>("a"))
        default: break
        }
        return base
    }
}
