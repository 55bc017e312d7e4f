import Foundation

extension Data {
    /// Bytes of every value, repeated with a period that no size of a page or buffer is a multiple of.
    ///
    /// They are made by doubling, because a closure for each byte is slow in debug builds.
    static func patterned(count: Int) -> Data {
        var bytes = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        while bytes.count < count { bytes += bytes }
        return Data(bytes.prefix(count))
    }
}
