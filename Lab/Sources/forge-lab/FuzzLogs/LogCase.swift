import ForgeStorageTesting

/// A damaged or forged log, derived from a seed and a number.
struct LogCase {
    var log: [UInt8]

    /// The content of the shared page; nil for a store with exclusive access.
    var page: [UInt8]?

    /// The templates that bytes were taken from.
    var sources: Set<Int>

    /// The changes to the bytes, for diagnosis.
    var history: [String] = []

    /// Whether a checksum was recomputed, which accidental damage never does.
    var isForged = false

    /// Whether intact records were moved, which accidental damage does not do either.
    var hasMoved = false

    /// Whether names or values were forged, so that the served values are unpredictable.
    var hasForgedContent = false

    var random: SplitMix64

    init(seed: UInt64, number: Int) {
        random = SplitMix64(seed: seed ^ UInt64(truncatingIfNeeded: number) &* 0xD134_2543_DE82_EF95)
        // The last templates are long and therefore slow.
        let choice = random.below(random.chance(10) ? LogTemplate.all.count : LogTemplate.all.count - 2)
        let template = LogTemplate.all[choice]
        sources = [choice]
        log = template.log
        if random.chance(3) { page = SharedPageBytes.make(&random) }
        // Some logs stay undamaged.
        let count = random.chance(3) ? 0 : 1 + random.below(random.chance(20) ? 12 : 3)
        for _ in 0..<count {
            switch random.below(10) {
            case 0..<6: damage()
            case 6..<9: forge()
            default: damage()
            }
        }
    }

    /// An offset in the log, most often at the start of a record or of one of its fields.
    mutating func place() -> Int {
        let records = LogBytes.records(log)
        if random.chance(20) || records.isEmpty { return random.below(log.count + 1) }
        let record = random.pick(records)
        return min(
            log.count, random.pick([record.lowerBound, record.upperBound]) + (random.chance(60) ? 0 : random.below(26)))
    }

    /// A boundary value, or a value close to `number`.
    mutating func extreme(near number: UInt64) -> UInt64 {
        switch random.below(4) {
        case 0: return random.pick([0, 1, 2, 3, 4, 19, 20, 63, 64, 255, 256, 1024, 1025, 65_535, 65_536])
        case 1:
            let power: UInt64 = 1 << random.pick([7, 8, 15, 16, 31, 32, 40, 52, 61, 62, 63])
            return power &+ UInt64(random.below(3)) &- 1
        case 2: return number &+ UInt64(random.below(9)) &- 4
        default: return random.pick([.max, .max - 1, UInt64(log.count), UInt64(max(0, log.count - 64)), random.next()])
        }
    }
}

/// Possible contents of the page that processes share.
enum SharedPageBytes {
    static func make(_ random: inout SplitMix64) -> [UInt8] {
        var bytes = [UInt8](repeating: random.pick([0, 0xFF, 0x20]), count: random.pick([0, 1, 64, 4096, 4096, 5000]))
        if random.chance(50) { for index in bytes.indices { bytes[index] = UInt8(random.below(256)) } }
        if random.chance(70), bytes.count > 64 {
            for (index, byte) in (Array("FORGESH\n".utf8) + [1, 0, 0, 0, 0, 16, 0, 0]).enumerated() {
                bytes[index] = byte
            }
        }
        return bytes
    }
}
