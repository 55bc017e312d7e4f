import ForgeFileSystem
import SystemPackage

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
