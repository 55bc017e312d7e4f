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

/// Accidental damage: it never makes a checksum valid.
extension LogCase {
    mutating func damage() {
        guard !log.isEmpty else { return history.append("the log is empty") }
        let offset = min(place(), log.count - 1)
        switch random.below(10) {
        case 0, 1:
            for _ in 0...random.below(3) {
                let offset = min(place(), log.count - 1)
                log[offset] ^= 1 << UInt8(random.below(8))
                history.append("a bit flips at \(offset)")
            }
        case 2, 3: log = overwritten(log, at: offset, "the log")
        case 4: cut(offset)
        case 5: extend()
        case 6, 7: splice(at: offset)
        case 8: moveRecord()
        default:
            let header = min(LogBytes.headerSize, log.count)
            let offset = random.below(header)
            log[offset] = UInt8(random.below(256))
            history.append("the header changes at \(offset)")
        }
    }

    private mutating func overwritten(_ bytes: [UInt8], at offset: Int, _ what: String) -> [UInt8] {
        var bytes = bytes
        let end = min(bytes.count, offset + 1 + random.below(random.pick([4, 40, 4096])))
        let kind = random.below(3)
        for index in offset..<end { bytes[index] = kind == 0 ? 0 : kind == 1 ? 0xFF : UInt8(random.below(256)) }
        history.append("\(what) is overwritten from \(offset) to \(end) by \(["zeros", "ones", "noise"][kind])")
        return bytes
    }

    private mutating func cut(_ offset: Int) {
        if random.chance(50) {
            log.removeLast(log.count - offset)
            history.append("the log is cut to \(offset)")
        } else {
            let end = min(log.count, offset + random.below(100))
            log.removeSubrange(offset..<end)
            history.append("bytes \(offset) to \(end) are missing")
        }
    }

    private mutating func extend() {
        let count = random.below(random.pick([30, 600, 5000]))
        let kind = random.below(3)
        log += (0..<count).map { _ in kind == 0 ? 0 : kind == 1 ? 0xFF : UInt8(random.below(256)) }
        history.append("\(count) bytes of \(["zeros", "ones", "noise"][kind]) are appended")
    }

    /// Inserts a piece of this log or of another one.
    private mutating func splice(at offset: Int) {
        let other = random.chance(50) ? sources.min() ?? 0 : random.below(LogTemplate.all.count - 2)
        hasMoved = hasMoved || sources.contains(other)
        sources.insert(other)
        let bytes = LogTemplate.all[other].log
        let starts = [0, 64] + LogBytes.records(bytes).map(\.lowerBound)
        let start = random.chance(80) ? min(random.pick(starts), bytes.count) : random.below(bytes.count + 1)
        let piece = bytes[start..<min(bytes.count, start + random.below(random.pick([70, 300, 5000])))]
        let end = random.chance(50) ? offset : min(log.count, offset + piece.count)
        log.replaceSubrange(offset..<end, with: piece)
        history.append("\(piece.count) bytes of template \(other) from \(start) replace \(offset) to \(end)")
    }

    private mutating func moveRecord() {
        let records = LogBytes.records(log)
        guard !records.isEmpty else { return }
        let (first, second) = (random.pick(records), random.pick(records))
        hasMoved = true
        switch random.below(3) {
        case 0:
            log.removeSubrange(first)
            history.append("record \(first) is missing")
        case 1:
            log.insert(contentsOf: log[first], at: second.lowerBound)
            history.append("record \(first) is duplicated at \(second.lowerBound)")
        default:
            let (low, high) = first.lowerBound < second.lowerBound ? (first, second) : (second, first)
            let (lower, higher) = (Array(log[low]), Array(log[high]))
            guard low != high else { return }
            log.replaceSubrange(high, with: lower)
            log.replaceSubrange(low, with: higher)
            history.append("records \(low) and \(high) are swapped")
        }
    }
}

/// Deliberate forgery: fields are changed and the checksums recomputed.
extension LogCase {
    mutating func forge() {
        guard log.count >= LogBytes.headerSize else { return damage() }
        switch random.below(10) {
        case 0: forgeHeader()
        case 1..<5: forgeFrame()
        case 5: forgePayload()
        case 6, 7: insertRecord()
        default: forgeFrame()
        }
    }

    /// Recomputes the checksum of a record, which also covers all earlier damage to it.
    private mutating func sign(_ record: Range<Int>) {
        LogBytes.sign(record, of: &log)
        isForged = true
        if !history.isEmpty { hasForgedContent = true }
    }

    private mutating func forgeHeader() {
        let offset = random.pick([8, 12, 32, 56, random.below(60)])
        let value = UInt32(truncatingIfNeeded: extreme(near: UInt64(log.integer(at: min(offset, 56), UInt32.self))))
        log.store(value, at: min(offset, 56))
        LogBytes.signHeader(&log)
        isForged = true
        history.append("the header says \(value) at \(offset), and its checksum is right")
    }

