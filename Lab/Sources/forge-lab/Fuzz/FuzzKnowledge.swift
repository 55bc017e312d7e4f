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

/// The outcome of a call, reduced to what two file systems must agree on.
enum FuzzOutcome: Equatable, Sendable {
    case done
    case failed(Errno)
    case number(Int64)
    case content(count: Int, hash: UInt64)
    case status(FuzzStatus)
    case path(POSIXPath)
    case names([String])
    /// The call was not made: its result is file-system-specific.
    case skipped
}

/// The fields of a status that depend on the calls alone: no inode numbers, no clock times.
struct FuzzStatus: Equatable, Sendable {
    var type: FileType
    var permissions: FilePermissions
    /// Nil for a directory, whose size is file-system-specific.
    var sizeInBytes: Int64?
    var linkCount: UInt64
    var owner: UserID
    var group: GroupID
    /// Times set by a call; nil once the clock has set them since.
    var accessed: FileTime?
    var modified: FileTime?

    init(_ status: FileStatus, comparesAccess: Bool) {
        type = status.type
        permissions = status.permissions
        sizeInBytes = status.type == .directory ? nil : status.sizeInBytes
        linkCount = status.linkCount
        owner = status.owner
        group = status.group
        accessed = comparesAccess ? Self.setByCall(status.accessed) : nil
        modified = Self.setByCall(status.modified)
    }

    /// The fuzzer sets times that no clock shows: before 1998 and after 2093.
    private static func setByCall(_ time: FileTime) -> FileTime? {
        (900_000_000..<3_900_000_000).contains(time.seconds) ? nil : time
    }
}

extension FuzzOutcome: CustomStringConvertible {
    var description: String {
        switch self {
        case .done: "done"
        case .failed(let errno): errno.name
        case .number(let number): "\(number)"
        case .content(let count, let hash): "\(count) bytes with hash \(String(hash, radix: 16))"
        case .status(let status): "\(status)"
        case .path(let path): "\"\(path)\""
        case .names(let names): "\(names)"
        case .skipped: "skipped"
        }
    }
}

extension FuzzStatus: CustomStringConvertible {
    var description: String {
        func text(_ time: FileTime?) -> String { time.map { "\($0.seconds).\($0.nanoseconds)" } ?? "recent" }
        return "type \(String(type.rawValue, radix: 8)) mode \(String(permissions.rawValue, radix: 8)) "
            + "size \(sizeInBytes.map(String.init) ?? "-") links \(linkCount) owner \(owner.rawValue):\(group.rawValue) "
            + "accessed \(text(accessed)) modified \(text(modified))"
    }
}

/// The content of a tree, reduced to what two file systems must agree on, sorted by path.
struct FuzzTree: Equatable, Sendable {
    struct Node: Equatable, Sendable {
        var path: POSIXPath
        var status: FuzzOutcome
        /// The hash of a file's content, or the target of a link.
        var content: FuzzOutcome
        /// The index of the first node with the same inode.
        var original: Int
    }

    private(set) var nodes: [Node] = []

    /// Reads everything below an open directory.
    init(
        of home: Descriptor, in fileSystem: some POSIXFileSystem, limits: FuzzLimits,
        buffer: UnsafeMutableRawBufferPointer
    ) throws {
        var inodes: [UInt64: Int] = [:]
        var pending: [POSIXPath] = ["."]
        while let directory = pending.popLast() {
            let entries: [DirectoryEntry]
            do {
                entries = try fileSystem.withDirectory(directory, at: home) { (open) throws(FileSystemError) in
                    try fileSystem.entries(of: open)
                }
            } catch {
                nodes.append(Node(path: directory, status: .failed(error.errno), content: .skipped, original: 0))
                continue
            }
            for entry in entries.sorted(by: { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }) {
                let path = directory.appending(entry.name)
                let status: FileStatus
                do {
                    status = try fileSystem.status(path, at: home, followsSymbolicLinks: false)
                } catch {
                    nodes.append(Node(path: path, status: .failed(error.errno), content: .skipped, original: 0))
                    continue
                }
                let original = inodes[status.inode] ?? nodes.count
                inodes[status.inode] = original
                nodes.append(
                    Node(
                        path: path, status: .status(FuzzStatus(status, comparesAccess: limits.comparesAccess)),
                        content: Self.content(of: path, status.type, at: home, in: fileSystem, buffer),
                        original: original))
                if status.type == .directory { pending.append(path) }
            }
        }
    }

    /// The first difference, as text.
    func difference(from other: FuzzTree) -> (String, String) {
        func text(_ node: Node?) -> String {
            node.map { "\($0.path) \($0.status) content \($0.content) first name of it #\($0.original)" } ?? "nothing"
        }
        let first = nodes.indices.first { $0 >= other.nodes.count || nodes[$0] != other.nodes[$0] } ?? nodes.count
        return (
            text(first < nodes.count ? nodes[first] : nil), text(first < other.nodes.count ? other.nodes[first] : nil)
        )
    }

    /// The bytes near the start and near the end: the middle is nearly always a hole.
    private static func content(
        of path: POSIXPath, _ type: FileType, at home: Descriptor, in fileSystem: some POSIXFileSystem,
        _ buffer: UnsafeMutableRawBufferPointer
    ) -> FuzzOutcome {
        do throws(FileSystemError) {
            switch type {
            case .symbolicLink: return .path(try fileSystem.readSymbolicLink(path, at: home))
            case .regular: break
            default: return .skipped
            }
            let descriptor = try fileSystem.open(path, at: home, .readOnly, options: [.noFollow])
            return try fileSystem.closing(descriptor) { () throws(FileSystemError) in
                var count = try fileSystem.readFully(descriptor, into: buffer, at: 0)
                var hash = fuzzHash(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
                if count == buffer.count {
                    let size = try fileSystem.status(of: .descriptor(descriptor)).sizeInBytes
                    let tail = UnsafeMutableRawBufferPointer(rebasing: buffer[..<8192])
                    count = try fileSystem.readFully(descriptor, into: tail, at: max(0, size - 8192))
                    hash ^= fuzzHash(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(tail)[..<count]))
                }
                return .content(count: count, hash: hash)
            }
        } catch {
            return .failed(error.errno)
        }
    }
}
