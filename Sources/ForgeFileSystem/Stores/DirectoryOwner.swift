import SystemPackage

/// The kinds of stores that have a directory of their own. A directory can belong to several, such as a key-value store
/// and vaults.
package enum StoreKind: UInt8, Sendable, CaseIterable {
    /// A key-value store.
    case keyValue = 1
    /// Vaults and their keys.
    case vaults
    /// A file store: below it, every file with a valid key is the app's, whatever its name and content.
    case files
    /// A storage of Codable values, with one file per key.
    case values
    /// An image cache.
    case images
    /// A cache of values.
    case cache

    /// The name of the marker in the directory of such a store.
    package var markerName: POSIXPath {
        let kind =
            switch self {
            case .keyValue: "key-value"
            case .vaults: "vaults"
            case .files: "files"
            case .values: "values"
            case .images: "images"
            case .cache: "cache"
            }
        return POSIXPath(StoreMarker.prefix + kind)
    }

    /// The kind in a message.
    package var text: String {
        switch self {
        case .keyValue: "key-value store"
        case .vaults: "vaults"
        case .files: "file store"
        case .values: "storage of values"
        case .images: "image cache"
        case .cache: "cache"
        }
    }
}

/// The stores that a directory belongs to, according to the markers that they have written there, never to the names of
/// other files.
package enum DirectoryOwner: Hashable, Sendable {
    /// The kinds of the valid markers, at least one; all markers are valid.
    case stores(Set<StoreKind>)

    /// A marker is damaged or of a later version, or there are internal files of a store without a marker, such as
    /// `#lock`: nothing in the directory or below may be changed.
    case unknownStore

    /// The directory is the root of no store; it may be inside one.
    case none

    /// Whether a store of a kind has marked the directory.
    package func contains(_ kind: StoreKind) -> Bool {
        if case .stores(let kinds) = self { kinds.contains(kind) } else { false }
    }

    /// The kinds in words; nil for a directory of no store.
    package var text: String? {
        switch self {
        case .none: nil
        case .unknownStore: "unknown store"
        case .stores(let kinds):
            StoreKind.allCases.filter(kinds.contains).map(\.text).joined(separator: ", ")
        }
    }
}

/// The file `#store-KIND` that marks the directory of a store.
///
/// Its 16 bytes are `FORGEDIR`, the version 1, the number of the kind, two zeros, and the CRC-32C (little-endian) of the
/// 12 bytes before it. It is written and flushed under a temporary name, renamed unless the name exists, and never
/// written again, so it may have several hard links.
package enum StoreMarker {
    /// The prefix of the names of markers; no key has it.
    package static let prefix = "#store-"

    private static let magic = Array("FORGEDIR".utf8)
    private static let version: UInt8 = 1
    private static let length = 16

    /// The content of the marker of a kind.
    package static func content(of kind: StoreKind) -> [UInt8] {
        let content = magic + [version, kind.rawValue, 0, 0]
        var checksum = CRC32C()
        checksum.update(content)
        return content + (0..<4).map { UInt8(truncatingIfNeeded: checksum.value >> ($0 * 8)) }
    }

    /// The name under which the marker of a kind is written, by a store that no other one of this kind runs beside.
    package static func temporaryName(of kind: StoreKind) -> POSIXPath {
        POSIXPath(Array(POSIXPath.temporaryPrefix.utf8) + kind.markerName.bytes.dropFirst())
    }

    /// The kind of the marker with a name and content; nil if it is damaged, of a later version or not a marker.
    package static func kind(of name: POSIXPath, containing content: [UInt8]) -> StoreKind? {
        StoreKind.allCases.first { $0.markerName == name && Self.content(of: $0) == content }
    }

    /// The kind whose marker has a name; nil for any other name.
    package static func kind(named name: POSIXPath) -> StoreKind? {
        StoreKind.allCases.first { $0.markerName == name }
    }

    /// Whether a file with the name of a marker has the damaged content of one: only its beginning, or a few wrong bytes.
    /// False for a whole marker, also of a later version, and for an empty file or other content, which may be another
    /// program's.
    package static func isDamaged(_ content: [UInt8], of kind: StoreKind) -> Bool {
        let valid = Self.content(of: kind)
        guard content.count == length else {
            return !content.isEmpty && content.count < length && valid.starts(with: content)
        }
        var checksum = CRC32C()
        checksum.update(Array(content.prefix(12)))
        let isWhole = (0..<4).allSatisfy { content[12 + $0] == UInt8(truncatingIfNeeded: checksum.value >> ($0 * 8)) }
        return !isWhole && zip(content, valid).count { $0 == $1 } >= 12
    }

    /// Reads a marker; nil if it is of a later version or not a regular file, if it was removed meanwhile, and if it is
    /// damaged, unless damaged ones are taken for whole.
    static func read(
        _ name: POSIXPath, at directory: Descriptor, on fileSystem: any POSIXFileSystem, takesDamagedForWhole: Bool
    ) throws(FileSystemError) -> StoreKind? {
        do throws(FileSystemError) {
            let file = try fileSystem.openRegularFile(name, at: directory).descriptor
            let content = try fileSystem.closing(file) { () throws(FileSystemError) in
                try fileSystem.readBytes(of: file, at: 0, count: length + 1)
            }
            if takesDamagedForWhole, let kind = Self.kind(named: name), isDamaged(content, of: kind) { return kind }
            return kind(of: name, containing: content)
        } catch  where error.errno.isDisappearance || error.errno == .notSupported {
            return nil
        }
    }
}

