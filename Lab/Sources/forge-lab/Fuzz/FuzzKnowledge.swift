import ForgeFileSystem
import SystemPackage

/// A generator's model of the tree and the slots, derived from earlier outcomes. It may be wrong; it makes most calls
/// use existing files.
struct FuzzKnowledge {
    enum Kind: Equatable {
        case file, directory, link, special
    }

    struct Slot {
        var kind: Kind
        var isReadable: Bool
        var isWritable: Bool
    }

    /// Paths of created files, relative to the working directory or the root directory.
    private(set) var names: [(path: POSIXPath, kind: Kind)] = []
    private(set) var slots = [Slot?](repeating: nil, count: FuzzOperation.slotCount)

    /// The maximum number of names.
    private static let maximumNameCount = 40

    func paths(_ kinds: [Kind]) -> [POSIXPath] {
        names.filter { kinds.contains($0.kind) }.map(\.path)
    }

    func slots(where condition: (Slot) -> Bool) -> [Int] {
        slots.indices.filter { slots[$0].map(condition) ?? false }
    }

    /// Directories believed to be empty.
    var emptyDirectories: [POSIXPath] {
        paths([.directory]).filter { directory in
            let beginning = Array(directory.bytes) + [UInt8(ascii: "/")]
            return !names.contains { $0.path.bytes.starts(with: beginning) }
        }
    }

    /// The number of slots believed to be open.
    var openCount: Int { slots.count { $0 != nil } }

    /// Whether a file is believed to exist at a path.
    func has(_ path: POSIXPath) -> Bool { names.contains { $0.path == path } }

    mutating func learn(_ operation: FuzzOperation, _ outcome: FuzzOutcome) {
        if case .failed(let errno) = outcome { return forget(operation, errno) }
        switch operation {
        case .open(let slot, let place, let mode, let options, _, _):
            if options.contains(.create) { add(place, .file) }
            let kind: Kind = options.contains(.directory) ? .directory : kind(of: place) ?? .file
            slots[slot] = Slot(kind: kind, isReadable: mode != .writeOnly, isWritable: mode != .readOnly)
        case .duplicate(let slot, let into): slots[into] = slots[slot]
        case .close(let slot): slots[slot] = nil
        case .become:
            slots = [Slot?](repeating: nil, count: slots.count)
            names.removeAll { !$0.path.isAbsolute && $0.path.bytes.contains(UInt8(ascii: "/")) }
        case .createDirectory(let place, _): add(place, .directory)
        case .createSymbolicLink(let place, _): add(place, .link)
        case .createNode(let place, let type, _): add(place, type == .regular ? .file : .special)
        case .link(let place, let new): add(new, kind(of: place) ?? .file)
        case .rename(let place, let new, let mode):
            let moved = kind(of: place) ?? .file
            if mode != .exchanging { remove(place) }
            add(new, moved)
        case .unlink(let place), .removeDirectory(let place): remove(place)
        default: break
        }
    }

    private mutating func forget(_ operation: FuzzOperation, _ errno: Errno) {
        switch operation {
        case .open(_, let place, _, _, _, _):
            if errno == .isDirectory { correct(place, .directory) }
            if errno == .noSuchFileOrDirectory { remove(place) }
        case .close(let slot): slots[slot] = nil
        case .status(.place(let place, _)), .truncate(.place(let place, _), _), .unlink(let place),
            .removeDirectory(let place):
            if errno == .noSuchFileOrDirectory { remove(place) }
        case .list(let slot) where errno == .notDirectory: slots[slot]?.kind = .file
        case .read(let slot, _, _) where errno == .isDirectory: slots[slot]?.kind = .directory
        default: break
        }
    }

    private func kind(of place: FuzzOperation.Place) -> Kind? {
        place.base == nil ? names.last { $0.path == place.path }?.kind : nil
    }

    private mutating func correct(_ place: FuzzOperation.Place, _ kind: Kind) {
        guard place.base == nil, let index = names.firstIndex(where: { $0.path == place.path }) else { return }
        names[index].kind = kind
    }

    private mutating func add(_ place: FuzzOperation.Place, _ kind: Kind) {
        guard place.base == nil, !place.path.isEmpty, place.path.count < 64 else { return }
        if let index = names.firstIndex(where: { $0.path == place.path }) {
            if kind != .file { names[index].kind = kind }
            return
        }
        if names.count >= Self.maximumNameCount { names.removeFirst() }
        names.append((place.path, kind))
    }

    private mutating func remove(_ place: FuzzOperation.Place) {
        guard place.base == nil else { return }
        names.removeAll { $0.path == place.path }
    }
}
