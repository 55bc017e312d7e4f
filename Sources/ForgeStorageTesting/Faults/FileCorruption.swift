/// Corrupted data that a device returns. The stored bytes are unchanged, so reads are correct after the rule is lifted.
///
/// Sectors have 512 bytes and are counted from the start of the file.
public enum FileCorruption: Hashable, Sendable {
    /// A flipped bit; bit 0 is the lowest of the byte at `offset`.
    case flippedBit(offset: Int64, bit: Int)

    /// A sector reads as zeros.
    case zeroedSector(Int64)

    /// A sector reads as before its last write: a lost write. Only writes through the same ``FaultingFileSystem`` while
    /// the rule is in its plan count.
    case staleSector(Int64)

    /// A sector reads as another one of the same file: a misdirected read.
    case misdirectedSector(Int64, from: Int64)

    /// The size of a sector.
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
