import ForgeStorage
import Foundation
import Testing

@testable import ForgeCommands

struct DemoTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("the demo stores everything, reads it back in a second process, shows it, and removes it")
    func plays() throws {
        let directory = scratch.path("new/demo")
        let run = try CommandRun(["demo", "--directory", directory])
        #expect(run.status == 0 && run.errors.isEmpty, "\(run.errors)")
        let image = "https=3a=2f=2fexample.com=2fteam=3fsize=3d2x.cache"
        let line = String(repeating: "─", count: image.count)
        let expected = """
            TaskFlow starts for the first time, in \(directory)
              stored: onboarding flag, settings, access token, avatar (27 B),
                      session, 2 cached images, a timeline
            A second process reads everything back
              process 0: all there, byte for byte
            What is stored where
              Name                                                Store              Bytes  Path
              \(line)  ─────────────────  ─────  ───────\(line)
              session.user                                        FileKVStore           47  settings
              taskflow.onboarding                                 FileKVStore            3  settings
              taskflow.settings                                   FileKVStore           77  settings
              auth.access                                         VaultCrypt           287  secrets/vault
              avatars/current.jpg                                 DiskFileStore         27  files/avatars/current.jpg
              board_background.cache                              ImageCacheManager     0  images/board_background.cache
              \(image)  ImageCacheManager   0  images/\(image)
              timelines/home                                      CodableStorage        34  values/timelines/home
            TaskFlow logs out
              nothing that the demo stored is left; 17 files of the empty stores remain:
              #lock-vaults, #store-vaults, files/#journal-0, files/#store-files, forge-demo.txt, images/#journal-0, \
            images/#store-images, secrets/#lock-vaults, secrets/#store-vaults, secrets/vault, settings/#lock, \
            settings/#reserve, settings/#store-key-value, settings/log, values/#journal-0, values/#store-values, vault-key

            """
        // The number of a process, and the length of the time in a cached image, are different in every run.
        let output = run.output.replacing(/process [0-9]+:/, with: "process 0:")
            .replacing(#/[0-9]+  images/#, with: "0  images")
        #expect(output == expected)
    }

    @Test("a user's file round-trips, and a second demo continues from the first")
    func keepsAvatar() throws {
        let avatar = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) })
        try avatar.write(to: scratch.url.appendingPathComponent("me.jpg"))
        for _ in 0..<2 {
            let run = try CommandRun([
                "demo", "--keep", "--directory", scratch.path("demo"), "--avatar", scratch.path("me.jpg"),
            ])
            #expect(run.status == 0, "\(run.errors)")
        }
        let fetched = try CommandRun([
            "file", "get", scratch.path("demo/files"), "avatars/current.jpg", "--output", scratch.path("back.jpg"),
        ])
        #expect(fetched.status == 0, "\(fetched.errors)")
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("back.jpg")) == avatar)
    }

    @Test("each stored item that is still there is named")
    func remains() async throws {
        let stores = try DemoStores(directory: scratch.url.appendingPathComponent("demo"))
        let story = DemoStory(stores: stores, content: try DemoContent(avatarFile: nil))
        #expect(try await story.remains().isEmpty)
        try await story.store()
        #expect(try await story.differences().isEmpty)
        let images = story.content.images.map { "the cached image \($0.0)" }
        #expect(
            try await story.remains()
                == ["the onboarding flag", "the settings", "the access token", "the avatar", "the session"] + images
                + ["the timeline"])
        // A user may have removed it.
        try await stores.files.delete(TaskFlow.avatar)
        try await story.logOut()
        #expect(try await story.remains().isEmpty)
    }

    @Test("each stored item that is read back differently is named")
    func changedItems() async throws {
        let stores = try DemoStores(directory: scratch.url.appendingPathComponent("demo"))
        let story = DemoStory(stores: stores, content: try DemoContent(avatarFile: nil))
        try await story.store()
        try stores.settings.set(TaskFlow.onboarding, value: false)
        try stores.settings.set(TaskFlow.settings, value: TaskFlow.Settings())
        try stores.secrets.set("other", for: TaskFlow.accessToken)
        try await stores.files.save(Data([1]), to: TaskFlow.avatar)
        try stores.session.saveUser(TaskFlow.User(id: "0", name: "", email: ""))
        for (id, _) in story.content.images { try stores.images.cacheImage(id: id, data: Data([1])) }
        try await stores.values.saveInBackground(TaskFlow.Timeline(tweets: []), for: TaskFlow.timeline)
        let images = story.content.images.map { "the cached image \($0.0)" }
        #expect(
            try await story.differences()
                == ["the onboarding flag", "the settings", "the access token", "the avatar", "the session"] + images
                + ["the timeline"])
    }

    @Test("what is read back differently is named, and is a failure")
    func differences() throws {
        let directory = scratch.path("demo")
        #expect(try CommandRun(["demo", "--keep", "--directory", directory]).status == 0)
        #expect(try CommandRun(["kv", "set", "\(directory)/settings", "taskflow.onboarding", "false"]).status == 0)
        let run = try CommandRun(["demo", "--read-back", "--directory", directory])
        #expect(run.status == 1 && run.output.isEmpty, "\(run.output)")
        #expect(run.errors == "Error: read back differently: the onboarding flag\n")
    }

    #if os(Linux)
    @Test("a second process that does not find what the first one stored is a failure")
    func secondProcess() throws {
        // The content of this file is another one in each process.
        let run = try CommandRun(["demo", "--directory", scratch.path("demo"), "--avatar", "/proc/self/stat"])
        #expect(run.status == 1 && run.output.hasSuffix("A second process reads everything back\n"), "\(run.output)")
        #expect(
            run.errors == """
                Error: read back differently: the avatar
                Error: the second process failed with status 1

                """)
    }
    #endif

    @Test("a missing avatar is one line on standard error")
    func missingAvatar() throws {
        let run = try CommandRun(["demo", "--directory", scratch.path("demo"), "--avatar", scratch.path("none.jpg")])
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("none.jpg"))
    }

    @Test("an avatar that is not a regular file is one line on standard error", arguments: ["/dev/null", "fifo"])
    func specialAvatar(_ name: String) throws {
        try #require(mkfifo(scratch.path("fifo"), 0o600) == 0)
        let path = name.hasPrefix("/") ? name : scratch.path(name)
        let run = try CommandRun(["demo", "--directory", scratch.path("demo"), "--avatar", path])
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("ENOTSUP"))
    }

    @Test("a directory that cannot be created is one line on standard error")
    func impossibleDirectory() throws {
        try Data().write(to: scratch.url.appendingPathComponent("file"))
        let run = try CommandRun(["demo", "--directory", scratch.path("file/demo")])
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
    }

    @Test(
        "a full disk is one line on standard error", .enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
    func fullDisk() throws {
        try Data("x".utf8).write(to: scratch.url.appendingPathComponent("x"))
        #expect(try CommandRun(["file", "set", scratch.path("files"), "x", scratch.path("x")]).status == 0)
        let run = try CommandRun(["file", "get", scratch.path("files"), "x", "--output", "/dev/full"])
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(run.errors.contains("ENOSPC"))
    }
}

