import Crypto
import ForgeFileSystem
import Foundation
import SystemPackage

@testable import ForgeCoding
@testable import ForgeCommands
@testable import ForgeCrypt
@testable import ForgeEtcd
@testable import ForgeKVStore
@testable import ForgeS3
@testable import ForgeStorage

/// A parser of bytes that come from outside. Each must return or throw, whatever the bytes; checksums and authentication
/// codes are made right before, so that what is behind them is reached.
enum FuzzedParser: String, CaseIterable {
    case value, json, members, propertyList = "plist", log, cache, image, vault, key, markers, manifest, lines
    #if S3
    case s3
    #endif
    #if Etcd
    case etcd
    #endif

    /// Parses the bytes; errors are what a parser is to throw.
    func parse(_ bytes: [UInt8]) {
        do {
            switch self {
            case .value: try Self.parseValue(bytes)
            case .json: try Self.parseJSON(bytes)
            case .members: try Self.read(KVImportSource.json(Data(bytes)))
            case .propertyList: try Self.read(KVImportSource.propertyList(Data(bytes)))
            case .log: try FuzzedLog(bytes).run()
            case .cache: try FuzzedFiles.parseCache(bytes)
            case .image: try FuzzedFiles.parseImage(bytes)
            case .vault: try FuzzedFiles.parseVault(bytes)
            case .key: try FuzzedFiles.parseKey(bytes)
            case .markers: try FuzzedFiles.parseMarkers(bytes)
            case .manifest: try FuzzedFiles.parseManifest(bytes)
            case .lines: try Self.parseLines(bytes)
            #if S3
            case .s3: Self.parseS3(bytes)
            #endif
            #if Etcd
            case .etcd: Self.parseEtcd(bytes)
            #endif
            }
        } catch {}
    }

    // MARK: Values

    /// Types whose containers ask for each kind of item.
    private struct Record: Codable {
        var number: Int?
        var text: String?
        var list: [Record]?
        var map: [String: Double]?
        var date: Date?
        var data: Data?
        var id: UUID?
        var decimal: Decimal?
        var url: URL?
    }

    private static func parseValue(_ bytes: [UInt8]) throws {
        func decode<Value: Decodable>(_ type: Value.Type) { _ = try? ValueCoder().decode(type, from: bytes) }
        decode(Record.self)
        decode([Record].self)
        decode([String].self)
        decode([Int: Int].self)
        decode(Set<Int>.self)
        decode(Decimal.self)
        decode(Date.self)
        decode(Data.self)
        decode(UUID.self)
        decode(Int128.self)
        decode(UInt64.self)
        decode(Double.self)
        decode(String.self)
        decode(Duration.self)
        decode(CodedValueProbe.self)
        let value = try CodedValue(decoding: try ValueEnvelope(decoding: bytes))
        // A decoded value can be encoded, and its encoding decodes as the same value.
        let encoded = try value.encoded()
        let again = try CodedValue(decoding: encoded).encoded()
        precondition(again == encoded, "a value reads back as another one")
        _ = try CodedValue(json: value.json())
    }

    /// Walks a value through nested containers.
    private struct CodedValueProbe: Decodable {
        init(from decoder: any Decoder) throws {
            if let map = try? decoder.container(keyedBy: AnyKey.self) {
                for key in map.allKeys {
                    if try !map.decodeNil(forKey: key) { _ = try map.decode(Self.self, forKey: key) }
                }
            } else if var list = try? decoder.unkeyedContainer() {
                while !list.isAtEnd { if try !list.decodeNil() { _ = try list.decode(Self.self) } }
            } else {
                _ = try? decoder.singleValueContainer().decode(Decimal.self)
            }
        }
    }

    private struct AnyKey: CodingKey {
        var stringValue: String
        var intValue: Int?
        init(stringValue: String) { self.stringValue = stringValue }
        init(intValue: Int) { (stringValue, self.intValue) = ("\(intValue)", intValue) }
    }

    // MARK: Texts

    private static func parseJSON(_ bytes: [UInt8]) throws {
        guard let text = String(validating: bytes, as: UTF8.self) else { return }
        let value = try CodedValue(json: text)
        let written = try value.json()
        let again = try CodedValue(json: written).json()
        precondition(again == written, "JSON reads back as another value")
        _ = try value.json(prettyPrinted: true)
        _ = try CodedValue(decoding: value.encoded())
    }

    private static func read(_ source: KVImportSource) throws {
        for name in try source.names() { _ = try? source.bytes(name) }
    }

