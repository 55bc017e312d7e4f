/// What a rotten device hands out in place of what was stored. The stored bytes are untouched, so what is read is right
/// again once the rule is lifted.
///
/// Sectors are 512 bytes long and counted from the start of the file.
public enum FileCorruption: Hashable, Sendable {
    /// One bit is the other way round; bit 0 is the lowest of the byte at `offset`.
    case flippedBit(offset: Int64, bit: Int)

    /// A sector reads as zeros.
    case zeroedSector(Int64)

    /// A sector reads as it was before it was last written to: a write that was lost. Only writes that went through the
    /// same ``FaultingFileSystem`` while the rule was in its plan are known.
    case staleSector(Int64)

    /// A sector reads as another one of the same file: a read that went astray.
    case misdirectedSector(Int64, from: Int64)

    /// The length of a sector.
    public static let sectorSizeInBytes: Int64 = 512
}

extension FileCorruption: CustomStringConvertible {
    public var description: String {
        switch self {
        case .flippedBit(let offset, let bit): "bit \(bit) of byte \(offset) flipped"
        case .zeroedSector(let sector): "sector \(sector) zeroed"
        case .staleSector(let sector): "sector \(sector) stale"
        case .misdirectedSector(let sector, let other): "sector \(sector) read from \(other)"
        }
    }
}
