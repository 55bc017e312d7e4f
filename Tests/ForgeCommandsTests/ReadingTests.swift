import ForgeStorage
import Foundation
import Testing

@Suite("Verbs that read")
struct ReadingTests {
    private static let reading = Verb.all.filter { $0.access == .reads }

    @Test("reading a store leaves it unchanged, and creates nothing beside it", arguments: reading)
    func changesNothing(verb: Verb) async throws {
        let fixture = try await StoreFixture()
        let before = try fixture.listing()
        let run = try CommandRun(verb.words(in: fixture.scratch.url.path))
        #expect(run.status == 0, "\(run.errors)")
        #expect(try fixture.listing() == before)
    }

    @Test("a directory without a store is left unchanged", arguments: reading)
    func foreignDirectory(verb: Verb) throws {
        let scratch = try Scratch()
        for name in ["kv", "files", "vault"] {
            let directory = scratch.url.appendingPathComponent(name)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try Data("mine".utf8).write(to: directory.appendingPathComponent("mine.txt"))
        }
        let run = try CommandRun(verb.words(in: scratch.url.path))
        if verb.name.hasPrefix("kv") || verb.name.hasPrefix("secret") {
            #expect(run.status == 4)
            #expect(run.errors.contains("no store here: there is no"), "\(run.errors)")
        }
        let names = try FileManager.default.subpathsOfDirectory(atPath: scratch.url.path).sorted()
        #expect(names == ["files", "files/mine.txt", "kv", "kv/mine.txt", "vault", "vault/mine.txt"])
    }

    @Test("removing a key from a directory without a store creates none")
    func removeFromForeignDirectory() throws {
        let scratch = try Scratch()
        let run = try CommandRun(["kv", "rm", scratch.url.path, "a"])
        #expect(run.status == 4)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path).isEmpty)
    }

    @Test("checking an empty directory fails, and one with a store without files succeeds")
    func checkWithoutStore() async throws {
        let scratch = try Scratch()
        let run = try CommandRun(["check", scratch.url.path])
        #expect(run.status == 4)
        #expect(run.errors.contains("no store here"), "\(run.errors)")
        try await DiskFileStore(root: scratch.url).open()
        #expect(try CommandRun(["check", scratch.url.path]).status == 0)
    }

    @Test(
        "stores that another process has open for writing can be read",
        arguments: [FileKVStore.Sharing.exclusive, .shared])
    func besideWriter(sharing: FileKVStore.Sharing) async throws {
        let fixture = try await StoreFixture()
        var options = FileKVStore.Options()
        options.sharing = sharing
        let store = try FileKVStore(at: fixture.scratch.url.appendingPathComponent("kv"), options: options)
        try store.set(KVKey<String>("name"), value: "dawn")
        let files = DiskFileStore(root: fixture.scratch.url.appendingPathComponent("files"))
        try await files.save(Data("new".utf8), to: "a.txt")
        let before = try fixture.listing()
        let get = try CommandRun(["kv", "get", fixture.scratch.path("kv"), "name"])
        #expect(get.output == "dawn\n", "\(get.errors)")
        #expect(try CommandRun(["kv", "list", fixture.scratch.path("kv")]).output.contains("dawn"))
        #expect(try CommandRun(["file", "get", fixture.scratch.path("files"), "a.txt"]).output == "new")
        #expect(try CommandRun(["file", "list", fixture.scratch.path("files")]).output.contains("a.txt"))
        #expect(try CommandRun(["check", fixture.scratch.url.path]).status == 0)
        #expect(try fixture.listing() == before)
        try store.set(KVKey<String>("name"), value: "noon")
        #expect(try CommandRun(["kv", "get", fixture.scratch.path("kv"), "name"]).output == "noon\n")
        withExtendedLifetime(files) {}
    }

    /// Starts the command as a user to whom directory modes apply; nil if that is not possible.
    private static let unprivileged: [String]? =
        if geteuid() != 0 {
            []
        } else if FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") {
            ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        } else {
            nil
        }

    @Test(
        "in read-only stores, reading succeeds and writing fails with one line that contains the error",
        .enabled(if: unprivileged != nil), arguments: Verb.all)
    func unwritable(verb: Verb) async throws {
        let prefix = try #require(Self.unprivileged)
        let fixture = try await StoreFixture()
        let root = fixture.scratch.url.path
        try verb.prepare(root)
        let paths = [root] + (try FileManager.default.subpathsOfDirectory(atPath: root).map { "\(root)/\($0)" })
        func setModes(ofDirectories directoryMode: Int, ofFiles fileMode: Int) throws {
            for path in paths.reversed() {
                var isDirectory: ObjCBool = false
                _ = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
                let mode = isDirectory.boolValue ? directoryMode : fileMode
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            }
        }
        if !prefix.isEmpty { for path in paths { try #require(chown(path, 65534, 65534) == 0) } }
        try setModes(ofDirectories: 0o500, ofFiles: 0o400)
        let before = try fixture.listing()
        let run = try CommandRun(verb.words(in: root), input: Data(verb.input.utf8), prefix: prefix)
        #expect(try fixture.listing() == before)
        switch verb.access {
        case .reads, .none: #expect(run.status == 0, "\(run.errors)")
        case .changes, .creates, .copies:
            #expect(run.status == 1)
            #expect(run.errorLines.count == 1, "\(run.errors)")
            #expect(run.errors.contains("Permission denied (EACCES)"), "\(run.errors)")
            #expect(!run.errors.contains("input/output"), "\(run.errors)")
        }
        for path in paths { _ = chmod(path, 0o700) }
    }
}
