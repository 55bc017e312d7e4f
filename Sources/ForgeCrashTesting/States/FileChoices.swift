import ForgeFileSystem
import ForgeStorageTesting
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
                StableHash.ofContent(block.bytes(of: version)[..<cut])
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
            content.write(bytes.span.extracting(first: count), at: start)
        }
        return content
    }
}

/// The possible contents of one block after a crash.
struct BlockChoices: Sendable {
    /// A content, or a part of one combined with the rest of another.
    struct Version: Sendable {
        var newer: Int
        var older: Int
        /// The bytes taken from the newer content.
        var part = 0..<BlockHistory.size
        /// Garbage that no write stored, if the block contains such.
        var garbage: [UInt8]?
        var hash: UInt64 = 0
    }

    let number: Int64
    private let wholes: [[UInt8]]
    let versions: [Version]
    /// The index of the version after all writes.
    let last: Int

    /// Beyond this number of versions, each is torn only against the durable one and its predecessor.
    private static let manyVersions = 8

    init(_ number: Int64, _ history: BlockHistory, durableSize: Int64, _ profile: CrashProfile, seed: UInt64) {
        self.number = number
        let (wholes, steps) = history.history
        self.wholes = wholes
        var versions: [Version] = []
        var seen: Set<UInt64> = []
        func add(_ version: Version) {
            var version = version
            version.hash = StableHash.ofContent(Self.bytes(of: version, wholes)[...])
            if seen.insert(version.hash).inserted { versions.append(version) }
        }
        for whole in wholes.indices { add(Version(newer: whole, older: whole)) }
        let lastHash = StableHash.ofContent(history.last[...])
        let last = versions.firstIndex { $0.hash == lastHash } ?? 0
        guard profile.blocks == .any else {
            // The kept version comes first, then the torn variants of a store in progress.
            let kept = versions[profile.blocks == .last ? last : 0]
            (versions, seen) = ([kept], [kept.hash])
            if profile.blocks == .last, profile.tearsStores, history.isStoring, let step = steps.last {
                // A store over several blocks may not have reached this one.
                add(Version(newer: step.older, older: step.older))
                for part in TornStore.parts(of: history.writes[step.write].range) {
                    add(Version(newer: step.newer, older: step.older, part: part))
                }
            }
            self.versions = versions
            self.last = 0
            return
        }
        if profile.tearing != .none {
            for newer in wholes.indices {
                for older in wholes.indices where older != newer {
                    guard older < newer || history.writes.isEmpty else { continue }
                    guard wholes.count <= Self.manyVersions || older == 0 || older == newer - 1 else { continue }
                    // A tear outside the difference yields one of the two contents.
                    let difference = wholes[newer].difference(from: wholes[older])
                    for tear in stride(from: 512, to: BlockHistory.size, by: 512) where difference.contains(tear) {
                        add(Version(newer: newer, older: older, part: 0..<tear))
                    }
                }
            }
        }
        for step in steps {
            let write = history.writes[step.write]
            switch write.origin {
            case .append where profile.tearing == .anyByteOfAppends:
                for tear in write.range.dropFirst() {
                    add(Version(newer: step.newer, older: step.older, part: 0..<tear))
                }
            case .store where profile.tearsStores:
                for part in TornStore.parts(of: write.range) {
                    add(Version(newer: step.newer, older: step.older, part: part))
                }
            default: break
            }
        }
        if profile.leavesGarbage || !profile.isOverwritePowersafe {
            for write in history.writes {
                for garbage in Self.garbage(wholes, write, number, durableSize, profile, seed) {
                    add(Version(newer: 0, older: 0, garbage: garbage))
                }
            }
        }
        self.versions = versions
        self.last = last
    }

    /// The content of a version.
    func bytes(of version: Int) -> [UInt8] { Self.bytes(of: versions[version], wholes) }

    private static func bytes(of version: Version, _ wholes: [[UInt8]]) -> [UInt8] {
        if let garbage = version.garbage { return garbage }
        guard version.part.count < BlockHistory.size else { return wholes[version.newer] }
        var bytes = wholes[version.older]
        bytes.overwrite(version.part, with: wholes[version.newer][version.part])
        return bytes
    }

    private static func garbage(
        _ wholes: [[UInt8]], _ write: BlockHistory.Write, _ number: Int64, _ durableSize: Int64,
        _ profile: CrashProfile, _ seed: UInt64
    ) -> [[UInt8]] {
        guard let durable = wholes.first, let last = wholes.last, !write.bytes.isEmpty else { return [] }
        var generator = SplitMix64(seed: seed ^ UInt64(truncatingIfNeeded: number))
        func scramble(_ range: Range<Int>, in bytes: inout [UInt8]) {
            for place in range { bytes[place] = UInt8(truncatingIfNeeded: generator.next()) }
        }
        var found: [[UInt8]] = []
        if profile.leavesGarbage, number * Int64(BlockHistory.size) >= durableSize {
            var bytes = durable
            scramble(bytes.indices, in: &bytes)
            found.append(bytes)
        }
        if !profile.isOverwritePowersafe {
            let end = write.offset + write.bytes.count
            var bytes = last
            scramble(write.offset / 512 * 512..<write.offset, in: &bytes)
            scramble(end..<(end + 511) / 512 * 512, in: &bytes)
            found.append(bytes)
        }
        return found
    }
}