extension POSIXFileSystem {
    /// The stores that a directory belongs to.
    ///
    /// - Parameters:
    ///   - directory: The open directory.
    ///   - entries: Its entries, if the caller has listed them.
    ///   - takesDamagedForWhole: Whether damaged markers are taken for whole ones: a look at what their repair would show.
    /// - Returns: The owner; markers that are not readable make it ``DirectoryOwner/unknownStore``.
    /// - Throws: ``FileSystemError`` if the directory cannot be listed, or a marker cannot be read because of an error of
    ///   the device.
    /// - Complexity: O(*n*) in the number of entries.
    package func owner(
        of directory: Descriptor, entries: [DirectoryEntry]? = nil, takesDamagedForWhole: Bool = false
    ) throws(FileSystemError) -> DirectoryOwner {
        let all = if let entries { entries } else { try self.entries(of: directory) }
        var kinds: Set<StoreKind> = []
        var isUnknown = false
        var hasInternalFile = false
        for entry in all where entry.name.isStoreMarker {
            guard entry.name.isMarkerOfKind else {
                hasInternalFile = true
                continue
            }
            do throws(FileSystemError) {
                if let kind = try StoreMarker.read(
                    entry.name, at: directory, on: self, takesDamagedForWhole: takesDamagedForWhole)
                {
                    kinds.insert(kind)
                } else {
                    isUnknown = true
                }
            } catch {
                guard error.errno.isRefusal else { throw error }
                isUnknown = true
            }
        }
        if isUnknown || kinds.isEmpty && hasInternalFile { return .unknownStore }
        return kinds.isEmpty ? .none : .stores(kinds)
    }

    /// Whether a file that is not empty has the name of a marker; nil if there is none with the name.
    private func hasMarker(of kind: StoreKind, at directory: Descriptor) throws(FileSystemError) -> Bool? {
        do throws(FileSystemError) {
            let status = try status(kind.markerName, at: directory, followsSymbolicLinks: false)
            return status.type != .regular || status.sizeInBytes > 0
        } catch {
            guard error.errno == .noSuchFileOrDirectory else { throw error }
            return nil
        }
    }

