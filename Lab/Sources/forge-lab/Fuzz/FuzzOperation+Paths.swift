import ForgeFileSystem

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
