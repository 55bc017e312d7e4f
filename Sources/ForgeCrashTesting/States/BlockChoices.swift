import ForgeFileSystem
import ForgeStorageTesting

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
            version.hash = Self.bytes(of: version, wholes).withUnsafeBytes { StableHash.ofContent($0) }
            if seen.insert(version.hash).inserted { versions.append(version) }
        }
        for whole in wholes.indices { add(Version(newer: whole, older: whole)) }
        let lastHash = history.last.withUnsafeBytes { StableHash.ofContent($0) }
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
                    let difference = wholes[newer]
                        .withUnsafeBytes { bytes in
                            wholes[older].withUnsafeBytes { bytes.difference(from: $0) }
                        }
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
        wholes[version.newer]
            .withUnsafeBytes { bytes.overwrite(version.part, with: UnsafeRawBufferPointer(rebasing: $0[version.part])) }
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