    /// Throws `EBUSY` if a new store in a directory would hide or remove files of another one: in the root of every store
    /// with one file per key, in that of a store of a kind that this version does not know, and where files are below the
    /// root of a store with nested keys.
    ///
    /// - Complexity: O(*n*) in the entries of the directory and of those above, only as long as it is not marked.
    package func requireFree(_ directory: Descriptor, for kind: StoreKind) throws(FileSystemError) {
        guard try hasMarker(of: kind, at: directory) != true else { return }
        try requireNoOtherFiles(than: kind, at: directory)
        let all = try entries(of: directory)
        if let other = all.first(where: { $0.name.isMarkerOfKind && StoreMarker.kind(named: $0.name) == nil }) {
            throw FileSystemError(.open, .resourceBusy, path: other.name)
        }
        guard all.contains(where: { !$0.name.isReservedWhenFolded }) else { return }
        let scope = try StoreScope(of: directory, entries: all, on: self)
        guard scope.isRoot || !scope.store.hasNestedKeys else {
            throw busy(scope.store.contains(.files) ? .files : .values)
        }
    }

    /// Throws `EBUSY` if a directory without the marker of a kind has that of another store with one file per key, whose
    /// files would be taken for those of this one.
    func requireNoOtherFiles(than kind: StoreKind, at directory: Descriptor) throws(FileSystemError) {
        guard try hasMarker(of: kind, at: directory) != true else { return }
        for other in [StoreKind.files, .values, .images, .cache] where other != kind {
            if try hasMarker(of: other, at: directory) == true { throw busy(other) }
        }
    }

    private func busy(_ owner: StoreKind) -> FileSystemError {
        FileSystemError(.open, .resourceBusy, path: owner.markerName)
    }

    /// Whether ``mark(_:as:temporary:)`` has nothing to do.
    func isMarked(_ directory: Descriptor, as kind: StoreKind) throws(FileSystemError) -> Bool {
        try hasMarker(of: kind, at: directory) == true
    }

    /// Marks a directory as that of a store, durably, unless it is marked already.
    ///
    /// An empty file with the name, which no store leaves, is replaced; any other content is kept, and the directory
    /// stays an unknown store for tools.
    ///
    /// - Parameters:
    ///   - directory: The open directory.
    ///   - kind: The kind of the store.
    ///   - temporary: A name in it that only the caller uses.
    /// - Throws: ``FileSystemError``; there is no marker then, or a whole one.
    package func mark(
        _ directory: Descriptor, as kind: StoreKind, temporary: POSIXPath
    ) throws(FileSystemError) {
        let present = try hasMarker(of: kind, at: directory)
        guard present != true else { return }
        do throws(FileSystemError) {
            try replaceFile(
                kind.markerName, at: directory, present == nil ? .exclusive : .replacing, permissions: .privateFile,
                durability: .full, temporary: temporary,
                content: { (file) throws(FileSystemError) in
                    try writeBytes(StoreMarker.content(of: kind), to: file)
                })
        } catch  where error.errno == .fileExists {
            // Another process has marked it meanwhile.
        }
    }

    /// Writes a damaged marker anew, durably; stores do not, because they cannot tell damage from a later version's marker.
    package func repairMarker(of kind: StoreKind, at directory: Descriptor) throws(FileSystemError) {
        try replaceFile(
            kind.markerName, at: directory, .replacing, permissions: .privateFile, durability: .full,
            temporary: StoreMarker.temporaryName(of: kind),
            content: { (file) throws(FileSystemError) in try writeBytes(StoreMarker.content(of: kind), to: file) })
    }

    /// Marks a directory that may be on a full device, where deletions must be possible: there, tools take it for that
    /// of an unknown store until a later opening marks it.
    package func markIfSpace(
        _ directory: Descriptor, as kind: StoreKind, temporary: POSIXPath
    ) throws(FileSystemError) {
        do throws(FileSystemError) {
            try mark(directory, as: kind, temporary: temporary)
        } catch  where error.isOutOfSpace && !error.isEffectVisible {
            return
        }
    }
}
