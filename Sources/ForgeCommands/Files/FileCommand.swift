import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Reads and changes a `DiskFileStore`.
struct FileCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "file", abstract: "Read and change a file store.",
        subcommands: [Get.self, Set.self, List.self, Remove.self])

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Write a stored file to standard output or a file.")

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The key: a path below the store.") var key: String
        @Option(name: .shortAndLong, help: "Where to write it instead of standard output.") var output: String?
        @Flag(help: "Print JSON about it, which needs --output; errors too.") var json = false

        func validate() throws {
            try requirePath(output, of: "output")
            guard !json || output != nil else {
                throw ValidationError("Missing --output: with --json, standard output cannot be the file")
            }
        }

        func run() async throws {
            let reader = try await store.open(mustExist: true).reader(for: key)
            guard let output else {
                try forEachChunk(of: reader) { (chunk) throws(CommandFailure) in try StandardOutput.write(chunk) }
                return
            }
            let fileSystem = SystemFileSystem()
            // An error of the store, kept here because `replaceContents` can only throw a `FileSystemError`.
            var storeError: (any Error)?
            do {
                try fileSystem.replaceContents(of: URL(fileURLWithPath: output)) { (target) throws(FileSystemError) in
                    do {
                        try forEachChunk(of: reader) { try fileSystem.writeBytes([UInt8]($0), to: target) }
                    } catch let error as FileSystemError {
                        throw error
                    } catch {
                        storeError = error
                        throw FileSystemError(.read, .canceled)
                    }
                }
            } catch {
                throw storeError ?? error
            }
            if json {
                try StandardOutput.print(
                    line: ActionLine(
                        action: "get", key: key, bytes: Int(reader.file.sizeInBytes), destination: output))
            }
        }

        private func forEachChunk(of reader: FileReader, _ body: (Data) throws -> Void) throws {
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
            defer { buffer.deallocate() }
            var offset: Int64 = 0
            while true {
                let count = try reader.readBlocking(into: buffer, at: offset)
                if count == 0 { return }
                offset += Int64(count)
                try body(Data(buffer[..<count]))
            }
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Store a file, or standard input.",
            discussion: "It may have any size. An interrupted or failed input stores nothing.")

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
            if let file {
                try await files.copy(from: URL(fileURLWithPath: file), to: key, overwrite: !new)
            } else {
                try await files.write(to: key, if: new ? .absent : .always) { writer in
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
        static let configuration = CommandConfiguration(abstract: "List stored files.")

        @OptionGroup var store: FileStoreArgument
        @Argument(help: "The directory to list; everything if there is none.") var key: String?
        @OptionGroup var output: JSONOption

        struct Row: Encodable {
            var key: String
            var bytes: Int
            var modified: Date
        }

        func run() async throws {
            let files = try store.open(mustExist: true)
            var table = TextTable([("Key", .left), ("Bytes", .right), ("Modified", .left)])
            for try await file in files.files(in: key ?? "", FileListingOptions(sorted: true)) where !file.isDirectory {
                let row = Row(key: file.key, bytes: Int(file.sizeInBytes), modified: file.modified)
                if output.json {
                    try StandardOutput.print(line: row)
                } else {
                    table.add([row.key, String(row.bytes), row.modified.formatted(.iso8601)])
                }
            }
            if !output.json { try StandardOutput.print(table.lines) }
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
            do {
                try await recursive ? files.deleteDirectory(key) : files.delete(key)
            } catch let error as FileStoreError where error.code == .isDirectory {
                throw CommandFailure("\(error); --recursive removes a directory and all it holds")
            }
            if output.json { try StandardOutput.print(line: ActionLine(action: "remove", key: key)) }
        }
    }
}

/// The argument for the store's root directory.
struct FileStoreArgument: ParsableArguments {
    @Argument(help: "The root directory of the store.") var path: String

    func validate() throws {
        try requirePath(path, of: "store")
    }

    /// Opens the store. Only `set` may create it; all other commands pass `mustExist: true`.
    func open(mustExist: Bool) throws -> DiskFileStore {
        let url = URL(fileURLWithPath: path)
        if mustExist { try requireStore("file store", at: url, isDirectory: true) }
        return DiskFileStore(root: url)
    }
}
