import ForgeStorage
import Foundation

/// Numbered writes to one store: write `n` sets the key `n % keyCount` to a value that contains `n` and in which tears
/// are detectable.
struct KillWorkload {
    static let keyCount = 64

    let store: any NumberedStore

    init(_ kind: StoreKind, directory: URL) throws {
        store =
            switch kind {
            case .keyValue: try NumberedKVStore(directory: directory)
            case .sharedKeyValue: try NumberedKVStore(directory: directory, sharing: .shared)
            case .batches: try NumberedBatches(directory: directory)
            case .file: try NumberedFileStore(directory: directory)
            case .secret: try NumberedVault(directory: directory)
            case .codable: NumberedStorage(directory: directory)
            case .cache: try NumberedCache(directory: directory)
            }
    }

    static func key(_ number: Int) -> String { "group-\(number % keyCount % 4)/key-\(number % keyCount)" }

    /// The value of write `number`: the number, then a length and filler derived from it.
    static func value(_ number: Int) -> Data {
        var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1
        let count = 16 + Int(state >> 40) % 3000
        var bytes = withUnsafeBytes(of: UInt64(number).littleEndian) { Data($0) }
        bytes.reserveCapacity(count)
        while bytes.count < count {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            bytes.append(UInt8(truncatingIfNeeded: state))
        }
        return bytes
    }

    /// The number of the write that stored `value`; nil if no write stored it.
    static func number(of value: Data) -> Int? {
        guard value.count >= 8 else { return nil }
        let number = value.prefix(8).enumerated().reduce(UInt64(0)) { $0 | UInt64($1.element) << (8 * $1.offset) }
        guard let number = Int(exactly: number), Self.value(number) == value else { return nil }
        return number
    }

    /// The violations after a kill: values that are torn, lost or were never written.
    ///
    /// The write after the last acknowledged one was in progress, so it may be present or not.
    func violations(acknowledged: Int) async throws -> [String] {
        var found: [String] = []
        for slot in 0..<Self.keyCount {
            let key = Self.key(slot)
            let last = acknowledged < slot ? nil : acknowledged - (acknowledged - slot) % Self.keyCount
            let underWay = (acknowledged + 1) % Self.keyCount == slot ? acknowledged + 1 : nil
            guard let value = try await store.load(key) else {
                if last != nil { found.append("\(key): an acknowledged value is gone") }
                continue
            }
            guard let number = Self.number(of: value) else {
                found.append("\(key): a torn value")
                continue
            }
            guard number == last || number == underWay else {
                found.append("\(key): write \(number), expected \(last.map(String.init) ?? "none")")
                continue
            }
        }
        return found
    }
}
