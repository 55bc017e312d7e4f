import ChildProcesses
import ForgeStorage
import ForgeStorageTesting
import Foundation
import Testing

/// The result of one run of the `forge` executable.
struct CommandRun {
    /// The destination of a run's standard output.
    enum Destination: String, CaseIterable, CustomTestStringConvertible {
        case file
        /// `/dev/full`: every write fails with `ENOSPC`.
        case full
        /// The descriptor is closed, as by `>&-`.
        case closed
        /// A pipe that has no reader.
        case brokenPipe

        var testDescription: String { rawValue }
    }

    /// The exit status, or the number of the signal that ended the process.
    var status: Int32
    var endedBySignal: Bool
    var output: String
    var errors: String

    /// The lines of standard error; a failure has exactly one.
    var errorLines: [Substring] { errors.split(separator: "\n") }

    /// The JSON objects on the lines of standard output, without those about progress and the summary.
    func rows() throws -> [[String: Any]] {
        try jsonLines(of: output).filter { !["progress", "summary"].contains($0["type"] as? String) }
    }

    /// The JSON object that `--json` prints at the end.
    func summary() throws -> [String: Any] {
        try #require(jsonLines(of: output).last { $0["type"] as? String == "summary" })
    }

    /// The JSON object on standard error.
    func failure() throws -> [String: Any] {
        let objects = try jsonLines(of: errors)
        #expect(objects.count == 1, "\(errors)")
        return try #require(objects.last)
    }

    private func jsonLines(of text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map { line in
            try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
        }
    }

    /// Runs `forge` and waits for it to end.
    ///
    /// - Parameters:
    ///   - arguments: The arguments of the command.
    ///   - input: The bytes of standard input.
    ///   - destination: Where standard output goes; it is captured only if it is a file.
    ///   - prefix: A program and its arguments that start `forge`, such as `setpriv`.
    /// - Throws: The error that prevented the start of the process.
    init(
        _ arguments: [String], input: Data = Data(), to destination: Destination = .file, prefix: [String] = []
    ) throws {
        let closing = destination == .closed ? ["/bin/sh", "-c", "exec \"$0\" \"$@\" >&-"] : []
        let words = prefix + closing + [try Self.executable()] + arguments
        // Another user, and a process whose files have a limit, cannot write where a run with coverage collects
        // profiles; the runtime would print an error.
        let isRestricted = prefix.contains { $0.hasPrefix("--reuid") || $0.contains("ulimit -f") }
        let environment = ProcessInfo.processInfo.environment.merging(
            isRestricted ? ["LLVM_PROFILE_FILE": "/dev/null"] : [:]
        ) { $1 }
        // Files, not pipes: a full pipe could block.
        let (outputFile, errorFile) = (try ChildProcess.unnamedFile(), try ChildProcess.unnamedFile())
        let stream: ChildProcess.Stream
        switch destination {
        case .file, .closed: stream = .file(outputFile)
        case .full: stream = .file(try FileHandle(forWritingTo: URL(fileURLWithPath: "/dev/full")))
        case .brokenPipe:
            let pipe = Pipe()
            try pipe.fileHandleForReading.close()
            stream = .pipe(pipe)
        }
        let process = try ChildProcess(
            words[0], Array(words.dropFirst()), environment: environment,
            input: .file(try ChildProcess.unnamedFile(containing: input)), output: stream, errors: .file(errorFile))
        switch process.wait() {
        case .exit(let status): (self.status, endedBySignal) = (status, false)
        case .signal(let signal): (status, endedBySignal) = (signal, true)
        }
        output = try Self.text(of: outputFile)
        errors = try Self.text(of: errorFile)
    }

    private static func text(of file: FileHandle) throws -> String {
        try #require(String(data: ChildProcess.content(of: file), encoding: .utf8))
    }

    init(_ arguments: [String], input: String) throws {
        try self.init(arguments, input: Data(input.utf8))
    }

    /// The prefix that starts `forge` without the right of root to read and write everything, so that it obeys the modes
    /// of files; nil if that is not possible.
    static let obeyingModes: [String]? =
        if geteuid() != 0 {
            []
        } else if FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") {
            ["/usr/bin/setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"]
        } else {
            nil
        }

    /// The executable of the same build, beside the test bundle.
    static func executable() throws -> String {
        var directory = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        for _ in 0..<5 {
            directory.deleteLastPathComponent()
            let candidate = directory.appendingPathComponent("forge")
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate.path }
        }
        throw NotBuilt()
    }

    struct NotBuilt: Error {}
}

/// A directory of one test, removed with the last reference.
final class Scratch: Sendable {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("forge-\(UUID().uuidString)")

