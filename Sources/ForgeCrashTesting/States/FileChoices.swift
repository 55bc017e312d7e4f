import ForgeFileSystem
import SystemPackage

/// The state of one file after a crash, as indices into its choices.
struct FileChoice: Hashable, Sendable {
    var size = 0
    var attributes = 0
    /// One index per undetermined block.
    var blocks: [Int]
}

/// All possible states of one file after a crash.
///
/// A class, because all states of a moment share it, and so do later moments until the file changes.
final class FileChoices: Sendable {
    let number: UInt64
    /// The revision of the file's history at creation.
    let revision: Int
    let sizes: [Int64]
    let lastSize: Int
    let attributes: [DiskImage.Attributes]
    let blocks: [BlockChoices]
    private let durable: FileContent
    /// The contribution of the determined blocks to the checksum of the content.
    private let settledSum: UInt64
    /// For each size, the number of undetermined blocks that begin before it.
    let visibleBlocks: [Int]
    /// For each size, the hashes of all versions of the block that it truncates.
    private let cutHashes: [[UInt64]]

    init(_ history: FileHistory, _ profile: CrashProfile, seed: UInt64) {
        number = history.node.number
        revision = history.revision
        let all = history.sizes
        let last = all.firstIndex(of: history.live.size) ?? 0
        switch profile.sizes {
        case .any: (sizes, lastSize) = (all, last)
        case .last: (sizes, lastSize) = ([all[last]], 0)
        case .durable: (sizes, lastSize) = ([all[0]], 0)
        }
        switch profile.attributes {
        case .any: attributes = history.attributes
        case .last: attributes = [history.attributes.last ?? history.node.attributes]
        case .durable: attributes = [history.attributes.first ?? history.node.attributes]
        }
        durable = history.durable
        blocks = history.blocks.sorted { $0.key < $1.key }
            .map { BlockChoices($0.key, $0.value, durableSize: all[0], profile, seed: seed ^ history.node.number) }
        settledSum = blocks.reduce(history.durableSum) { $0 &- history.durable.contribution(of: $1.number) }
        let blocks = blocks
        visibleBlocks = sizes.map { size in blocks.count { $0.number * 4096 < size } }
        cutHashes = sizes.map { size in
            let cut = Int(size % 4096)
            guard cut > 0, let block = blocks.first(where: { $0.number == size / 4096 }) else { return [] }
            return block.versions.indices.map { version in
                block.bytes(of: version).withUnsafeBytes { bytes in
                    StableHash.ofContent(UnsafeRawBufferPointer(rebasing: bytes[..<cut]))
                }
            }
        }
    }

    /// Everything as synchronised.
    var first: FileChoice { FileChoice(blocks: [Int](repeating: 0, count: blocks.count)) }

    /// Everything as before the crash.
    var last: FileChoice {
        FileChoice(size: lastSize, attributes: attributes.count - 1, blocks: blocks.map(\.last))
    }

    /// The number of choices; blocks beyond the end of the file do not count.
    var count: Double {
        var count = 0.0
        for visible in visibleBlocks {
            count += blocks[..<visible].reduce(1.0) { $0 * Double($1.versions.count) }
        }
        return count * Double(attributes.count)
    }

    /// The choice after this one; nil after the last.
    func next(_ choice: FileChoice) -> FileChoice? {
        var next = choice
        for place in 0..<visibleBlocks[choice.size] {
            next.blocks[place] += 1
            if next.blocks[place] < blocks[place].versions.count { return next }
            next.blocks[place] = 0
        }
        next.size += 1
        if next.size < sizes.count { return next }
        next.size = 0
        next.attributes += 1
        return next.attributes < attributes.count ? next : nil
    }

    func hash(_ choice: FileChoice) -> UInt64 {
        var sum = settledSum
        for place in 0..<visibleBlocks[choice.size] {
            let isCut = !cutHashes[choice.size].isEmpty && place == visibleBlocks[choice.size] - 1
            let version = choice.blocks[place]
            let hash = isCut ? cutHashes[choice.size][version] : blocks[place].versions[version].hash
            sum = sum &+ FileContent.contribution(of: blocks[place].number, hash)
        }
        let kept = attributes[choice.attributes]
        let hash = FileChoices.hash(size: sizes[choice.size], sum: sum, kept)
        guard attributes.count > 1 else { return hash }
        return StableHash.of(
            hash, UInt64(bitPattern: kept.modified.seconds), UInt64(bitPattern: Int64(kept.modified.nanoseconds)),
            UInt64(bitPattern: kept.accessed.seconds), UInt64(bitPattern: Int64(kept.accessed.nanoseconds)))
    }

    static func hash(size: Int64, sum: UInt64, _ attributes: DiskImage.Attributes) -> UInt64 {
        let hash = StableHash.of(
            UInt64(bitPattern: size), sum, UInt64(attributes.permissions.rawValue),
            UInt64(attributes.owner.rawValue) << 32 | UInt64(attributes.group.rawValue))
        return attributes.extended.isEmpty ? hash : StableHash.of(hash, attributes.extended.stableHash)
    }

    func content(_ choice: FileChoice) -> FileContent {
        var content = durable
        let size = sizes[choice.size]
        content.setSize(size)
        for place in 0..<visibleBlocks[choice.size] {
            let start = blocks[place].number * 4096
            let bytes = blocks[place].bytes(of: choice.blocks[place])
            let count = Int(min(4096, size - start))
            bytes.withUnsafeBytes { content.write(UnsafeRawBufferPointer(rebasing: $0[..<count]), at: start) }
        }
        return content
    }
}
