import SystemPackage

extension InMemoryFileSystem.State {
    /// A path resolution in progress: the directory reached, and the remaining path.
    struct Walk: Sendable {
        enum Last: Sendable {
            /// The path consists of slashes only.
            case root
            case dot
            case dotDot
            case name
        }

        /// The directory reached; at the last component, the directory that contains it.
        var directory: Int
        /// The kind of the last component.
        var last = Last.root
        /// Whether slashes follow the last component.
        var hasTrailingSlash = false

        fileprivate let start: Int
        fileprivate let resolution: PathResolution
        fileprivate var links = 0
        fileprivate var path: POSIXPath
        fileprivate var position = 0
        fileprivate var name = 0..<0

        fileprivate init(_ path: POSIXPath, from start: Int, _ resolution: PathResolution) {
            self.path = path
            self.directory = start
            self.start = start
            self.resolution = resolution
        }

        /// Advances to the next component and returns whether it is the last.
        fileprivate mutating func advance() -> Bool {
            let slash = UInt8(ascii: "/")
            let bytes = path.terminated
            // The terminating NUL ends every scan: a checked path and a link's target contain no other.
            var end = position
            while bytes[end] == slash { end += 1 }
            let start = end
            guard bytes[end] != 0 else {
                last = .root
                return true
            }
            while bytes[end] != slash, bytes[end] != 0 { end += 1 }
            name = start..<end
            last = Self.kind(bytes, name)
            while bytes[end] == slash { end += 1 }
            hasTrailingSlash = bytes[end] == 0 && end > name.upperBound
            position = end
            return bytes[end] == 0
        }

        private static func kind(_ bytes: [UInt8], _ name: Range<Int>) -> Last {
            let dot = UInt8(ascii: ".")
            guard name.count <= 2, bytes[name.lowerBound] == dot else { return .name }
            if name.count == 1 { return .dot }
            return bytes[name.lowerBound + 1] == dot ? .dotDot : .name
        }

        /// The bytes of the last component.
        var nameBytes: ArraySlice<UInt8> { path.terminated[name] }
    }

    /// Refuses an invalid path before any lookup. A path with a NUL was refused earlier.
    @inline(__always) func check(_ path: POSIXPath) throws(Errno) {
        let limit = options.profile == .darwin ? 1024 : 4096
        guard !path.isEmpty else { throw .noSuchFileOrDirectory }
        guard path.count < limit else { throw .fileNameTooLong }
    }

    /// As `check`, for a path whose resolution has limits.
    ///
    /// `SystemFileSystem` resolves a path that must not leave a directory by `openat2(2)` on Linux. Darwin has no such
    /// call, so it opens one component after the other there, without following links: `..` is refused wherever it
    /// leads, and only the length of each component is limited.
    @inline(__always) func check(_ path: POSIXPath, _ resolution: PathResolution) throws(Errno) {
        guard options.profile == .darwin, resolution.contains(.beneath) else { return try check(path) }
        guard resolution.contains(.noSymbolicLinks) else { throw .notSupported }
        guard !path.isEmpty else { throw .noSuchFileOrDirectory }
        let components = path.bytes.split(separator: UInt8(ascii: "/"))
        guard !components.contains(where: { $0.elementsEqual("..".utf8) }) else { throw .improperLink }
    }

    /// Starts the resolution of a checked path.
    @inline(__always) func start(
        _ path: POSIXPath, at descriptor: Descriptor, _ resolution: PathResolution = []
    ) throws(Errno) -> Walk {
        if path.isAbsolute {
            guard !resolution.contains(.beneath) else { throw .improperLink }
            return Walk(path, from: Self.root, resolution)
        }
        if descriptor == .workingDirectory {
            return Walk(path, from: processes[current].workingDirectory, resolution)
        }
        guard let file = processes[current].descriptors[descriptor] else { throw .badFileDescriptor }
        let index = openFiles[file].inode
        guard isDirectory(index) else { throw .notDirectory }
        return Walk(path, from: index, resolution)
    }