    init() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    /// Writes a file, whose missing directories it creates.
    func plant(_ path: String, _ text: String = "x") throws { try plant(path, Data(text.utf8)) }

    func plant(_ path: String, _ content: Data) throws {
        let file = url.appendingPathComponent(path)
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try content.write(to: file)
    }

    /// Copies a file or directory within the directory, and creates the missing directories above the copy.
    func copy(_ path: String, to other: String) throws {
        let copy = url.appendingPathComponent(other)
        try FileManager.default.createDirectory(at: copy.deletingLastPathComponent(), withIntermediateDirectories: true)
        try FileManager.default.copyItem(at: url.appendingPathComponent(path), to: copy)
    }

    /// A directory for a walk; an entry below it is moved once, before a call of the walk, and not before another file
    /// exists.
    func walked(
        _ name: String, moving entry: String, to other: String, before operation: FileSystemOperation,
        of argument: POSIXPath, after file: String? = nil
    ) throws -> ConfinedDirectory {
        let (from, to, awaited) = (POSIXPath(path(entry)), POSIXPath(path(other)), POSIXPath(path(file ?? entry)))
        let moving = InterceptedFileSystem(SystemFileSystem()) { (call) throws(FileSystemError) in
            guard call.operation == operation, call.path == argument else { return }
            guard try SystemFileSystem().exists(from), try SystemFileSystem().exists(awaited) else { return }
            try SystemFileSystem().rename(from, to: to)
        }
        return try ConfinedDirectory(POSIXPath(path(name)), on: moving)
    }

    #if os(Linux)
    /// The paths in the directory that this process has open, once for each descriptor.
    func opened() throws -> [String] {
        let root = url.resolvingSymlinksInPath().path + "/"
        // The descriptors of other tests may be closed meanwhile.
        let places = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { number in
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
        }
        return places.filter { $0.hasPrefix(root) }.map { String($0.dropFirst(root.count)) }.sorted()
    }
    #endif
}

/// What the tests of copies fill and read.
extension Scratch {
    /// Creates a key-value store with five values: three of an app, one that is no value, and one of a newer schema.
    func fillStore(_ name: String = "kv") throws {
        let store = try FileKVStore(at: url.appendingPathComponent(name))
        try store.set(KVKey<String>("name"), value: "dusk")
        try store.set(KVKey<Date>("date"), value: Date(timeIntervalSince1970: 1_000_000.125))
        try store.set(KVKey<[Int]>("list"), value: [1, 2])
        try store.setRawValue([0xFF, 0x00], named: "foreign")
        try store.setRawValue(
            ValueEnvelope(schemaVersion: 3, payload: CodedValue.bool(true).encoded()).encoded, named: "new")
        try store.close()
    }

    /// The stored bytes of a key-value store by key.
    func values(_ name: String) throws -> [String: [UInt8]] {
        let store = try FileKVStore(
            at: url.appendingPathComponent(name), options: FileKVStore.Options(access: .readOnly))
        return Dictionary(uniqueKeysWithValues: try store.snapshot().map { ($0.name, $0.entry.bytes) })
    }

    /// The regular files below a directory by path, without the journals of stores.
    func files(_ name: String) throws -> [String: String] {
        let root = url.appendingPathComponent(name)
        var files: [String: String] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: root.path) {
            let file = root.appendingPathComponent(path)
            guard !path.hasPrefix("#"), (try? file.resourceValues(forKeys: [.isDirectoryKey]).isDirectory) == false
            else { continue }
            files[path] = try String(contentsOf: file, encoding: .utf8)
        }
        return files
    }
}

/// One invocation of each verb of `forge`, on the stores of a ``StoreFixture``.
struct Verb: CustomTestStringConvertible, Sendable {
    /// The effect of a verb on its store.
    enum Access {
        /// Reads a store, which must exist.
        case reads
        /// Changes a store, which must exist.
        case changes
        /// Creates the store if it is missing.
        case creates
        /// Reads a store, which must exist, and writes to another place.
        case copies
        /// Uses no store.
        case none
    }

    let name: String
    let access: Access
    /// Whether a successful run writes to standard output.
    var prints = false
    var input = ""
    /// Whether it writes to the key-value store of the fixture, which another process may have open.
    var needsKeyValueStore = false
    /// Makes what the verb needs besides the stores, in their directory.
    var prepare: @Sendable (_ directory: String) throws -> Void = { _ in }
    /// The arguments after the verb, given the directory of the stores.
    let arguments: @Sendable (_ directory: String) -> [String]

    var testDescription: String { name }

