import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Reads and changes a file store.
struct FileCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "file", abstract: "Read and change a file store.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write a stored file to standard output or a file.",
            discussion: """
                A regular file is replaced when the output is complete; a pipe, a device and /dev/stdout are written to \
                directly. An output in the directory of a store is refused.
                """)

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The key: a path below the store.") var key: String
        @Option(name: .shortAndLong, help: "Where to write it instead of standard output.") var output: String?
        @Flag(help: "Print the result and errors as JSON; requires --output.") var json = false

        func validate() throws {
            try requirePath(output, of: "output")
            guard !json || output != nil else {
                throw ValidationError("Missing --output: with --json, standard output cannot be the file")
            }
        }

        func run() async throws {
            let files = try store.open(mustExist: true)
            try store.requireNoOtherStore(above: key)
            guard let output else {
                for try await part in try await files.content(of: key) { try StandardOutput.write(part) }
                return
            }
            // An interruption at any moment would leave a temporary file beside the output.
            Interruption.deferInterruption()
            try await Interruption.cancelling { [key, json] in
                let content = try await files.content(of: key)
                let file = try OutputFile(at: POSIXPath(URL(POSIXPath(output))), named: output)
                var count = 0
                for try await part in content {
                    try Interruption.check()
                    try file.write([UInt8](part))
                    count += part.count
                }
                try file.finish()
                guard json else { return }
                try StandardOutput.print(
                    line: ActionLine(action: "get", key: key, bytes: count, destination: output))
            }
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a file, or standard input.",
            discussion: """
                It may have any size. An interrupted or failed input stores nothing. A store is not created above logs, \
                vaults or keys in directories that no store has marked.
                """)

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The key: a path below the store.") var key: String
        @Argument(help: "The file to store; standard input if there is none.") var file: String?
        @Flag(help: "Fail if the key exists.") var new = false
        @OptionGroup var output: JSONOption

        func validate() throws {
            try requirePath(file, of: "file")
        }

        func run() async throws {
            let files = try store.open(mustExist: false)
            try await store.requireNoOtherStoreFile(at: key)
            if let file {
                try await files.copy(from: URL(POSIXPath(file)), to: key, overwrite: !new)
            } else {
                try await files.write(key, if: new ? .absent : .always) { writer in
                    while let chunk = try StandardInput.readChunk() { try await writer.write(chunk) }
                }
            }
            if output.json {
                let bytes = Int(try await files.size(key))
                try StandardOutput.print(line: ActionLine(action: "set", key: key, bytes: bytes))
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List stored files.",
            discussion: """
                Links, pipes and other entries that no store creates, and directories of other users that cannot be read, \
                are listed as such: "not a file", with --json by a kind instead of their length. What other programs have \
                left there under names that are no keys, and other stores, are listed at the end with the reason why they \
                cannot be read here, and the exit status is 2 then.
                """)

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The directory to list; everything if there is none.") var key: String?
        @OptionGroup var output: JSONOption

        struct Row: Encodable {
            /// The key; of an item that is not listed, its path as it is shown.
            var key: String
            /// The length of the file; nil for an entry that is none.
            var bytes: Int?
            /// `other` for an entry that is no file; nil for a file.
            var kind: String?
            var modified: Date?
            /// Why the store does not list an item.
            var unlisted: String?

            init(_ file: StoredFile) {
                key = file.key
                bytes = file.kind == .file ? Int(file.sizeInBytes) : nil
                kind = file.kind == .file ? nil : file.kind.rawValue
                modified = file.modified
            }

            init(unlisted path: POSIXPath, reason: String) {
                key = path.shown
                unlisted = reason
            }
        }

        func run() async throws {
            let files = try store.open(mustExist: true)
            if let key { try store.requireNoOtherStore(above: "\(key)/file") }
            var table = TextTable([("Key", .left), ("Bytes", .right), ("Modified", .left)])
            let show = { [json = output.json] (row: Row, path: POSIXPath) throws in
                guard !json else { return try StandardOutput.print(line: row) }
                let bytes = row.bytes.map(String.init) ?? (row.unlisted == nil ? "not a file" : "not listed")
                table.add([path.description, bytes, row.unlisted ?? row.modified?.formatted(.iso8601) ?? ""])
            }
            var count = 0
            try await files.forEachFile(in: key ?? "") {
                try show(Row($0), POSIXPath($0.key))
            } unlisted: { path, reason in
                count += 1
                try show(Row(unlisted: path, reason: reason), path)
            }
            if !output.json { try StandardOutput.print(table.lines) }
            guard count == 0 else {
                throw CommandFailure(
                    "\(counted(count, "item")) cannot be read as files of the store: see the list", .partial)
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "rm", abstract: "Remove a file or directory.")

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The key: a path below the store.") var key: String
        @Flag(name: .shortAndLong, help: "Remove a directory with its contents.") var recursive = false
        @OptionGroup var output: JSONOption

        func run() async throws {
            let files = try store.open(mustExist: true)
            try await store.requireNoOtherStoreFile(at: key)
            do {
                try await recursive ? files.deleteDirectory(key) : files.delete(key)
            } catch let error as FileStoreError where error.code == .isDirectory {
                throw CommandFailure("\(error); --recursive removes a directory with its content")
            }
            if output.json { try StandardOutput.print(line: ActionLine(action: "remove", key: key)) }
        }
    }
}