    /// Resolves all components but the last, which is not looked up (`link_path_walk` of Linux).
    mutating func walkToLast(_ walk: inout Walk) throws(Errno) {
        while true {
            let isLast = walk.advance()
            if walk.last == .root { return }
            try require(.execute, to: walk.directory)
            if isLast { return }
            switch walk.last {
            case .root, .dot:
                continue
            case .dotDot:
                walk.directory = try parent(walk)
            case .name:
                guard let found = try find(walk) else { throw .noSuchFileOrDirectory }
                if isSymbolicLink(found) {
                    try follow(found, &walk)
                } else {
                    guard isDirectory(found) else { throw .notDirectory }
                    walk.directory = found
                }
            }
        }
    }

    /// Replaces the current component, a link, by its target.
    mutating func follow(_ link: Int, _ walk: inout Walk) throws(Errno) {
        walk.links += 1
        guard walk.links <= (options.profile == .darwin ? 32 : 40), !walk.resolution.contains(.noSymbolicLinks),
            let target = targets[link]
        else { throw .tooManySymbolicLinkLevels }
        noteAccess(link)
        if target.isAbsolute {
            guard !walk.resolution.contains(.beneath) else { throw .improperLink }
            walk.directory = Self.root
        }
        let rest = walk.path.terminated[walk.name.upperBound...]
        walk.path = rest.count == 1 ? target : POSIXPath(terminated: Array(target.bytes) + rest)
        walk.position = 0
    }

    /// The inode of the last component, nil if there is no such name.
    ///
    /// Links are followed if `followsLinks` is set, and always before a trailing slash.
    mutating func lookUp(_ walk: inout Walk, followsLinks: Bool) throws(Errno) -> Int? {
        try walkToLast(&walk)
        while true {
            switch walk.last {
            case .root, .dot: return walk.directory
            case .dotDot: return try parent(walk)
            case .name: break
            }
            guard let found = try find(walk) else { return nil }
            if isSymbolicLink(found), followsLinks || walk.hasTrailingSlash {
                try follow(found, &walk)
                try walkToLast(&walk)
                continue
            }
            guard !walk.hasTrailingSlash || isDirectory(found) else { throw .notDirectory }
            return found
        }
    }

    /// The inode at a path.
    mutating func resolve(
        _ path: POSIXPath, at descriptor: Descriptor, followsLinks: Bool
    ) throws(Errno) -> Int {
        try check(path)
        var walk = try start(path, at: descriptor)
        guard let found = try lookUp(&walk, followsLinks: followsLinks) else { throw .noSuchFileOrDirectory }
        return found
    }

    /// The parent of the directory reached.
    @inline(__always) func parent(_ walk: Walk) throws(Errno) -> Int {
        let isStart = walk.directory == walk.start && walk.resolution.contains(.beneath)
        guard !isStart else { throw .improperLink }
        return walk.directory == Self.root ? Self.root : inodes[walk.directory].parent
    }

    /// The inode of the last component.
    @inline(__always) func find(_ walk: Walk) throws(Errno) -> Int? {
        guard let position = try findPosition(walk) else { return nil }
        return Int(names[walk.directory].entries[position].inode)
    }

    /// The index of the last component in its directory.
    @inline(__always) func findPosition(_ walk: Walk) throws(Errno) -> Int? {
        // A removed directory contains no names.
        guard !isRemovedDirectory(walk.directory) else { throw .noSuchFileOrDirectory }
        guard walk.name.count <= 255 else { throw .fileNameTooLong }
        guard folding.isIdentity, options.profile == .linux else {
            let key = try walk.key(folding, mustBeText: options.profile == .darwin)
            return names[walk.directory].find(key[...])
        }
        return walk.position(in: names[walk.directory])
    }
}

extension InMemoryFileSystem.State.Walk {
    /// The index of the last component in a table, compared byte for byte.
    fileprivate func position(in table: NameTable) -> Int? { table.find(nameBytes) }

    /// The key of the last component where names are folded.
    fileprivate func key(_ folding: NameFolding, mustBeText: Bool) throws(Errno) -> [UInt8] {
        let bytes = nameBytes
        if mustBeText, String(validating: bytes, as: UTF8.self) == nil { throw .illegalByteSequence }
        return folding.isIdentity ? [UInt8](bytes) : folding.key(bytes)
    }
}