    /// Changes a record's length, revision or flush marker.
    private mutating func forgeFrame() {
        let records = LogBytes.records(log)
        guard !records.isEmpty else { return insertRecord() }
        var record = random.pick(records)
        let start = record.lowerBound
        switch random.below(4) {
        case 0:
            let size = extreme(near: UInt64(record.count - LogBytes.frameSize))
            log.store(UInt32(truncatingIfNeeded: size), at: start)
            // The checksum can be recomputed only if all bytes exist.
            let end = start + LogBytes.frameSize + Int(clamping: UInt32(truncatingIfNeeded: size))
            if end <= log.count { record = start..<end }
            hasForgedContent = true
        case 1, 2:
            let number = extreme(near: log.integer(at: start + 4, UInt64.self))
            log.store(number, at: start + 4)
        default:
            let count = extreme(near: UInt64(log.integer(at: start + 12, UInt32.self)))
            log.store(UInt32(truncatingIfNeeded: count), at: start + 12)
        }
        sign(record)
        history.append("the frame of \(record) is \(Array(log[start..<start + 16])), and its checksum is right")
    }

    /// Changes a record's payload: its operation, flags, lengths, or any byte.
    private mutating func forgePayload() {
        let records = LogBytes.records(log)
        guard !records.isEmpty else { return insertRecord() }
        let record = random.pick(records)
        let start = record.lowerBound + LogBytes.frameSize
        for _ in 0...random.below(2) {
            let offset = random.pick([
                start, start + 1, start + 2, start + 3, start + random.below(record.upperBound - start),
            ])
            log[offset] = UInt8(truncatingIfNeeded: random.pick([random.next(), 0, 1, 2, 3, 4, 5, 0xFF, 0x80]))
        }
        sign(record)
        hasForgedContent = true
        history.append("the payload of \(record) begins with \(Array(log[start..<min(start + 8, record.upperBound)]))")
    }

    /// Inserts a forged record.
    private mutating func insertRecord() {
        let records = LogBytes.records(log)
        let end = records.last?.upperBound ?? LogBytes.headerSize
        let offset = max(LogBytes.headerSize, random.chance(60) ? end : place())
        let last = records.last { $0.upperBound <= offset }.map { log.integer(at: $0.lowerBound + 4, UInt64.self) } ?? 0
        let payload = random.chance(50) ? batchPayload() : plainPayload()
        var record = [UInt8](repeating: 0, count: LogBytes.frameSize)
        let number = random.chance(50) ? last &+ UInt64(1 + random.below(6)) : extreme(near: last)
        record.store(UInt32(payload.count), at: 0)
        record.store(number, at: 4)
        record.store(random.chance(70) ? UInt32(0) : UInt32(truncatingIfNeeded: random.next()), at: 12)
        log.insert(contentsOf: record + payload, at: min(offset, log.count))
        let start = min(offset, log.count)
        sign(start..<start + record.count + payload.count)
        hasForgedContent = true
        history.append("a record \(number) of \(payload.count) bytes, \(payload.prefix(12)), is inserted at \(start)")
    }

    private mutating func plainPayload() -> [UInt8] {
        let nameSize = random.pick([0, 1, 1, 5, 1023, 1024, 1025, 65_535])
        var payload: [UInt8] = [
            random.pick([1, 1, 1, 2, 3, 4, 0, 6, 0xFF]), random.pick([0, 0, 0, 1, 2, 0xFF]), 0, 0,
        ]
        payload.store(UInt16(nameSize), at: 2)
        payload += [UInt8](repeating: random.pick([0x61, 0x61, 0, 0xC3]), count: random.chance(80) ? nameSize : 3)
        payload += (0..<random.pick([0, 0, 1, 9, 300])).map { _ in UInt8(random.below(256)) }
        return payload
    }

    private mutating func batchPayload() -> [UInt8] {
        var payload: [UInt8] = [5, random.chance(90) ? 0 : 1, random.chance(90) ? 0 : 1, 0]
        for _ in 0..<random.pick([0, 1, 2, 3, 8, 70]) {
            let name = Array(random.pick(["a", "b", "key.1", "", "é"]).utf8)
            let isRemoval = random.chance(30)
            let valueSize = isRemoval ? 0 : random.below(12)
            var change: [UInt8] = [isRemoval ? 2 : 1, 0, 0, 0, 0, 0, 0, 0]
            change.store(UInt16(name.count), at: 2)
            change.store(UInt32(valueSize), at: 4)
            if random.chance(4) { change[random.below(8)] = UInt8(random.below(256)) }
            if random.chance(2) { change.store(UInt32(truncatingIfNeeded: extreme(near: UInt64(valueSize))), at: 4) }
            payload += change + name + [UInt8](repeating: 0x11, count: valueSize)
        }
        return payload
    }
}
