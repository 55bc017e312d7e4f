// Memory safety: Every load of eight or four bytes is compared with the length of the name before.

/// The hash of names: multiplications of eight bytes at a time, folded (after Wang Yi's wyhash), under a secret of this
/// process, so that names that collide cannot be chosen from outside.
enum KeyHash {
    /// The seed of all hashes.
    struct Seed: Hashable, Sendable {
        var first: UInt64
        var second: UInt64
    }

    private static let secret = Seed(first: .random(in: 0 ... .max) | 1, second: .random(in: 0 ... .max) | 1)

    /// The hash of a name in this process.
    static func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { unsafe hash(bytes, secret) }

    /// The hash of a name, the same in every process.
    @inline(__always)
    static func hash(_ bytes: UnsafeRawBufferPointer, _ seed: Seed) -> UInt64 {
        var state = seed.first ^ UInt64(bytes.count)
        var offset = 0
        while bytes.count - offset > 8 {
            state = unsafe fold(state ^ bytes.integer(at: offset, as: UInt64.self), seed.second)
            offset += 8
        }
        // The last eight bytes, some of them for the second time.
        return unsafe fold(state ^ lastWord(bytes), seed.first ^ seed.second)
    }

    private static func lastWord(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        switch bytes.count {
        case 8...: return unsafe bytes.integer(at: bytes.count - 8, as: UInt64.self)
        case 4...:
            let low = unsafe UInt64(bytes.integer(at: 0, as: UInt32.self))
            return unsafe low | UInt64(bytes.integer(at: bytes.count - 4, as: UInt32.self)) << 32
        default: return unsafe bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }
}
