import ForgeFileSystem
import ForgeStorageTesting

/// Generates paths from few names, so that calls affect each other, with all hard cases of path resolution.
struct FuzzPaths {
    /// Whether `..` and absolute paths are avoided, for a process that cannot be confined by `chroot(2)`.
    let isConfined: Bool

    private static let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map { Array($0.utf8) }
    private static let rareNames: [[UInt8]] = [
        Array("A".utf8), [0x66, 0xFF, 0xC3, 0x28], Array("é".utf8), Array("e\u{301}".utf8), Array("...".utf8),
        [UInt8](repeating: 0x6E, count: 255), [UInt8](repeating: 0x6E, count: 256),
        [UInt8](repeating: 0x6F, count: 254),
    ]
    private static let dot = Array(".".utf8)
    private static let dotDot = Array("..".utf8)
    private static let slash = UInt8(ascii: "/")

    init(isConfined: Bool) {
        self.isConfined = isConfined
    }

    /// A path, mostly one of `likely` unchanged if there are any.
    func path(_ random: inout SplitMix64, likely: [POSIXPath]) -> POSIXPath {
        !likely.isEmpty && random.chance(70) ? random.pick(likely) : path(&random, from: likely)
    }

    /// A path for a new file, mostly directly below one of `directories`.
    func newPath(_ random: inout SplitMix64, below directories: [POSIXPath]) -> POSIXPath {
        guard random.chance(70) else { return path(&random, from: directories) }
        let name = POSIXPath(random.pick(Self.names))
        guard let directory = directories.isEmpty ? nil : random.pick(directories), random.chance(70) else {
            return name
        }
        return directory.count < 48 ? directory.appending(name) : name
    }

    /// A path of any form, which may begin with one of `beginnings`.
    private func path(_ random: inout SplitMix64, from beginnings: [POSIXPath]) -> POSIXPath {
        let odd = random.below(400)
        if odd < 5 { return oddPath(odd, &random) }
        var bytes: [UInt8]
        if !beginnings.isEmpty, random.chance(45) {
            bytes = Array(random.pick(beginnings).bytes)
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

    private func component(_ random: inout SplitMix64) -> [UInt8] {
        switch random.below(100) {
        case 0..<5: Self.dot
        case 5..<12: isConfined ? Self.dot : Self.dotDot
        case 12..<15: random.pick(Self.rareNames)
        default: random.pick(Self.names)
        }
    }

    private func oddPath(_ kind: Int, _ random: inout SplitMix64) -> POSIXPath {
        let name = random.pick(Self.names)
        switch kind {
        case 0: return ""
        case 1: return POSIXPath(name + [0] + name)
        case 2: return isConfined ? "." : POSIXPath([UInt8](repeating: Self.slash, count: 1 + random.below(3)))
        default:
            // The maximum path length, or one byte more.
            let padding = [UInt8](repeating: Self.slash, count: 4094 + random.below(2) - name.count)
            return POSIXPath(Self.dot + padding + name)
        }
    }
}
