import ForgeStorageTesting

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
