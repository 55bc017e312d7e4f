#if S3
import Crypto
import NIOCore

extension SHA256 {
    mutating func update(_ bytes: ByteBuffer) {
        bytes.withUnsafeReadableBytes { update(bufferPointer: $0) }
    }

    /// The digest in hexadecimal digits.
    func hexadecimalDigest() -> String { S3Encoding.hexadecimal(finalize()) }

    /// The digest of bytes in hexadecimal digits.
    static func hexadecimalDigest(of bytes: ByteBuffer) -> String {
        var hash = SHA256()
        hash.update(bytes)
        return hash.hexadecimalDigest()
    }
}
#endif
