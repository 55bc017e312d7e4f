#if S3
import ForgeStorageTesting
import Foundation
import Synchronization

/// The versions of one file, which one task saves and others load.
final class S3FaultHistory: Sendable {
    private struct State {
        var contents: [Int: Data] = [:]

        /// The newest version that was begun.
        var begun = 0

        /// The newest version whose save has returned.
        var acknowledged = 0

        /// Versions whose saves have failed without an effect.
        var refused: Set<Int> = []

        /// Versions that the server may still store, although their saves have ended.
        var uncertain: Set<Int> = []

        /// Versions that were loaded.
        var loaded: Set<Int> = []
    }

    let key: String
    private let state = Mutex(State())

    init(key: String) {
        self.key = key
    }

    // MARK: Saves

    /// Begins a version: the content of a seed and a size.
    func begin(size: Int, seed: UInt64) -> (version: Int, content: Data) {
        var generator = SplitMix64(seed: seed)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size + 8)
        while bytes.count < size { withUnsafeBytes(of: generator.next()) { bytes += $0 } }
        let content = Data(bytes.prefix(size))
        let version = state.withLock { state in
            state.begun += 1
            state.contents[state.begun] = content
            return state.begun
        }
        return (version, content)
    }

    func acknowledge(_ version: Int) { state.withLock { $0.acknowledged = version } }

    func leaveOpen(_ version: Int) { state.withLock { _ = $0.uncertain.insert(version) } }

    func refuse(_ version: Int) { state.withLock { _ = $0.refused.insert(version) } }

    // MARK: Loads

    /// The oldest version that a load which begins now may see.
    var oldest: Int { state.withLock { $0.acknowledged } }

    /// Whether all parts of a load are of one version that it may have seen.
    func explains(_ parts: [(offset: Int, bytes: Data)], size: Int, since oldest: Int) -> Bool {
        state.withLock { state in
            let possible = state.uncertain.union(oldest...state.begun)
            let versions = possible.filter { version in
                guard let content = state.contents[version], content.count == size else { return false }
                return parts.allSatisfy { content.dropFirst($0.offset).prefix($0.bytes.count) == $0.bytes }
            }
            // Contents of a few bytes can be equal.
            if versions.count == 1, size > 8 { state.loaded.formUnion(versions) }
            let (kept, uncertain) = (state.acknowledged - 1_000, state.uncertain)
            state.contents = state.contents.filter { $0.key >= kept || uncertain.contains($0.key) }
            return !versions.isEmpty
        }
    }

    /// Versions that were loaded although their saves have failed.
    var impossible: [Int] { state.withLock { $0.loaded.intersection($0.refused).sorted() } }
}
#endif
