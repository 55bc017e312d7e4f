import ForgeKVStore
import Foundation
import Testing

@Suite("Errors of property lists")
struct PropertyListFailureTests {
    private func failure(_ data: Data) -> String? {
        let error = #expect(throws: KVStoreError.self) { try KVImportSource.propertyList(data) }
        #expect(error?.code == .undecodable && error?.operation == .import)
        return error.map { "\($0)" }
    }

    /// A dictionary with one member: nested arrays.
    private func nested(_ depth: Int) -> Any {
        (0..<depth).reduce("x" as Any) { value, _ in [value] }
    }

    private func xml(_ depth: Int) -> Data {
        let arrays = String(repeating: "<array>", count: depth) + String(repeating: "</array>", count: depth)
        return Data(
            "<plist version=\"1.0\"><dict><key>a</key>\(arrays)<key>b</key><integer>1</integer></dict></plist>".utf8)
    }

    private static let textFailure =
        "import: cannot be decoded: decode: corrupted: the property list is malformed or nests deeper than 512 levels"

    @Test("report a malformed text", arguments: ["nonsense {", "", "<plist><dict><key>a</key></plist>"])
    func malformedText(_ text: String) {
        #expect(failure(Data(text.utf8)) == Self.textFailure)
    }

    @Test("report a malformed binary list", arguments: [0, 60])
    func malformedBinaryList(_ count: Int) {
        let data = Data("bplist00".utf8) + Data(repeating: 0x78, count: count)
        #expect(failure(data) == "import: cannot be decoded: decode: corrupted: the property list is malformed")
    }

    @Test(
        "report a missing dictionary at the top",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func noDictionary(_ format: PropertyListSerialization.PropertyListFormat) throws {
        let data = try PropertyListSerialization.data(fromPropertyList: [1], format: format, options: 0)
        #expect(
            failure(data)
                == "import: cannot be decoded: decode: corrupted: no dictionary at the top of the property list")
    }

    @Test(
        "contain the limit for a value that nests too deep",
        arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func deepValue(_ format: PropertyListSerialization.PropertyListFormat) throws {
        for (depth, isAccepted) in [(64, true), (65, false)] {
            let data = try PropertyListSerialization.data(
                fromPropertyList: ["a": nested(depth), "b": 1], format: format, options: 0)
            let store = InMemoryKVStore()
            let report = try store.importValues(from: .propertyList(data))
            #expect(store.get(KVKey<Int>("b")) == 1)
            let failures = report.failures.map { "\($0.error)" }
            #expect(
                failures
                    == (isAccepted ? [] : [#"import "a": cannot be decoded: decode: more than 64 levels of nesting"#]))
        }
    }

    @Test("name the values that refer to objects of a keyed archive; the others are imported")
    func references() throws {
        // `{"a": UID(5), "b": 1, "c": [UID(70000)]}`, as Python's plistlib writes it.
        let data = try #require(
            Data(
                base64Encoded:
                    "YnBsaXN0MDDTAQIDBAUGUWFRYlFjgAUQAaEHgwABEXAIDxETFRcZGwAAAAAAAAEBAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAg"))
        let store = InMemoryKVStore()
        let report = try store.importValues(from: .propertyList(data))
        #expect(store.get(KVKey<Int>("b")) == 1)
        #expect(
            report.failures.map { "\($0.error)" }
                == ["a", "c"].map {
                    "import \"\($0)\": cannot be decoded: decode: corrupted: the property list contains an object of "
                        + "another type"
                })
    }

    @Test("contain the limit for a list that nests too deep")
    func deepBinaryList() throws {
        let data = try PropertyListSerialization.data(
            fromPropertyList: ["a": nested(600)], format: .binary, options: 0)
        #expect(failure(data) == "import: cannot be decoded: decode: more than 512 levels of nesting")
    }

    @Test("contain the limit for a text that nests too deep", arguments: [600, 1_000_000])
    func deepText(_ depth: Int) {
        let openStep = Data(
            ("{a = " + String(repeating: "(", count: depth) + String(repeating: ")", count: depth) + ";}").utf8)
        #expect(failure(xml(depth)) == Self.textFailure)
        #expect(failure(openStep) == Self.textFailure)
    }
}
