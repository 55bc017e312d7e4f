public import ForgeFileSystem
import SystemPackage

/// A store on disk and the directory that it shares with files of other programs.
public struct ForeignFileFixture: Sendable {
    /// One call of the store, made on a store that may have been opened for it.
    public struct Call: Sendable, CustomStringConvertible {
        /// The name of the call, as violations show it.
        public let description: String

        let run: @Sendable () async throws -> Void

        /// A call that may fail: a refusal is as good as success, as long as nothing foreign changes.
        public init(_ description: String, _ run: @escaping @Sendable () async throws -> Void) {
            self.description = description
            self.run = run
        }
    }

    /// Where the store is.
    public var fileSystem: any POSIXFileSystem

    /// The directory of the store.
    public var root: POSIXPath

    /// The directories, relative to the root, that other programs put files into; the first call creates them.
    public var directories: [POSIXPath]

    /// The names of files that the store writes in place, and refuses if they have a second hard link.
    public var writtenInPlace: Set<POSIXPath>

    /// All calls of the store, in order: the first one creates the directories, the last ones close and reopen the
    /// store.
    public var calls: [Call]

    /// Creates a fixture.
    public init(
        _ fileSystem: any POSIXFileSystem, root: POSIXPath, directories: [POSIXPath] = ["."],
        writtenInPlace: Set<POSIXPath> = [], calls: [Call]
    ) {
        self.fileSystem = fileSystem
        self.root = root
        self.directories = directories
        self.writtenInPlace = writtenInPlace
        self.calls = calls
    }
}

extension ConformanceChecks {
    /// The promise of every store on disk to other programs: no call changes or removes entries that it did not create.
    public static let foreignFiles: [ConformanceCheck<ForeignFileFixture>] = [
        keeps("files whose names only share a prefix with temporary files") { place, directory in
            for name in ["#tmp-x", "#tmp-", "#trash-x", "#move-x", "#tmp-vault-x", "#journal-x", "#lockx"] {
                try place.plant(POSIXPath(name), in: directory)
            }
        },
        keeps("another store's temporary files") { place, directory in
            try place.plant("#tmp-abcdefghabcdefgh", in: directory)
            try place.plant("#tmp-abcdefghabcdefgh-0", in: directory)
            try place.plant("#tmp-vault-abcdefghabcdefgh", in: directory)
            try place.plant("#move-abcdefghabcdefgh", in: directory)
            for name: POSIXPath in ["#trash-abcdefghabcdefgh", "#trash-abcdefghabcdefgh-0"] {
                try place.plantDirectory(name, in: directory)
                try place.plant("inside", in: directory.appending(name))
            }
        },
        keeps("editors' files") { place, directory in
            for name in ["#notes#", "##"] { try place.plant(POSIXPath(name), in: directory) }
            try place.fileSystem.createSymbolicLink(place.path(".#notes", in: directory), to: "user@host.1")
        },
        keeps("names that are not valid keys") { place, directory in
            try place.plant(POSIXPath([0xff, 0xfe]), in: directory)
            try place.plant("back\\slash", in: directory)
            try place.plant("line\nbreak", in: directory)
            try place.plantDirectory("back\\slashes", in: directory)
            try place.plant("x", in: directory.appending("back\\slashes"))
        },
        keeps("symbolic links") { place, directory in
            try place.fileSystem.createSymbolicLink(place.path("link", in: directory), to: "/nowhere")
            try place.plant("back\\slash", in: directory)
            try place.fileSystem.createSymbolicLink(place.path("to a file", in: directory), to: "back\\slash")
            try place.fileSystem.createSymbolicLink(place.path("loop", in: directory), to: "loop")
            try place.fileSystem.createSymbolicLink(place.path("#tmp-link", in: directory), to: "/")
        },
        keeps("FIFOs and sockets") { place, directory in
            for (name, type) in [("fifo", FileType.fifo), ("socket", .socket), ("#tmp-fifo", .fifo)] {
                try place.fileSystem.createNode(
                    place.path(POSIXPath(name), in: directory), at: .workingDirectory, type: type,
                    permissions: .ownerReadWrite, deviceNumber: 0)
            }
        },
        keeps("another store below the root, with its temporary file") { place, directory in
            guard directory != "." else { return }
            let nested = directory.appending("nested")
            try place.plantDirectory("nested", in: directory)
            for name: POSIXPath in ["#lock", "#journal-0", "#tmp-abcdefghabcdefgh-0", "log", "value"] {
                try place.plant(name, in: nested)
            }
        },
        keeps("another store's temporary files that a journal of this store names") { place, directory in
            var journal = place.journal(for: directory)
            for marker: POSIXPath in ["#lock", "#lock-vaults", "#journal-7"] {
                let store = directory.appending(POSIXPath("store\(journal.directories.count)"))
                try place.plantDirectory(store)
                try place.plant(marker, in: store)
                try place.plantDirectory("below", in: store)
                for recorded in [store, store.appending("below")] {
                    let slot = journal.directories.count
                    journal.directories.append(place.recorded(recorded))
                    try place.plant(journal.name("#tmp-", slot: slot), in: recorded)
                    let trash = journal.name("#trash-", slot: slot)
                    try place.plantDirectory(trash, in: recorded)
                    try place.plant("inside", in: recorded.appending(trash))
                }
            }
            try journal.write(in: place.root, on: place.fileSystem)
        },
        keeps("files with a second hard link that a journal names") { place, directory in
            let journal = place.journal(for: directory, [place.recorded(directory)])
            let name = journal.name("#tmp-", slot: 0)
            try place.plant(name, in: directory)
            try place.plantDirectory("links", in: directory)
            try place.fileSystem.link(
                place.path(name, in: directory), to: place.path("#second#", in: directory.appending("links")))
            try journal.write(in: place.root, on: place.fileSystem)
        },
        ConformanceCheck(
            "calls serve, replace and remove files with a second hard link; the other name keeps its content"
        ) { place in
            // The first round creates the files, the second one shows which calls fail without links.
            for call in place.calls { do { try await call.run() } catch _ {} }
            var failures: [String?] = []
            for call in place.calls { failures.append(await place.failure(of: call)) }
            try place.plantDirectory(ForeignFileFixture.links)
            var count = 0
            for (call, failure) in zip(place.calls, failures) {
                let contents = try place.linkFiles()
                count += contents.count
                let other = await place.failure(of: call)
                try expectEqual(other == nil, failure == nil, "success of \(call): \(other ?? "none"); success")
                for (path, content) in contents {
                    try expectEqual(try place.fileSystem.readFile(path), content, "\(path) after \(call)")
                    try place.fileSystem.unlink(path)
                }
            }
            try expect(count > 0 || !place.writtenInPlace.isEmpty, "no file of the store was linked")
        },
    ]