/// The location of a file store.
struct FileStoreArgument: ParsableArguments {
    @Argument(help: "The root directory of the store, as DIR or file:DIR, or s3://bucket/prefix.") var path: String

    private var url: URL { get throws(ValidationError) { try Home.directory(path, .files) } }

    func validate() throws {
        guard let server = try StoreURL.parsed(path) else {
            _ = try url
            return
        }
        guard !server.isKeyValue else {
            throw ValidationError("etcd:// is a key-value store, which forge kv reads and changes")
        }
    }

    /// Throws if the file at a key belongs to another store in the same directory, or if the change would create a file
    /// store above files of other stores.
    func requireNoOtherStoreFile(at key: String) async throws {
        guard try StoreURL.parsed(path) == nil, POSIXPath(key).isKey else { return }
        let path = try POSIXPath(url).appending(POSIXPath(key))
        try requireOutsideBackups(path, key)
        do {
            try requireNoStoreFile(at: path, key)
        } catch is CommandFailure {
            // Another process may be creating the store.
            try await completeCreation()
            try requireNoStoreFile(at: path, key)
        }
        try FileTarget.requireNoUnmarkedStores(in: POSIXPath(url), .usage)
    }

    /// Throws if the file at a key is in another store inside this one, whose files are not those of this one.
    func requireNoOtherStore(above key: String) throws {
        guard try StoreURL.parsed(path) == nil, POSIXPath(key).isKey else { return }
        var directory = try POSIXPath(url)
        for name in POSIXPath(key).bytes.split(separator: UInt8(ascii: "/")).dropLast() {
            directory = directory.appending(POSIXPath(name))
            let scope: StoreScope
            do throws(FileSystemError) {
                scope = try StoreScope(at: directory, on: SystemFileSystem())
            } catch {
                return  // The call reports it.
            }
            guard !scope.isRoot else {
                throw CommandFailure("\(directory.shown) is the root of another store: \(scope.owner.words)")
            }
        }
    }

    /// Marks the directory of a store that another process is creating, or was when it ended: the directory has a journal
    /// and neither a marker nor a file yet, and counts as one of an unknown store until it is marked. With files, it may be
    /// that of a store of another kind which has lost its marker.
    private func completeCreation() async throws {
        let (fileSystem, url) = (SystemFileSystem(), try self.url)
        let names = try fileSystem.entries(ofDirectory: POSIXPath(url)).map(\.name)
        guard names.contains(where: \.isStoreMarker),
            names.allSatisfy({ $0.isLeftover || $0.bytes.starts(with: POSIXPath.journalPrefix.utf8) })
        else { return }
        try await DiskFileStore(root: url).open()
    }

    /// Opens the store. Only `set` may create it; all other commands pass `mustExist: true`.
    ///
    /// A bucket must always exist; a prefix without files is an empty store.
    ///
    /// - Throws: ``CommandFailure`` if the store does not exist.
    func open(mustExist: Bool) throws -> any CommandFileStore {
        if let server = try StoreURL.parsed(path) { return try server.openFileStore() }
        let url = try self.url
        if mustExist { try requireStore("file store", at: url, isDirectory: true) }
        return DiskFileStore(root: url)
    }
}
