import ForgeCoding
import ForgeFileSystem
package import Foundation

/// The bytes of an image's file: magic, version, checksum, and the encoded image.
package enum ImageFile {
    /// The maximum size of a file that is read, 256 MiB.
    package static let maximumSizeInBytes = 256 << 20

    private static let magic = Array("FORGEIMG".utf8)
    private static let version: UInt32 = 1
    private static let checksumOffset = 12
    private static let headerLength = 16

    /// What follows the name of a key in the name of its file.
    package static let suffix = ".cache"

    static func content(of image: CachedImage) throws -> Data {
        let payload = try ValueCoder().encode(image)
        var content = Data(capacity: headerLength + payload.count)
        content.append(contentsOf: magic)
        withUnsafeBytes(of: version.littleEndian) { content.append(contentsOf: $0) }
        var checksum = CRC32C()
        content.withUnsafeBytes { checksum.update($0) }
        payload.withUnsafeBytes { checksum.update($0) }
        withUnsafeBytes(of: checksum.value.littleEndian) { content.append(contentsOf: $0) }
        content.append(contentsOf: payload)
        return content
    }

    package static func image(in content: Data) throws -> CachedImage {
        if content.first == UInt8(ascii: "{") { return try imageInJSON(content) }
        return try content.withUnsafeBytes { bytes in
            guard bytes.count >= headerLength, bytes.starts(with: magic) else { throw ImageFileDamage.foreign }
            let version = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: magic.count, as: UInt32.self))
            guard version <= Self.version else { throw ImageFileDamage.newerVersion(version) }
            let payload = UnsafeRawBufferPointer(rebasing: bytes[headerLength...])
            var checksum = CRC32C()
            checksum.update(UnsafeRawBufferPointer(rebasing: bytes[..<checksumOffset]))
            checksum.update(payload)
            let stored = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: checksumOffset, as: UInt32.self))
            guard checksum.value == stored else { throw ImageFileDamage.checksum }
            return try ValueCoder().decode(CachedImage.self, from: Array(payload))
        }
    }

    /// Decodes an image that a cache of JSON files has written with `JSONEncoder`.
    private static func imageInJSON(_ content: Data) throws -> CachedImage {
        do {
            return try JSONDecoder().decode(CachedImage.self, from: content)
        } catch {
            // The decoder's error may quote the content.
            throw ImageFileDamage.foreign
        }
    }
}
