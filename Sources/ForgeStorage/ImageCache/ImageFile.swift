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
        content.append(contentsOf: version.littleEndianBytes)
        var checksum = CRC32C()
        checksum.update(content)
        checksum.update(payload)
        content.append(contentsOf: checksum.value.littleEndianBytes)
        content.append(contentsOf: payload)
        return content
    }

    package static func image(in content: Data) throws -> CachedImage {
        if content.first == UInt8(ascii: "{") { return try imageInJSON(content) }
        let header = [UInt8](content.prefix(headerLength))
        guard header.count == headerLength, header.starts(with: magic) else { throw ImageFileDamage.foreign }
        let version: UInt32 = header.littleEndian(at: magic.count)
        guard version <= Self.version else { throw ImageFileDamage.newerVersion(version) }
        let payload = [UInt8](content.dropFirst(headerLength))
        var checksum = CRC32C()
        checksum.update(header[..<checksumOffset])
        checksum.update(payload)
        guard checksum.value == header.littleEndian(at: checksumOffset, as: UInt32.self) else {
            throw ImageFileDamage.checksum
        }
        return try ValueCoder().decode(CachedImage.self, from: payload)
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
