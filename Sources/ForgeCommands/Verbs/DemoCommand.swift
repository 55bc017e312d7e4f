import ArgumentParser
import ForgeStorage
import Foundation
import SystemPackage

/// Runs TaskFlow on disk, reads everything back in a second process, lists the stored items, and logs out.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Store settings, files, secrets, a session, images and values; read them back in a second process.",
        discussion: """
            Everything goes below one directory, which the demo creates; it refuses a directory that holds other files. \
            At the end the demo logs out: it removes what it stored and leaves empty stores. With --keep it removes \
            nothing, and `forge check` and the other commands have something to read.
            """)

    @Option(help: ArgumentHelp("Where to store everything.", valueName: "dir"))
    var directory = ".forge-demo"

    @Option(help: ArgumentHelp("A file to store as the avatar.", valueName: "file"))
    var avatar: String?

    @Flag(help: "Do not log out at the end.")
    var keep = false

    @Flag(help: "Print the stored items as JSON, one object per line, instead of the story; errors too.")
    var json = false

    @Flag(help: .hidden)
    var readBack = false

    func validate() throws {
        try requirePath(directory, of: "directory")
        try requirePath(avatar, of: "avatar")
    }

    func run() async throws {
        let content = try DemoContent(avatarFile: avatar.map { URL(POSIXPath($0)) })
        let root = URL(POSIXPath(directory))
        try requireOutsideBackups(POSIXPath(root).appending(FileKVStore.logName), directory)
        let place = try DemoDirectory(at: root)
        if readBack { return try await readEverythingBack(place.url, content) }

        let isLoggedIn = try await withStory(place.url, content) { try $0.isLoggedIn() }
        try tell(
            !place.isUsed
                ? "TaskFlow starts for the first time, in \(directory)"
                : "TaskFlow starts again in \(directory), " + (isLoggedIn ? "still logged in" : "logged out"))
        try await withStory(place.url, content) { try await $0.store() }
        try tell([
            "  stored: onboarding flag, settings, access token, avatar (\(readableSize(content.avatar.count))),",
            "          session, \(content.images.count) cached images, a timeline",
            "A second process reads everything back",
        ])
        try startAgain()

        let items = try await withStory(place.url, content) { try await $0.stores.inventory() }
        if json { for item in items { try StandardOutput.print(line: item) } }
        try tell(["What is stored where"] + items.table.lines.map { "  " + $0 })
        guard !keep else { return try tell("Kept. Look around: forge check \(directory)") }
        try tell("TaskFlow logs out")
        try await withStory(place.url, content) { try await $0.logOut() }
        try await reportRemains(of: content, in: place)
    }

    private func tell(_ lines: [String]) throws {
        if !json { try StandardOutput.print(lines) }
    }

    private func tell(_ line: String) throws {
        try tell([line])
    }

    /// Opens the stores for one step, and closes them afterwards so that another process can open them.
    private func withStory<Result>(
        _ root: URL, _ content: DemoContent, _ act: (DemoStory) async throws -> Result
    ) async throws -> Result {
        try await act(DemoStory(stores: DemoStores(directory: root), content: content))
    }

    private func readEverythingBack(_ root: URL, _ content: DemoContent) async throws {
        let differences = try await withStory(root, content) { try await $0.differences() }
        guard differences.isEmpty else {
            throw CommandFailure("read back differently: \(differences.joined(separator: ", "))")
        }
        try tell(
            "  process \(ProcessInfo.processInfo.processIdentifier): all there, byte for byte")
    }

    /// Verifies that logging out removed every value, and lists the remaining files.
    private func reportRemains(of content: DemoContent, in place: DemoDirectory) async throws {
        let remains = try await withStory(place.url, content) { try await $0.remains() }
        guard remains.isEmpty else {
            throw CommandFailure("logging out left \(remains.joined(separator: ", "))")
        }
        let files = try place.remainingFiles()
        try tell([
            "  nothing that the demo stored is left; \(counted(files.count, "file")) of the empty stores remain:",
            "  " + files.joined(separator: ", "),
        ])
    }

    private func startAgain() throws {
        let process = Process()
        process.executableURL = Bundle.main.executableURL
        process.arguments = ["demo", "--read-back", "--directory", directory]
        if json { process.arguments?.append("--json") }
        if let avatar { process.arguments?.append(contentsOf: ["--avatar", avatar]) }
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw CommandFailure("the second process failed with status \(process.terminationStatus)")
        }
    }
}

/// The steps of the demo: storing, reading back, and logging out.
struct DemoStory {
    let stores: DemoStores
    let content: DemoContent

    /// Whether an earlier run stored data and did not log out.
    func isLoggedIn() throws -> Bool {
        try stores.settings.read(TaskFlow.onboarding) == true
    }

