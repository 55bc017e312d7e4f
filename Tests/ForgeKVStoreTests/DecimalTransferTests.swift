import ForgeKVStore
import Foundation
import Testing

@Suite("Decimals in JSON exports")
struct DecimalTransferTests {
    private let store = InMemoryKVStore()
    private let copy = InMemoryKVStore()

    private func transfer() throws {
        let (json, failures) = try store.exportJSON()
        #expect(failures.isEmpty)
        #expect(try copy.importValues(from: .json(Data(json.utf8))).isComplete)
    }

    @Test("keep their value")
    func values() throws {
        let texts = [
            "99999999999999999.99", "-0.1", "0.3", "1e2", "12345678901234567890.123456789", "1e127", "7e-127",
            "\(Decimal.greatestFiniteMagnitude)", "\(Decimal.leastFiniteMagnitude)", "0", "-5",
        ]
        let decimals = try texts.map { try #require(Decimal(string: $0)) }
        for (text, decimal) in zip(texts, decimals) { try store.set(KVKey<Decimal>(text), value: decimal) }
        try store.set(KVKey<[Decimal]>("list"), value: decimals)
        try transfer()
        for (text, decimal) in zip(texts, decimals) { #expect(copy.get(KVKey<Decimal>(text)) == decimal) }
        #expect(copy.get(KVKey<[Decimal]>("list")) == decimals)
    }

    @Test("can also be read as Double, and a Double is kept as one")
    func doubles() throws {
        let doubles = [0.1, 1e17, .greatestFiniteMagnitude, .leastNonzeroMagnitude, -0.0, 3, 0.1 + 0.2, 1e-7]
        try store.set(KVKey<[Double]>("doubles"), value: doubles)
        try store.set(KVKey<[Float]>("floats"), value: doubles.map { Float($0) }.filter(\.isFinite))
        try store.set(KVKey<Decimal>("decimal"), value: try #require(Decimal(string: "99999999999999999.99")))
        try transfer()
        #expect(try copy.rawValue(named: "doubles") == store.rawValue(named: "doubles"))
        #expect(copy.get(KVKey<[Float]>("floats")) == store.get(KVKey<[Float]>("floats")))
        #expect(copy.get(KVKey<Double>("decimal")) == 1e17)
        #expect(copy.get(KVKey<Int>("decimal")) == nil)
    }
}