    private static func keeps(
        _ what: String, _ plant: @escaping @Sendable (ForeignFileFixture, POSIXPath) throws -> Void
    ) -> ConformanceCheck<ForeignFileFixture> {
        ConformanceCheck("no call changes or removes \(what)") { place in
            guard let first = place.calls.first else { return }
            try await first.run()
            var foreign: [POSIXPath: String] = [:]
            for directory in place.directories {
                let before = try place.snapshot(directory)
                try plant(place, directory)
                let added = try place.snapshot(directory).filter { before[$0.key] == nil && !place.isMarker($0.key) }
                foreign.merge(added) { $1 }
            }
            for call in place.calls {
                do { try await call.run() } catch _ {}  // A refusal keeps the promise too.
                for (path, line) in foreign {
                    try expectEqual(try place.line(path), line, "\(path) after \(call)")
                }
            }
        }
    }
}

extension ForeignFileFixture {
    /// The directory below the root with the second names of the store's files.
    fileprivate static let links: POSIXPath = "#links#"

    /// Gives the store's files second names, except internal files, which begin with a number sign, and those that are
    /// written in place; returns the content of each by the second name.
    fileprivate func linkFiles() throws -> [POSIXPath: [UInt8]] {
        var contents: [POSIXPath: [UInt8]] = [:]
        for path in try snapshot(".").keys {
            let components = path.bytes.split(separator: UInt8(ascii: "/"))
            guard !components.contains(where: { $0.first == UInt8(ascii: "#") }),
                !writtenInPlace.contains(path.splitLast().name),
                try existingStatus(root.appending(path))?.type == .regular
            else { continue }
            let new = root.appending(Self.links).appending(POSIXPath("\(contents.count)"))
            try fileSystem.link(root.appending(path), to: new)
            contents[new] = try fileSystem.readFile(new)
        }
        return contents
    }

    /// The error of a call; nil if it succeeds.
    fileprivate func failure(of call: Call) async -> String? {
        do {
            try await call.run()
            return nil
        } catch {
            return "\(error)"
        }
    }

    fileprivate func path(_ name: POSIXPath, in directory: POSIXPath) -> POSIXPath {
        root.appending(directory).appending(name)
    }

    fileprivate func plant(_ name: POSIXPath, in directory: POSIXPath) throws {
        let file = try fileSystem.open(
            path(name, in: directory), .writeOnly, options: [.create, .exclusiveCreate, .noFollow])
        try fileSystem.closing(file) { () throws(FileSystemError) in
            try fileSystem.writeBytes(Array("foreign".utf8), to: file)
        }
    }

