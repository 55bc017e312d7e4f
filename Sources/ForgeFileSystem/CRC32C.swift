import CForgeFileSystem
package import Foundation

// Memory safety: A checksum reads the bytes that it is given, and only during the call.

/// The checksum CRC-32C (Castagnoli; RFC 3720, appendix B.4), computed incrementally.
package struct CRC32C: Sendable {
    private var state: UInt32 = .max

    package init() {}

    /// The checksum of all added bytes.
    package var value: UInt32 { ~state }

    /// Adds bytes, with the processor's CRC instruction where it has one.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        state =
            unsafe forge_crc32c_is_accelerated() != 0
            ? forge_crc32c_accelerated(state, bytes.baseAddress, bytes.count) : Self.portable(state, bytes)
    }

    /// Adds bytes.
    package mutating func update(_ bytes: some ContiguousBytes) {
        unsafe bytes.withUnsafeBytes { unsafe update($0) }
    }

    /// The software implementation: eight bytes at a time through eight tables (Kounavis and Berry, "Novel Table
    /// Lookup-Based Algorithms for High-Performance CRC Generation", 2008).
    package static func portable(_ start: UInt32, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
        unsafe tables.withUnsafeBufferPointer { table in
            var state = start
            var index = 0
            while bytes.count - index >= 8 {
                let word =
                    unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self).littleEndian ^ UInt64(state)
                state = 0
                for lane in 0..<8 {
                    unsafe state ^= table[(7 - lane) << 8 | Int(truncatingIfNeeded: word >> (8 * UInt64(lane)) & 0xFF)]
                }
                index += 8
            }
            while index < bytes.count {
                state = unsafe state >> 8 ^ table[Int(UInt8(truncatingIfNeeded: state) ^ bytes[index])]
                index += 1
            }
            return state
        }
    }

    /// Eight consecutive tables of 256 entries.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for byte in 0..<256 {
            var value = UInt32(byte)
            for _ in 0..<8 { value = value & 1 == 0 ? value >> 1 : value >> 1 ^ 0x82F6_3B78 }
            tables[byte] = value
        }
        for index in 256..<tables.count {
            let previous = tables[index - 256]
            tables[index] = previous >> 8 ^ tables[Int(previous & 0xFF)]
        }
        return tables
    }()
}