    private static func parseLines(_ bytes: [UInt8]) throws {
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            guard let text = String(validating: line, as: UTF8.self) else { continue }
            guard let decoded = try? KeyValueLine.decode(text) else { continue }
            let encoded = try KeyValueLine.encode(decoded.key, decoded.bytes)
            let again = try KeyValueLine.decode(encoded)
            precondition(
                again.bytes == decoded.bytes && again.key.utf8.elementsEqual(decoded.key.utf8),
                "a line reads back as another one")
        }
    }

    // MARK: Servers

    #if S3
    private static func parseS3(_ bytes: [UInt8]) {
        guard let document = S3Document(bytes) else { return }
        func walk(_ element: S3Document) {
            _ = element["Key"]?.text
            for child in element.children { walk(child) }
        }
        walk(document)
    }
    #endif

    #if Etcd
    private static func parseEtcd(_ bytes: [UInt8]) {
        func decode<Value: Decodable>(_ type: Value.Type) {
            _ = try? JSONDecoder().decode(type, from: Data(bytes))
        }
        decode(EtcdRangeResponse<EtcdKeyValue>.self)
        decode(EtcdRangeResponse<EtcdVersionedKeyValue>.self)
        decode(EtcdTransactionResponse.self)
        decode(EtcdLeaseResponse.self)
        decode(EtcdServerError.self)
        decode(EtcdStreamed<EtcdWatchResponse>.self)
    }
    #endif
}

// MARK: - First inputs

extension FuzzedParser {
    /// Writes the first inputs, one file each.
    func writeSeeds(to directory: URL) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        for (number, seed) in try seeds().enumerated() {
            try Data(seed).write(to: directory.appendingPathComponent("\(rawValue)-\(number)"))
        }
    }

    private func seeds() throws -> [[UInt8]] {
        let texts = [
            #"{"a":[1,-2.5,1e300,"x\u00e9\ud83d\ude00",null,true],"b":{"@tag":4,"@value":[-1,15]},"c":{}}"#,
            #"{"@schema":2,"@value":{"nested":[[[]]]}}"#, "123456789012345678901234567890", "[1.5e-7,0.1,-0]",
        ]
        switch self {
        case .value:
            let record = Record(
                number: 1, text: "é", list: [Record(number: nil)], map: ["a": 1.5],
                date: Date(timeIntervalSince1970: 1),
                data: Data([1, 2]), id: UUID(), decimal: Decimal(string: "1.25"), url: URL(string: "https://a.b/c"))
            return try [
                ValueCoder().encode(record), ValueCoder().encode([1, 2, 3]), ValueCoder().encode("text"),
                ValueCoder().encode(Decimal(string: "12345678901234567890.5")), ValueCoder().encode(Int128.max),
                ValueCoder().encode(["a": [Date.distantFuture]]),
            ]
        case .json, .members: return texts.map { Array($0.utf8) }
        case .propertyList:
            let object: [String: Any] = [
                "a": [1, 2.5, "é", Data([1]), Date(timeIntervalSince1970: 0), true], "b": ["c": [String: Int]()],
            ]
            return try [PropertyListSerialization.PropertyListFormat.binary, .xml].map {
                try [UInt8](PropertyListSerialization.data(fromPropertyList: object, format: $0, options: 0))
            }
        case .log: return try FuzzedLog.seeds()
        case .cache, .image, .vault, .key, .markers, .manifest: return try FuzzedFiles.seeds(of: self)
        case .lines:
            return [
                Array(
                    #"""
                    {"key":"a","value":{"x":[1,2,{"@tag":1,"@value":3}]}}
                    {"key":"b","version":2,"value":"text"}
                    {"key":"c","base64":"EQFh"}
                    """#.utf8)
            ]
        #if S3
        case .s3:
            return [
                Array(
                    """
                    <?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="x"><IsTruncated>true</IsTruncated>\
                    <Contents><Key>a&amp;b%20&#x41;</Key><Size>3</Size><ETag>&quot;e&quot;</ETag></Contents>\
                    <CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes><!-- c --><Empty/></ListBucketResult>
                    """.utf8),
                Array("<Error><Code>NoSuchKey</Code><Message>no</Message></Error>".utf8),
            ]
        #endif
        #if Etcd
        case .etcd:
            return [
                #"{"header":{"cluster_id":"1","revision":"7"},"kvs":[{"key":"YQ==","value":"Yg==","mod_revision":"3"}],"more":true}"#,
                #"{"result":{"header":{"revision":"9"},"events":[{"type":"DELETE","kv":{"key":"YQ=="}}],"compact_revision":"4"}}"#,
                #"{"header":{},"succeeded":true,"ID":"12","TTL":"5"}"#, #"{"error":"x","code":14,"message":"y"}"#,
            ].map { Array($0.utf8) }
        #endif
        }
    }
}
