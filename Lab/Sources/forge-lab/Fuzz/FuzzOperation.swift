import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// One call with all its arguments. Slots name descriptors, so that a call keeps its meaning whatever earlier calls
/// returned, and when calls are left out of the sequence.
enum FuzzOperation: Equatable, Sendable {
    /// A path and the slot of the directory that it starts from, nil for the working directory.
    struct Place: Equatable, Sendable {
        var path: POSIXPath
        var base: Int?
    }

    enum Target: Equatable, Sendable {
        case slot(Int)
        case place(Place, followsLinks: Bool)
    }

    /// Opens a file into the slot and closes the slot's old descriptor if that succeeds.
    case open(
        slot: Int, Place, FileDescriptor.AccessMode, FileDescriptor.OpenOptions, FilePermissions, PathResolution)
    case close(Int)
    case duplicate(Int, into: Int)
    case read(Int, count: Int, at: Int64?)
    case write(Int, count: Int, byte: UInt8, at: Int64?)
    case seek(Int, to: Int64, from: FileDescriptor.SeekOrigin)
    case truncate(Target, to: Int64)
    case allocate(Int, at: Int64, length: Int64)
    case synchronize(Int, SyncLevel)
    /// Maps a part of an open file into a slot, replacing the slot's mapping.
    case map(Int, at: Int64, count: Int, into: Int)
    /// Stores bytes into a mapping, as far as the file reaches.
    case store(Int, count: Int, byte: UInt8, at: Int)
    /// Loads bytes from a mapping, as far as the file reaches.
    case load(Int, count: Int, at: Int)
    case writeBack(Int)
    case unmap(Int)
    case status(Target)
    case setPermissions(Target, FilePermissions)
    case setOwner(Target, UserID?, GroupID?)
    case setTimes(Target, accessed: FileTime?, modified: FileTime?)
    case createDirectory(Place, FilePermissions)
    case createNode(Place, FileType, FilePermissions)
    case createSymbolicLink(Place, to: POSIXPath)
    case readSymbolicLink(Place)
    case link(Place, to: Place)
    case rename(Place, to: Place, RenameMode)
    case unlink(Place)
    case removeDirectory(Place)
    case list(Int)
    case lock(Int, LockMode)
    /// Changes the working directory.
    case enter(POSIXPath)
    /// Closes all slots and continues as another process with another user.
    case become(FuzzIdentity)

    static let slotCount = 8
    static let mappingCount = 3

    /// The name of the call, without its arguments.
    var name: String {
        switch self {
        case .open: "open"
        case .close: "close"
        case .duplicate: "duplicate"
        case .read: "read"
        case .write: "write"
        case .seek: "seek"
        case .truncate: "truncate"
        case .allocate: "allocate"
        case .synchronize: "synchronize"
        case .map: "map"
        case .store: "store"
        case .load: "load"
        case .writeBack: "writeBack"
        case .unmap: "unmap"
        case .status: "status"
        case .setPermissions: "setPermissions"
        case .setOwner: "setOwner"
        case .setTimes: "setTimes"
        case .createDirectory: "createDirectory"
        case .createNode: "createNode"
        case .createSymbolicLink: "createSymbolicLink"
        case .readSymbolicLink: "readSymbolicLink"
        case .link: "link"
        case .rename: "rename"
        case .unlink: "unlink"
        case .removeDirectory: "removeDirectory"
        case .list: "list"
        case .lock: "lock"
        case .enter: "enter"
        case .become: "become"
        }
    }
}

/// The identity under which calls are made.
struct FuzzIdentity: Equatable, Sendable {
    var user: UserID
    var group: GroupID
    var groups: [GroupID]
    var umask: FilePermissions

    static let superuser = FuzzIdentity(
        user: UserID(0), group: GroupID(0), groups: [], umask: FilePermissions(rawValue: 0o022))

    /// The identities that a fuzzer with privileges uses.
    static let all = [
        superuser,
        FuzzIdentity(
            user: UserID(1234), group: GroupID(2345), groups: [GroupID(3456)], umask: FilePermissions(rawValue: 0o002)),
        FuzzIdentity(user: UserID(1235), group: GroupID(3456), groups: [], umask: FilePermissions(rawValue: 0o077)),
    ]
}

extension FuzzOperation {
    /// Whether no path of the call, and no link that it makes, can lead above its start.
    var staysInside: Bool {
        paths.allSatisfy { path in
            !path.isAbsolute && !path.bytes.split(separator: UInt8(ascii: "/")).contains { $0.elementsEqual("..".utf8) }
        }
    }

    private var paths: [POSIXPath] {
        switch self {
        case .open(_, let place, _, _, _, _), .createDirectory(let place, _), .createNode(let place, _, _),
            .readSymbolicLink(let place), .unlink(let place), .removeDirectory(let place):
            [place.path]
        case .createSymbolicLink(let place, let target): [place.path, target]
        case .link(let place, let new), .rename(let place, let new, _): [place.path, new.path]
        case .enter(let path): [path]
        case .truncate(let target, _), .status(let target), .setPermissions(let target, _),
            .setOwner(let target, _, _), .setTimes(let target, _, _):
            target.paths
        case .close, .duplicate, .read, .write, .seek, .allocate, .synchronize, .map, .store, .load, .writeBack, .unmap,
            .list, .lock,
            .become:
            []
        }
    }
}