@Suite("The directory of the demo")
struct DemoDirectoryTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func plant(_ path: String) throws -> URL {
        let file = scratch.url.appendingPathComponent(path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data("mine".utf8).write(to: file)
        return file
    }

    private func demo(_ arguments: String...) throws -> CommandRun {
        try CommandRun(["demo", "--directory", scratch.path("demo")] + arguments)
    }

    @Test("a directory that holds other files is refused and left unchanged")
    func foreign() throws {
        let file = try plant("demo/files/mine.txt")
        let run = try demo()
        #expect(run.status == 1)
        #expect(run.errorLines.count == 1)
        #expect(try Data(contentsOf: file) == Data("mine".utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path("demo")) == ["files"])
    }

    @Test("every stored file is listed with its size, and none that a store keeps for itself")
    func inventory() throws {
        let run = try demo("--keep", "--json")
        #expect(run.status == 0, "\(run.errors)")
        var listed: [String: Int] = [:]
        for row in try run.rows() { listed[try #require(row["path"] as? String)] = row["bytes"] as? Int }
        var stored: [String: Int] = [:]
        for name in ["images", "values", "files"] {
            for path in try FileManager.default.subpathsOfDirectory(atPath: scratch.path("demo/\(name)")) {
                let attributes = try FileManager.default.attributesOfItem(atPath: scratch.path("demo/\(name)/\(path)"))
                guard attributes[.type] as? FileAttributeType == .typeRegular, !path.contains("#") else { continue }
                stored["\(name)/\(path)"] = attributes[.size] as? Int
            }
        }
        #expect(stored.count >= 3)
        #expect(listed.filter { $0.key.contains("/") && $0.key != "secrets/vault" } == stored)
    }

    @Test("logging out removes what the demo stored and nothing else")
    func otherFilesStay() throws {
        #expect(try demo("--keep").status == 0)
        let files = try [
            "demo/mine.txt", "demo/files/mine.txt", "demo/files/avatars/mine.jpg", "demo/images/mine.cache",
            "demo/values/mine", "demo/secrets/mine",
        ].map(plant)
        #expect(try CommandRun(["kv", "set", scratch.path("demo/settings"), "mine", "1"]).status == 0)
        let run = try demo()
        #expect(run.status == 0, "\(run.errors)")
        for file in files { #expect(try Data(contentsOf: file) == Data("mine".utf8)) }
        #expect(try CommandRun(["kv", "get", scratch.path("demo/settings"), "mine"]).output == "1\n")
        #expect(run.output.contains("mine.txt"))
    }

    @Test("the first line states whether the demo starts for the first time")
    func firstLine() throws {
        #expect(try demo("--keep").output.hasPrefix("TaskFlow starts for the first time"))
        #expect(try demo().output.contains("starts again in \(scratch.path("demo")), still logged in"))
        #expect(try demo().output.contains("starts again in \(scratch.path("demo")), logged out"))
    }
}