    /// Stores one item in each store.
    func store() async throws {
        try stores.settings.set(TaskFlow.onboarding, value: true)
        try stores.settings.set(TaskFlow.settings, value: content.settings)
        try stores.secrets.set(content.token, for: TaskFlow.accessToken)
        try await stores.files.save(content.avatar, to: TaskFlow.avatar)
        try stores.session.saveUser(content.user)
        for (id, data) in content.images { try stores.images.cacheImage(id: id, data: data) }
        try await stores.values.saveInBackground(content.timeline, for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }

    /// The differences from the stored values; empty if there are none.
    func differences() async throws -> [String] {
        var found: [String] = []
        func expect(_ isEqual: Bool, _ what: String) {
            if !isEqual { found.append(what) }
        }
        expect(try stores.settings.read(TaskFlow.onboarding) == true, "the onboarding flag")
        expect(try stores.settings.read(TaskFlow.settings) == content.settings, "the settings")
        expect(try stores.secrets.get(TaskFlow.accessToken) == content.token, "the access token")
        expect(try await stores.files.load(TaskFlow.avatar) == content.avatar, "the avatar")
        expect(try stores.session.loadUser() == content.user, "the session")
        for (id, data) in content.images {
            expect(try stores.images.readCachedImage(id: id)?.data == data, "the cached image \(id)")
        }
        let timeline: TaskFlow.Timeline = try await stores.values.fetchInBackground(for: TaskFlow.timeline)
        expect(timeline == content.timeline, "the timeline")
        return found
    }

    /// Removes the items of ``store()`` one by one: other values and files in the directory are kept.
    func logOut() async throws {
        try stores.session.clearUser()
        try stores.secrets.delete(TaskFlow.accessToken)
        try await deleteAvatar()
        try stores.settings.remove(TaskFlow.onboarding)
        try stores.settings.remove(TaskFlow.settings)
        for (id, _) in content.images { try stores.images.deleteCachedImage(id: id) }
        try stores.valueFiles.removeValue(for: TaskFlow.timeline)
        try stores.settings.synchronize()
    }

    /// The items of ``store()`` that still exist.
    func remains() async throws -> [String] {
        var found: [String] = []
        func expect(_ isGone: Bool, _ what: String) {
            if !isGone { found.append(what) }
        }
        expect(try stores.settings.read(TaskFlow.onboarding) == nil, "the onboarding flag")
        expect(try stores.settings.read(TaskFlow.settings) == nil, "the settings")
        expect(try !stores.secrets.contains(TaskFlow.accessToken), "the access token")
        expect(try await !stores.files.list(recursive: true).contains { $0.key == TaskFlow.avatar }, "the avatar")
        expect(try stores.session.loadUser() == nil, "the session")
        for (id, _) in content.images {
            expect(try stores.images.readCachedImage(id: id) == nil, "the cached image \(id)")
        }
        expect(try isTimelineGone(), "the timeline")
        return found
    }

    private func isTimelineGone() throws -> Bool {
        do {
            _ = try stores.valueFiles.fetchValue(for: TaskFlow.timeline)
            return false
        } catch StorageError.notFound {
            return true
        }
    }

    private func deleteAvatar() async throws {
        do {
            try await stores.files.delete(TaskFlow.avatar)
        } catch let error as FileStoreError where error.code == .notFound {
            return
        }
    }
}

/// All stores of the demo, in one directory.
struct DemoStores {
    let directory: URL
    let settings: FileKVStore
    let files: DiskFileStore
    let secrets: VaultCrypt
    let session: SessionManager<TaskFlow.User, SessionStorageError>
    let images: ImageCacheManager
    let values: CodableStorage
    let valueFiles: DiskStorage

    /// Opens the stores, creating missing ones.
    init(directory: URL) throws {
        self.directory = directory
        settings = try FileKVStore(at: directory.appendingPathComponent("settings"))
        files = DiskFileStore(root: directory.appendingPathComponent("files"))
        secrets = try VaultCrypt(
            at: directory.appendingPathComponent("secrets/vault"),
            key: VaultKeyFile.loadOrCreate(at: directory.appendingPathComponent("vault-key")))
        session = SessionManager(storage: KVSessionStorage(store: settings))
        images = ImageCacheManager(cacheDirectory: directory.appendingPathComponent("images"))
        valueFiles = DiskStorage(path: directory.appendingPathComponent("values"))
        values = CodableStorage(storage: valueFiles)
    }
}

/// The demo's directory, identified by a marker file.
struct DemoDirectory {
    static let markerName = "forge-demo.txt"
    private static let marker = "The demo of forge made this directory. You may delete it.\n"

    let url: URL

    /// Whether an earlier demo used the directory.
    let isUsed: Bool

    /// Creates the directory and its marker, or finds both.
    ///
    /// - Throws: ``CommandFailure`` for a directory that holds files but no marker.
    init(at url: URL) throws {
        self.url = url
        let path = try POSIXPath(url)
        let fileSystem = SystemFileSystem()
        let marker = path.appending(POSIXPath(Self.markerName))
        if try fileSystem.exists(marker, followsSymbolicLinks: false) {
            isUsed = true
            return
        }
        if try fileSystem.exists(path), try !fileSystem.contentsOfDirectory(at: url).isEmpty {
            throw CommandFailure("\(path) contains other files; choose another directory")
        }
        isUsed = false
        try fileSystem.createDirectory(at: url, withIntermediateDirectories: true)
        try fileSystem.write(Data(Self.marker.utf8), to: URL(marker))
    }

