import ForgeCoding
import ForgeFileSystem
import Testing

@testable import ForgeKVStore

@Suite("Values of types that are stored inline in entries")
struct InlineTypesTests {
    private static let values: [any (Codable & Sendable & Equatable & FixedWidthInteger).Type] = [
        Int.self, Int64.self, Int32.self, Int16.self, Int8.self, UInt.self, UInt64.self, UInt32.self, UInt16.self,
        UInt8.self,
    ]

    private let fileSystem = InMemoryFileSystem()

    private func open() throws -> FileKVStore { try FileKVStore(at: "/store", fileSystem: fileSystem) }

    /// Stores values of a type, and compares them as bytes, decoded from those, and after reopening.
    private func check<Value: Codable & Sendable & Equatable>(_ type: Value.Type, _ values: [Value]) throws {
        #expect(InlineTypes.contain(type))
        #expect(ObjectIdentifier(InlineTypes.type(InlineTypes.kind(of: type))) == ObjectIdentifier(type))
        for value in values {
            let key = KVKey<Value>("\(type)")
            let bytes: [UInt8]
            do {
                let store = try open()
                try store.set(key, value: value)
                bytes = try #require(try store.rawValue(named: key.name))
                #expect(bytes == (try ValueTable.coder.encode(value)))
                #expect(store.get(key) == value)
                #expect(try store.snapshot().read(key) == value)
                try store.setRawValue(bytes, named: "raw")
                #expect(store.get(KVKey<Value>("raw")) == value)
            }
            let store = try open()
            #expect(try store.rawValue(named: key.name) == bytes)
            #expect(store.get(key) == value)
            #expect(store.get(KVKey<[String]>(key.name)) == nil)
            try store.compact()
            #expect(store.get(key) == value)
        }
    }

    private func checkInteger<Value: Codable & Sendable & FixedWidthInteger>(_ type: Value.Type) throws {
        try check(type, [.min, 0, 1, .max])
    }

    @Test("keep value and bytes for every type")
    func everyType() throws {
        for type in Self.values { try checkInteger(type) }
        try check(Bool.self, [false, true])
        try check(Float.self, [0, -0.5, .greatestFiniteMagnitude, .infinity])
        try check(Double.self, [0, 0.1, -.leastNonzeroMagnitude, .infinity])
        try check(String.self, ["", "short", String(repeating: "long", count: 100), "e\u{301}"])
        #expect(InlineTypes.all.count == Self.values.count + 4, "all of them are checked here")
    }
}
