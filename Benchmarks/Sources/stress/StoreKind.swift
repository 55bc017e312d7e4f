import ForgeKVStore
import Foundation

/// A store that can be stressed.
enum StoreKind: String, CaseIterable {
    case file, shared, memory

    var isOnDisk: Bool { self != .memory }

    /// The store in a directory; the one in memory is new each time.
    func open(_ directory: URL) throws -> any KVStoring {
        switch self {
        case .file, .shared:
            var options = FileKVStore.Options(compactionFloorInBytes: 1 << 18)
            if self == .shared { options.sharing = .shared }
            return try FileKVStore(at: directory, options: options)
        case .memory: return InMemoryKVStore()
        }
    }
}