    /// The files of the empty stores: logs, locks, the vault and its key.
    func remainingFiles() throws -> [String] {
        let fileSystem = SystemFileSystem()
        var found: [String] = []
        var pending = [""]
        while let below = pending.popLast() {
            for entry in try fileSystem.contentsOfDirectory(at: url.appendingPathComponent(below)) {
                let name = below.isEmpty ? entry.lastPathComponent : "\(below)/\(entry.lastPathComponent)"
                if entry.hasDirectoryPath { pending.append(name) } else { found.append(name) }
            }
        }
        return found.sorted()
    }
}

/// A stored item, as shown in tables and `--json`.
struct StoredItem: Encodable, Equatable {
    /// The name of the item in its store.
    var name: String
    /// The kind of store.
    var store: String
    /// The size in bytes as stored, encoded or encrypted.
    var bytes: Int
    /// The path of its file, relative to the directory of the demo.
    var path: String
}

extension DemoStores {
    /// All stored items, read from disk.
    func inventory() async throws -> [StoredItem] {
        var items: [StoredItem] = []
        for key in try settings.keys().sorted() {
            let bytes = try settings.rawValue(named: key)?.count ?? 0
            items.append(StoredItem(name: key, store: "FileKVStore", bytes: bytes, path: "settings"))
        }
        for key in try secrets.keys().sorted() {
            items.append(
                StoredItem(name: key, store: "VaultCrypt", bytes: try size(of: "secrets/vault"), path: "secrets/vault"))
        }
        for file in try await files.list(recursive: true) where !file.isDirectory {
            items.append(
                StoredItem(
                    name: file.key, store: "DiskFileStore", bytes: Int(file.sizeInBytes), path: "files/\(file.key)"))
        }
        items += try plainFiles(in: "images", store: "ImageCacheManager")
        items += try plainFiles(in: "values", store: "CodableStorage")
        return items
    }

    private func plainFiles(in name: String, store: String) throws -> [StoredItem] {
        let fileSystem = SystemFileSystem()
        var items: [StoredItem] = []
        var pending = [name]
        while let path = pending.popLast() {
            for url in try fileSystem.contentsOfDirectory(at: directory.appendingPathComponent(path)) {
                let below = "\(path)/\(url.lastPathComponent)"
                if url.hasDirectoryPath {
                    pending.append(below)
                } else if !url.lastPathComponent.hasBytePrefix("#") {
                    let shown = below.droppingBytePrefix(name + "/") ?? below
                    items.append(StoredItem(name: shown, store: store, bytes: try size(of: below), path: below))
                }
            }
        }
        return items.sorted { $0.path < $1.path }
    }

    private func size(of path: String) throws -> Int {
        Int(try SystemFileSystem().status(POSIXPath(directory.appendingPathComponent(path))).sizeInBytes)
    }
}

extension [StoredItem] {
    /// The items as a table.
    var table: TextTable {
        var table = TextTable([("Name", .left), ("Store", .left), ("Bytes", .right), ("Path", .left)])
        for item in self { table.add([item.name, item.store, String(item.bytes), item.path]) }
        return table
    }
}

/// The settings and secrets of TaskFlow, the example app of the demo.
enum TaskFlow {
    static let onboarding = KVKey<Bool>("taskflow.onboarding")
    static let settings = KVKey<Settings>("taskflow.settings")
    static let accessToken = CryptKey<String>(key: "auth.access")
    static let avatar = "avatars/current.jpg"
    static let timeline = "timelines/home"

    struct Settings: Codable, Equatable, Sendable {
        var theme = "dusk"
        var fontSize = 14.5
        var columns = ["To do", "Doing", "Done"]
        var lastSync: Date?
    }

    struct User: Codable, Equatable, Sendable {
        var id: String
        var name: String
        var email: String
    }

    struct Timeline: Codable, Equatable, Sendable {
        var tweets: [String]
    }
}

/// The content that the demo stores, identical in the storing and the reading process.
struct DemoContent {
    let settings = TaskFlow.Settings(lastSync: Date(timeIntervalSinceReferenceDate: 800_000_000.25))
    let token = "token-123"
    let user = TaskFlow.User(id: "123", name: "John Doe", email: "john@example.com")
    let timeline = TaskFlow.Timeline(tweets: ["Hello", "World", "!!!"])
    let images = [
        ("board_background", Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])),
        ("https://example.com/team?size=2x", Data((0..<2048).map { UInt8(truncatingIfNeeded: $0 * 7) })),
    ]
    let avatar: Data

    /// The avatar is the user's file, or a small generated picture (PNM, 24 bytes of header and pixels).
    init(avatarFile: URL?) throws {
        if let avatarFile {
            avatar = try SystemFileSystem().read(from: avatarFile)
        } else {
            avatar = Data("P5 4 4 255\n".utf8) + Data((0..<16).map { UInt8($0 * 16) })
        }
    }
}