    fileprivate func plantDirectory(_ name: POSIXPath, in directory: POSIXPath = ".") throws {
        try fileSystem.createDirectory(path(name, in: directory))
    }

    /// A journal with names that no other directory's journal has.
    fileprivate func journal(for directory: POSIXPath, _ recorded: [POSIXPath] = []) -> OwnerlessJournal {
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        return OwnerlessJournal(
            recorded, id: "abcdefghijklmno\(letters[directories.firstIndex(of: directory) ?? 0])")
    }

    /// A directory as a journal records it: relative to the root, empty for the root itself.
    fileprivate func recorded(_ directory: POSIXPath) -> POSIXPath {
        POSIXPath(directory.bytes.drop { $0 == UInt8(ascii: ".") }.drop { $0 == UInt8(ascii: "/") })
    }

    /// Whether a path leads to a lock or journal in the root, which is the store's own.
    fileprivate func isMarker(_ path: POSIXPath) -> Bool {
        let (parent, name) = path.splitLast()
        return parent == "." && name.isStoreMarker
    }

    /// Every entry below a directory, by its path relative to the root.
    fileprivate func snapshot(_ directory: POSIXPath) throws -> [POSIXPath: String] {
        var lines: [POSIXPath: String] = [:]
        var pending = [directory]
        while let directory = pending.popLast() {
            for entry in try fileSystem.entries(ofDirectory: root.appending(directory)) {
                let path = directory.appending(entry.name)
                lines[path] = try line(path)
                if entry.type == .directory { pending.append(path) }
            }
        }
        return lines
    }

    /// One line that describes an entry: type, inode and mode; for a regular file also link count, modification time
    /// and content; for a symbolic link also its target.
    fileprivate func line(_ path: POSIXPath) throws -> String {
        let absolute = root.appending(path)
        guard let status = try existingStatus(absolute) else { return "missing" }
        var line = "\(status.type.rawValue) \(status.inode) \(status.permissions.rawValue)"
        switch status.type {
        case .regular:
            line += " \(status.linkCount) \(status.modified) \(try fileSystem.readFile(absolute))"
        case .symbolicLink: line += " \(try fileSystem.readSymbolicLink(absolute))"
        default: break
        }
        return line
    }

    private func existingStatus(_ path: POSIXPath) throws(FileSystemError) -> FileStatus? {
        do {
            return try fileSystem.status(path, followsSymbolicLinks: false)
        } catch  where error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory {
            return nil
        }
    }
}

/// A `#journal-` file whose owner has ended, in the format that the documentation of ForgeFileStore describes.
package struct OwnerlessJournal {
    /// The 16 base-32 characters in each temporary name.
    package let id: String

    /// The recorded directories, by slot.
    package var directories: [POSIXPath]

    /// A journal with these recorded directories.
    package init(_ directories: [POSIXPath] = [], id: String = "abcdefghijklmnop") {
        self.directories = directories
        self.id = id
    }

    /// The name of a slot's temporary file or trash.
    package func name(_ prefix: String, slot: Int) -> POSIXPath { POSIXPath("\(prefix)\(id)-\(slot)") }

    /// The content of the file.
    package var bytes: [UInt8] {
        let header = Array("FORGETMP".utf8) + [1, 0, 0, 0] + Array(id.utf8)
        var bytes = header + Self.checksum(of: header)
        for (slot, directory) in directories.enumerated() {
            bytes += [UInt8](repeating: 0, count: 512 + 1536 * slot - bytes.count)
            let length = directory.count
            let content = [UInt8(truncatingIfNeeded: length), UInt8(truncatingIfNeeded: length >> 8)] + directory.bytes
            bytes += Self.checksum(of: content) + content
        }
        return bytes
    }

    /// Writes the file under the first free number in a root.
    package func write(in root: POSIXPath, on fileSystem: any POSIXFileSystem) throws(FileSystemError) {
        var number = 0
        while try fileSystem.exists(path(number, in: root), followsSymbolicLinks: false) { number += 1 }
        let file = try fileSystem.open(path(number, in: root), .writeOnly, options: [.create, .exclusiveCreate])
        try fileSystem.closing(file) { () throws(FileSystemError) in try fileSystem.writeBytes(bytes, to: file) }
    }

    private func path(_ number: Int, in root: POSIXPath) -> POSIXPath {
        root.appending(POSIXPath("\(POSIXPath.journalPrefix)\(number)"))
    }

    private static func checksum(of bytes: [UInt8]) -> [UInt8] {
        var checksum = CRC32C()
        checksum.update(bytes)
        return checksum.value.littleEndianBytes
    }
}
