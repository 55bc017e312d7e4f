import ForgeFileSystem
import ForgeStorage
import Foundation
import Testing

@Suite("The file of a cache entry")
struct CacheFileTests {
    static let samples = [
        CacheFile(key: "a", tag: nil, expiry: nil, payload: Data()),
        CacheFile(key: "", tag: "", expiry: .min, payload: Data([0])),
        CacheFile(
            key: "e\u{301}/x", tag: "\"v1\"", expiry: 1_700_000_000_123, payload: Data(repeating: 7, count: 5000)),
        CacheFile(key: "absent", tag: nil, expiry: 5, payload: nil),
    ]

    private func content(of file: CacheFile) -> [UInt8] { file.header() + Array(file.payload ?? Data()) }

    @Test("is read as it was written", arguments: 0..<4)
    func roundTrip(number: Int) throws {
        let file = Self.samples[number]
        let read = try CacheFile(content(of: file), key: file.key)
        #expect(read.key.utf8.elementsEqual(file.key.utf8))
        #expect(read.tag == file.tag && read.expiry == file.expiry && read.payload == file.payload)
    }

    @Test("has the documented bytes")
    func golden() throws {
        let golden: [UInt8] =
            Array("FORGECCH".utf8) + [1, 0, 0, 0] + [0x8c, 0xd2, 0xfa, 0xf6]
            + [0x7b, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0x00, 0x00] + [2, 0, 0, 0] + [3, 0, 0, 0] + [2, 0, 0, 0]
            + [0, 0, 0, 0] + Array("key".utf8) + Array("v1".utf8) + Array("value".utf8)
        let file = CacheFile(key: "key", tag: "v1", expiry: 1_700_000_000_123, payload: Data("value".utf8))
        #expect(content(of: file) == golden)
    }

    @Test("every flipped bit and every truncation is detected")
    func damage() throws {
        let file = CacheFile(key: "key", tag: "tag", expiry: 9, payload: Data("value".utf8))
        let intact = content(of: file)
        for bit in 0..<8 * intact.count {
            var damaged = intact
            damaged[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(throws: CacheFile.Damage.self) { try CacheFile(damaged, key: "key") }
        }
        for count in 0..<intact.count {
            #expect(throws: CacheFile.Damage.self) { try CacheFile(Array(intact.prefix(count)), key: "key") }
        }
        #expect(throws: CacheFile.Damage.otherKey) { try CacheFile(intact, key: "kez") }
    }

    /// The content with other bytes from an offset on, and their checksum.
    private func forged(_ file: CacheFile, _ bytes: [UInt8], at offset: Int) -> [UInt8] {
        var content = content(of: file)
        content.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        var checksum = CRC32C()
        content.withUnsafeBytes { content in
            checksum.update(UnsafeRawBufferPointer(rebasing: content[..<12]))
            checksum.update(UnsafeRawBufferPointer(rebasing: content[16...]))
        }
        content.replaceSubrange(12..<16, with: withUnsafeBytes(of: checksum.value.littleEndian, Array.init))
        return content
    }

    @Test("with bytes that no cache writes is damaged, whatever its checksum")
    func forgedFields() throws {
        let file = CacheFile(key: "key", tag: "tag", expiry: 9, payload: Data("value".utf8))
        _ = try CacheFile(forged(file, [2], at: 24), key: "key")
        for (bytes, offset) in [([6], 24), ([0], 24), ([1], 36), ([0xFF], 43)] as [([UInt8], Int)] {
            #expect(throws: CacheFile.Damage.checksum) { try CacheFile(forged(file, bytes, at: offset), key: "key") }
        }
    }

    @Test("of a later version is not read")
    func laterVersion() throws {
        var content = content(of: Self.samples[0])
        content[8] = 2
        #expect(throws: CacheFile.Damage.newerVersion(2)) { try CacheFile(content, key: "a") }
    }
}
