import ForgeFileSystem

/// Makes paths of few names, so that calls meet, with everything that walks stumble over.
struct FuzzPaths {
    /// Whether `..` and absolute paths are left out, for a process that cannot be locked into its directory.
    let isConfined: Bool

    private static let names = ["a", "b", "c", "d", "e", "f"].map { Array($0.utf8) }
    private static let rareNames: [[UInt8]] = [
        Array("A".utf8), [0x66, 0xFF, 0xC3, 0x28], Array("é".utf8), Array("e\u{301}".utf8), Array("...".utf8),
        [UInt8](repeating: 0x6E, count: 255), [UInt8](repeating: 0x6E, count: 256),
        [UInt8](repeating: 0x6F, count: 254),
    ]
    private static let dot = Array(".".utf8)
    private static let dotDot = Array("..".utf8)
    private static let slash = UInt8(ascii: "/")

    /// Paths that something was lately created at.
    private var recent: [[UInt8]] = []
    private var oldest = 0

    init(isConfined: Bool) {
        self.isConfined = isConfined
    }

    mutating func remember(_ path: POSIXPath) {
        // More behind an empty path would be an absolute one.
        guard !path.isEmpty, path.count < 64 else { return }
        if recent.count < 24 {
            recent.append(Array(path.bytes))
        } else {
            recent[oldest] = Array(path.bytes)
            oldest = (oldest + 1) % recent.count
        }
    }

    mutating func forget() {
        recent = []
        oldest = 0
    }

    func path(_ random: inout FuzzRandom) -> POSIXPath {
        let odd = random.below(400)
        if odd < 5 { return oddPath(odd, &random) }
        var bytes: [UInt8]
        if !recent.isEmpty, random.chance(45) {
            bytes = random.pick(recent)
        } else {
            bytes = !isConfined && random.chance(6) ? [Self.slash] : []
            bytes += component(&random)
        }
        while random.below(4) == 0 {
            bytes += random.below(8) == 0 ? [Self.slash, Self.slash] : [Self.slash]
            bytes += component(&random)
        }
        if random.chance(6) { bytes.append(Self.slash) }
        return POSIXPath(bytes)
    }

    private func component(_ random: inout FuzzRandom) -> [UInt8] {
        switch random.below(100) {
        case 0..<5: Self.dot
        case 5..<12: isConfined ? Self.dot : Self.dotDot
        case 12..<15: random.pick(Self.rareNames)
        default: random.pick(Self.names)
        }
    }

    private func oddPath(_ kind: Int, _ random: inout FuzzRandom) -> POSIXPath {
        let name = random.pick(Self.names)
        switch kind {
        case 0: return ""
        case 1: return POSIXPath(name + [0] + name)
        case 2: return isConfined ? "." : POSIXPath([UInt8](repeating: Self.slash, count: 1 + random.below(3)))
        default:
            // As long as a path may be, or one byte longer.
            let padding = [UInt8](repeating: Self.slash, count: 4094 + random.below(2) - name.count)
            return POSIXPath(Self.dot + padding + name)
        }
    }
}
