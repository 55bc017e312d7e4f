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