extension FuzzOperation.Target {
    fileprivate var paths: [POSIXPath] {
        guard case .place(let place, _) = self else { return [] }
        return [place.path]
    }
}

extension FuzzOperation {
    /// All variants of the call with one argument simplified.
    var plainer: [FuzzOperation] {
        switch self {
        case .open(let slot, let place, let mode, let options, let permissions, let resolution):
            var calls = place.plainer.map { Self.open(slot: slot, $0, mode, options, permissions, resolution) }
            for option in Self.options where options.contains(option) {
                calls.append(.open(slot: slot, place, mode, options.subtracting(option), permissions, resolution))
            }
            if !resolution.isEmpty { calls.append(.open(slot: slot, place, mode, options, permissions, [])) }
            let usual = FilePermissions(rawValue: 0o644)
            if permissions != usual { calls.append(.open(slot: slot, place, mode, options, usual, resolution)) }
            return calls
        case .read(let slot, let count, let offset):
            return Self.smaller(count).map { .read(slot, count: $0, at: offset) }
        case .write(let slot, let count, let byte, let offset):
            return Self.smaller(count).map { .write(slot, count: $0, byte: byte, at: offset) }
        case .map(let slot, let offset, let count, let into):
            return Self.smaller(count).map { .map(slot, at: offset, count: $0, into: into) }
        case .store(let mapping, let count, let byte, let offset):
            return Self.smaller(count).map { .store(mapping, count: $0, byte: byte, at: offset) }
                + Self.smaller(offset).map { .store(mapping, count: count, byte: byte, at: $0) }
        case .load(let mapping, let count, let offset):
            return Self.smaller(count).map { .load(mapping, count: $0, at: offset) }
        case .truncate(let target, let size):
            return target.plainer.map { .truncate($0, to: size) }
                + Self.smaller(Int(size)).map { .truncate(target, to: Int64($0)) }
        case .status(let target): return target.plainer.map { .status($0) }
        case .setPermissions(let target, let permissions):
            return target.plainer.map { .setPermissions($0, permissions) }
        case .setOwner(let target, let owner, let group):
            var calls = target.plainer.map { Self.setOwner($0, owner, group) }
            if owner != nil { calls.append(.setOwner(target, nil, group)) }
            if group != nil { calls.append(.setOwner(target, owner, nil)) }
            return calls
        case .setTimes(let target, let accessed, let modified):
            var calls = target.plainer.map { Self.setTimes($0, accessed: accessed, modified: modified) }
            if accessed != nil { calls.append(.setTimes(target, accessed: nil, modified: modified)) }
            if modified != nil { calls.append(.setTimes(target, accessed: accessed, modified: nil)) }
            return calls
        case .createDirectory(let place, let permissions):
            return place.plainer.map { .createDirectory($0, permissions) }
        case .createNode(let place, let type, let permissions):
            return place.plainer.map { .createNode($0, type, permissions) }
        case .createSymbolicLink(let place, let target):
            return place.plainer.map { .createSymbolicLink($0, to: target) }
                + target.plainer.map { .createSymbolicLink(place, to: $0) }
        case .readSymbolicLink(let place): return place.plainer.map { .readSymbolicLink($0) }
        case .link(let place, let new):
            return place.plainer.map { .link($0, to: new) } + new.plainer.map { .link(place, to: $0) }
        case .rename(let place, let new, let mode):
            return place.plainer.map { .rename($0, to: new, mode) } + new.plainer.map { .rename(place, to: $0, mode) }
        case .unlink(let place): return place.plainer.map { .unlink($0) }
        case .removeDirectory(let place): return place.plainer.map { .removeDirectory($0) }
        case .enter(let path): return path.plainer.map { .enter($0) }
        case .close, .duplicate, .seek, .allocate, .synchronize, .writeBack, .unmap, .list, .lock, .become: return []
        }
    }

    /// All but `nonBlocking`, without which the call may block forever.
    private static let options: [FileDescriptor.OpenOptions] = [
        .create, .truncate, .exclusiveCreate, .noFollow, .directory, .append, .closeOnExec,
    ]

    private static func smaller(_ number: Int) -> [Int] {
        number > 1 ? [1, number / 2, number - 1].filter { $0 < number } : []
    }
}

extension FuzzOperation.Target {
    fileprivate var plainer: [Self] {
        guard case .place(let place, let followsLinks) = self else { return [] }
        return place.plainer.map { .place($0, followsLinks: followsLinks) }
            + (followsLinks ? [] : [.place(place, followsLinks: true)])
    }
}

extension FuzzOperation.Place {
    fileprivate var plainer: [Self] {
        path.plainer.map { Self(path: $0, base: base) } + (base == nil ? [] : [Self(path: path, base: nil)])
    }
}

extension POSIXPath {
    /// Variants without one component, or without redundant slashes.
    fileprivate var plainer: [POSIXPath] {
        let slash = UInt8(ascii: "/")
        let parts = bytes.split(separator: slash)
        var shorter = parts.indices.map { index in
            var rest = parts
            rest.remove(at: index)
            return rest
        }
        if bytes.count(where: { $0 == slash }) > parts.count { shorter.append(parts) }
        let start: [UInt8] = isAbsolute ? [slash] : []
        return shorter.map { POSIXPath(start + $0.joined(separator: [slash])) }
            .filter { !$0.isEmpty && $0.count < count }
    }
}

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
