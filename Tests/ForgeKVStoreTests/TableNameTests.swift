import ForgeFileSystem
import Testing

@testable import ForgeKVStore

@Suite("Names in a table")
struct TableNameTests {
    /// A name for every length up to 40 bytes, and names that differ from it in one byte.
    private static let names = (0...40).flatMap { length -> [String] in
        let plain = [UInt8](repeating: UInt8(ascii: "a"), count: length)
        let others = plain.indices.map { index in
            var other = plain
            other[index] = UInt8(ascii: "b")
            return other
        }
        return ([plain] + others).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("of every length that differ in a single byte are distinct keys")
    func oneByte() throws {
        let fileSystem = InMemoryFileSystem()
        func check(_ store: FileKVStore) throws {
            for (number, name) in Self.names.enumerated() {
                #expect(store.get(KVKey<Int>(name)) == number, "\(name)")
            }
            #expect(Set(try store.keys()) == Set(Self.names))
            #expect(store.get(KVKey<Int>(String(repeating: "c", count: 24))) == nil)
        }
        do {
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            for (number, name) in Self.names.enumerated() { try store.set(KVKey(name), value: number) }
            try check(store)
            try store.compact()
            try check(store)
        }
        try check(try FileKVStore(at: "/store", fileSystem: fileSystem))
    }

    @Test("are distinguished by their bytes")
    func comparison() {
        for name in Self.names {
            let bytes = Array(name.utf8) + [UInt8](repeating: 0, count: 8)
            bytes.withUnsafeBytes { bytes in
                guard let address = bytes.baseAddress else { return }
                for other in Self.names where other.utf8.count == name.utf8.count {
                    #expect(KeyName(other).isEqual(to: address, count: name.utf8.count) == (other == name))
                }
            }
        }
    }

    @Test("are equal and keep their bytes, whether they are long or short")
    func bytes() {
        for name in Self.names {
            let keyName = KeyName(name)
            #expect(keyName == KeyName(String(decoding: Array(name.utf8), as: UTF8.self)))
            #expect(keyName.withBytes { Array($0) } == Array(name.utf8))
        }
        #expect(Set(Self.names.map { KeyName($0) }).count == Self.names.count)
    }
}