    func words(in directory: String) -> [String] {
        name.split(separator: " ").map(String.init) + arguments(directory)
    }

    static let all: [Verb] = [
        Verb(name: "kv get", access: .reads, prints: true) { ["\($0)/kv", "name"] },
        Verb(name: "kv list", access: .reads, prints: true) { ["\($0)/kv"] },
        Verb(name: "kv set", access: .creates, needsKeyValueStore: true) { ["\($0)/kv", "name", "new"] },
        Verb(name: "kv rm", access: .changes, needsKeyValueStore: true) { ["\($0)/kv", "name"] },
        Verb(name: "file get", access: .reads, prints: true) { ["\($0)/files", "a.txt"] },
        Verb(name: "file list", access: .reads, prints: true) { ["\($0)/files"] },
        Verb(name: "file set", access: .creates, input: "new") { ["\($0)/files", "a.txt"] },
        Verb(name: "file rm", access: .changes) { ["\($0)/files", "a.txt"] },
        Verb(name: "secret get", access: .reads, prints: true) { vault(in: $0) + ["token"] },
        Verb(name: "secret list", access: .reads, prints: true) { vault(in: $0) },
        Verb(name: "secret set", access: .changes, input: "new") { vault(in: $0) + ["token"] },
        Verb(name: "secret rm", access: .changes) { vault(in: $0) + ["token"] },
        Verb(name: "check", access: .reads, prints: true) { [$0] },
        Verb(name: "du", access: .reads, prints: true) { [$0] },
        // There is nothing to repair.
        Verb(name: "repair", access: .reads, prints: true) { [$0] },
        Verb(name: "watch", access: .reads, prints: true) { ["kv:\($0)/kv", "--count", "1"] },
        Verb(name: "copy", access: .copies, prints: true) { ["file:\($0)/files", "tree:\($0)/tree"] },
        Verb(
            name: "copy", access: .creates, prints: true, input: "{\"key\":\"new\",\"value\":1}\n",
            needsKeyValueStore: true
        ) { ["json:-", "kv:\($0)/kv"] },
        Verb(name: "copy", access: .copies, prints: true) { ["kv:\($0)/kv", "json:\($0)/lines"] },
        Verb(name: "backup", access: .copies, prints: true) { ["\($0)/files", "\($0)/backup"] },
        Verb(
            name: "restore", access: .copies, prints: true,
            prepare: { directory in
                _ = try CommandRun(["backup", "\(directory)/files", "\(directory)/backup"])
            }
        ) { ["\($0)/backup", "\($0)/restored"] },
        Verb(name: "demo", access: .creates, prints: true) { ["--directory", "\($0)/demo"] },
        Verb(name: "--help", access: .none, prints: true) { _ in [] },
        Verb(name: "help kv", access: .none, prints: true) { _ in [] },
        Verb(name: "--version", access: .none, prints: true) { _ in [] },
    ]

    private static func vault(in directory: String) -> [String] {
        ["\(directory)/vault/v", "--key-file", "\(directory)/vault/key"]
    }
}

/// One store of each kind with one entry each, below a scratch directory.
struct StoreFixture {
    let scratch: Scratch

    init() async throws {
        scratch = try Scratch()
        let settings = try FileKVStore(at: scratch.url.appendingPathComponent("kv"))
        try settings.set(KVKey<String>("name"), value: "dusk")
        // Hundreds of tests wait at the next line at the same time: their stores would hold a thousand descriptors.
        try settings.close()
        try await DiskFileStore(root: scratch.url.appendingPathComponent("files")).save(Data("text".utf8), to: "a.txt")
        let vault = scratch.url.appendingPathComponent("vault")
        let key = try VaultKeyFile.loadOrCreate(at: vault.appendingPathComponent("key"))
        try VaultCrypt(at: vault.appendingPathComponent("v"), key: key).set("s3cret", for: CryptKey(key: "token"))
    }

    /// Every path below the scratch directory with size, modification time and inode.
    func listing() throws -> [String] {
        let fileSystem = SystemFileSystem()
        var found: [String] = []
        var pending = [try POSIXPath(scratch.url)]
        while let path = pending.popLast() {
            let status = try fileSystem.status(path, followsSymbolicLinks: false)
            found.append("\(path) \(status.inode) \(status.sizeInBytes) \(status.modified)")
            var isDirectory: ObjCBool = false
            guard FileManager.default.fileExists(atPath: path.description, isDirectory: &isDirectory),
                isDirectory.boolValue
            else { continue }
            let names = try FileManager.default.contentsOfDirectory(atPath: path.description)
            pending += names.map { path.appending(POSIXPath($0)) }
        }
        return found.sorted()
    }
}
