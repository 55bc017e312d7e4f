import Foundation

extension Data {
    /// Bytes of every value, with a period that divides no page or buffer size.
    ///
    /// Built by doubling, because a closure per byte is slow in debug builds.
    static func patterned(count: Int) -> Data {
        var bytes = Data((0..<4093).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        while bytes.count < count { bytes += bytes }
        return Data(bytes.prefix(count))
    }
}
